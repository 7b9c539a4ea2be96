"""`python -m planted_bugs [WORD …]`: plant every bug of the corpus and build every correct twin with the real hipcc,
verify them on the emulator, and print a table: bug, kind, what was found, whether its line is right.

`make planted-bugs` runs it. Exit status 1 if a bug is not found at its line, or a twin is reported.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import anyio

from ckwatch.compile.toolchain.discover import discover
from ckwatch.verification.library import build_library
from planted_bugs.corpus import bugs, twins
from planted_bugs.judging import Verdict, judge


def row(verdict: Verdict) -> str:
    """One line of the table."""
    variant = verdict.variant
    if not variant.finds:
        return f"{'right':24}{variant.name:52}{verdict.verification.outcome}"
    found = ", ".join(kind for kind in verdict.kinds if kind in variant.finds) or "—"
    return f"{variant.kind:24}{variant.name:52}{found:44}{'yes' if verdict.line_right else 'no'}"


def judged(words: list[str], library: Path, *, details: bool) -> list[Verdict]:
    """The verdicts on the variants that have one of the words in their kind or name, all without words."""
    verdicts = []
    for variant in (*bugs(), *twins()):
        if words and not any(word.lower() in str(variant).lower() for word in words):
            continue
        verdict = judge(variant, library)
        verdicts.append(verdict)
        print(row(verdict), flush=True)
        if details or not verdict.right:
            print(verdict, flush=True)
    return verdicts


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="planted_bugs", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="those that have it in their kind or name")
    parser.add_argument("--library", type=Path, help="an emulator that is built already")
    parser.add_argument("--details", action="store_true", help="print all findings")
    options = parser.parse_args()
    print(f"{'kind':24}{'variant':52}{'found':44}line right")
    with tempfile.TemporaryDirectory(prefix="ckwatch-emulator-") as folder:
        library = options.library or anyio.run(build_library, Path(folder), discover().clang)
        verdicts = judged(options.words, library, details=options.details)
    planted = [verdict for verdict in verdicts if verdict.variant.finds]
    correct = [verdict for verdict in verdicts if not verdict.variant.finds]
    print(
        f"{len(planted)} bugs of {len({one.variant.kind for one in planted})} kinds: "
        f"{sum(one.found for one in planted)} found, {sum(one.right for one in planted)} at their line; "
        f"{len(correct)} correct twins: {sum(not one.right for one in correct)} reported"
    )
    return int(any(not verdict.right for verdict in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
