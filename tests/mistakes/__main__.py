"""`python -m mistakes [WORD …]`: plant every mistake of the corpus, or those that have a word in their kind or name, run
the real command on each, and print what it got wrong and the five figures.

`make mistakes` runs it. Exit status 1 if a case fails that is not known to fail.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from mistakes.corpus import Case, cases
from mistakes.judging import Verdict, judge, use_own_folders

FIGURES = ("file", "line", "column", "cause")
GOALS = (100.0, 99.0, 97.0, 97.0, 0.1)


def figures(verdicts: Sequence[Verdict]) -> list[float]:
    """The part of the cases in percent whose first message has the right file, line and column, and names the cause; and
    the messages per case beyond one."""
    right = [100 * sum(getattr(one, name) for one in verdicts) / len(verdicts) for name in FIGURES]
    return [*right, sum(one.noise for one in verdicts) / len(verdicts)]


def table(verdicts: Iterable[Verdict]) -> str:
    """The figures of each kind and of all."""
    kinds: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        kinds.setdefault(verdict.case.kind, []).append(verdict)
    everything = [one for rows in kinds.values() for one in rows]
    head = "".join(f"{name:>9}" for name in ("cases", "file", "line", "column", "cause", "noise"))
    lines = [f"{'':20}{head}"]
    for name, rows in [*kinds.items(), ("all", everything)]:
        *right, noise = figures(rows)
        lines.append(f"{name:20}{len(rows):9}{''.join(f'{value:7.1f} %' for value in right)}{noise:9.2f}")
    *right, noise = GOALS
    lines.append(f"{'goal':20}{'':9}{''.join(f'{value:7.1f} %' for value in right)}{noise:9.2f}")
    return "\n".join(lines)


def chosen(words: Sequence[str]) -> list[Case]:
    """The cases that have one of the words in their kind or name; all without words."""
    return [case for case in cases() if not words or any(word.lower() in str(case).lower() for word in words)]


def main() -> int:
    """Run the cases and print their verdicts."""
    parser = argparse.ArgumentParser(prog="mistakes", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="run the cases that have it in their kind or name")
    parser.add_argument("--jobs", type=int, default=2, help="cases at one time (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="only cases that need no compiler")
    parser.add_argument("--quiet", action="store_true", help="print the figures only")
    options = parser.parse_args()
    rows = [case for case in chosen(options.words) if case.command == "check" or not options.check]
    if not rows:
        parser.error("no case has these words")
    with (
        tempfile.TemporaryDirectory(prefix="ckwatch-mistakes-") as folder,
        ProcessPoolExecutor(options.jobs, get_context("spawn"), use_own_folders, (folder,)) as pool,
    ):
        verdicts = []
        for verdict in pool.map(judge, rows):
            verdicts.append(verdict)
            if not options.quiet and not verdict.right:
                print(verdict, end="\n\n", flush=True)
    print(table(verdicts))
    return int(any(not one.right and one.case.fails is None for one in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
