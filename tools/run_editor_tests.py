"""Run the tests in real editors, one editor after the other; `--within SECONDS`: those that there is time for.

An editor whose tests are not begun for want of time is named, with what they may take.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRACE_S = 150.0
"""How long an editor's tests may go on after the time has run out."""


@dataclass(frozen=True, slots=True)
class Group:
    """An editor, its tests (a pattern of `tests/editors`), and the seconds they may take on two cores, with what has to
    be installed first: about half as long again as measured."""

    name: str
    pattern: str
    seconds: float

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its tests, from the project's folder."""
        return tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/editors").glob(self.pattern)))


GROUPS = (
    Group("Neovim", "test_neovim*.py", 100),
    Group("VS Code", "test_vscode*.py", 390),
    Group("Helix", "test_helix*.py", 90),
    Group("Emacs", "test_emacs*.py", 270),
)

Run = Callable[[Sequence[str], float | None], int]


def run_within(groups: Sequence[Group], limit_s: float | None, run: Run) -> int:
    """Run the groups that there is time for; the worst exit status."""
    began_s, worst = time.monotonic(), 0
    for group in groups:
        left_s = None if limit_s is None else limit_s - (time.monotonic() - began_s)
        if left_s is not None and left_s < group.seconds:
            print(f"{group.name}: NOT RUN, they may take {group.seconds:.0f} s and {max(left_s, 0):.0f} s are left")
            continue
        print(f"{group.name}:", flush=True)
        worst = max(worst, run(group.files, None if left_s is None else left_s + GRACE_S))
    return worst


def run_pytest(files: Sequence[str], limit_s: float | None) -> int:
    """The exit status of pytest; 1 when it was stopped."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "editors", *files]
    try:
        return subprocess.run(command, cwd=ROOT, check=False, timeout=limit_s).returncode
    except subprocess.TimeoutExpired:
        print("stopped: the time has run out")
        return 1


def main() -> int:
    """The worst exit status of the editors that were tested."""
    parser = argparse.ArgumentParser(description="Run the tests in real editors.")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="run those that there is time for")
    return run_within(GROUPS, parser.parse_args().within, run_pytest)


if __name__ == "__main__":
    sys.exit(main())
