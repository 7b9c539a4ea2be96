"""`python -m planted_bugs [WORD …]`: plant every bug of the corpus and build every correct twin with the real hipcc,
verify them on the emulator, run the programs of planted bugs for each of their archs, and print a table: bug, kind, what
was found, whether its line is right.

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
from planted_bugs.programs import ARCHS, KernelVerdict, judge_program, programs, run_program


def row(verdict: Verdict) -> str:
    """One line of the table."""
    variant = verdict.variant
    if not variant.finds:
        return f"{'right':24}{variant.name:52}{verdict.verification.outcome}"
    found = ", ".join(kind for kind in verdict.kinds if kind in variant.finds) or "—"
    return f"{variant.kind:24}{variant.name:52}{found:44}{'yes' if verdict.line_right else 'no'}"


def row_of_kernel(verdict: KernelVerdict) -> str:
    """One line of the table."""
    if not verdict.is_planted:
        return f"{'right':24}{verdict.kernel:52}{', '.join(verdict.codes) or 'verified'}"
    found = ", ".join(verdict.codes) or "—"
    return f"{verdict.kind:24}{verdict.kernel:52}{found:44}{'yes' if verdict.right else 'no'}"


def is_wanted(name: str, words: list[str]) -> bool:
    """True if one of the words is in the name, or there is none."""
    return not words or any(word.lower() in name.lower() for word in words)


def judged(words: list[str], library: Path | None, *, details: bool) -> list[Verdict]:
    """The verdicts on the variants that have one of the words in their kind or name, all without words."""
    wanted = [variant for variant in (*bugs(), *twins()) if is_wanted(str(variant), words)]
    verdicts: list[Verdict] = []
    if not wanted:
        return verdicts
    with tempfile.TemporaryDirectory(prefix="ckwatch-emulator-") as folder:
        library = library or anyio.run(build_library, Path(folder), discover().clang)
        for variant in wanted:
            verdict = judge(variant, library)
            verdicts.append(verdict)
            print(row(verdict), flush=True)
            if details or not verdict.right:
                print(verdict, flush=True)
    return verdicts


def judged_kernels(words: list[str], *, details: bool) -> list[KernelVerdict]:
    """The same of the programs' kernels."""
    verdicts: list[KernelVerdict] = []
    for program in programs():
        if not any(is_wanted(f"{program.name}: {kernel}", words) for kernel in program.kernels):
            continue
        runs = [run_program(program, arch) for arch in ARCHS]
        for run in runs:
            if details or not run.is_understood:
                print(f"{program.path.name} for {run.arch}:\n{run.printed}", flush=True)
        for verdict in judge_program(runs):
            if is_wanted(f"{program.name}: {verdict.kernel}", words):
                verdicts.append(verdict)
                print(row_of_kernel(verdict), flush=True)
                if not verdict.right:
                    print(verdict, flush=True)
    return verdicts


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="planted_bugs", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="those that have it in their kind or name")
    parser.add_argument("--library", type=Path, help="an emulator that is built already, for all but programs")
    parser.add_argument("--details", action="store_true", help="print all findings")
    options = parser.parse_args()
    print(f"{'kind':24}{'variant':52}{'found':44}line right")
    variants = judged(options.words, options.library, details=options.details)
    kernels = judged_kernels(options.words, details=options.details)
    verdicts: list[Verdict | KernelVerdict] = [*variants, *kernels]
    planted: list[Verdict | KernelVerdict] = [
        *(one for one in variants if one.variant.finds),
        *(one for one in kernels if one.is_planted),
    ]
    kinds = {one.variant.kind for one in variants if one.variant.finds} | {one.kind for one in kernels}
    correct: list[Verdict | KernelVerdict] = [
        *(one for one in variants if not one.variant.finds),
        *(one for one in kernels if not one.is_planted),
    ]
    print(
        f"{len(planted)} bugs of {len(kinds)} kinds: "
        f"{sum(one.found for one in planted)} found, {sum(one.right for one in planted)} at their line; "
        f"{len(correct)} correct twins: {sum(not one.right for one in correct)} reported"
    )
    return int(any(not verdict.right for verdict in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
