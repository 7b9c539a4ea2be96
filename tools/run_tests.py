"""Run linters and tests, all of them whatever fails, and say at the end what did.

`run_tests.py [STEP ...] [-- PYTEST OPTIONS]`: the steps of the tables `STEPS` and `OTHERS` by their names; without a
name all of `STEPS`. The last line counts tests, in the form `7516 passed, 3 failed, 2 skipped`; a step that is no test
and fails (a linter, the toolchain) counts as one that failed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
WITHOUT_COMPILERS = "not toolchain and not network and not editors and not browser"
WITH_COMPILERS = "(toolchain or network) and not editors and not browser"
IN_BROWSER = "browser"
NO_TESTS = 5
"""pytest's exit status where nothing was chosen."""

COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
SUMMARY = re.compile(r"\d+ [a-z]+.* in [\d.]+s\b")
FAILED = re.compile(r"(?:FAILED|ERROR) (tests/.*)")
LONGEST_FIRST = ("lsp", "engine", "templates", "bench", ".", "bench/runtimes", "cli", "server", "client")
"""Folders that take longest, so that none of them is left for the end."""


@dataclass(slots=True)
class Result:
    """What came of some steps: how many tests `passed`, `failed`, … and the names of what failed."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Count the other's too."""
        self.counts += other.counts
        self.failed += other.failed

    def last_lines(self) -> str:
        """What failed, line by line, and the counts."""
        names = ["Failed:", *(f"  {name}" for name in self.failed)] if self.failed else []
        shown = ["passed", "failed", *sorted(self.counts.keys() - {"passed", "failed", "deselected"})]
        return "\n".join([*names, ", ".join(f"{self.counts[what]} {what}" for what in shown)])


def summary(lines: Sequence[str]) -> str:
    """pytest's last line; empty where it broke off."""
    return next((line for line in reversed(lines) if SUMMARY.search(line)), "")


def failed_step(name: str) -> Result:
    """A step without tests of its own, or a pytest that broke off."""
    return Result(Counter(failed=1), [name])


def result_of(name: str, output: str, status: int) -> Result:
    """What one pytest printed and returned; `name` stands for it where no test failed and yet it did."""
    lines = output.splitlines()
    result = Result()
    for count, what in COUNT.findall(summary(lines)):
        result.counts["failed" if what.startswith("error") else what] += int(count)
    result.failed = [match[1] for line in lines if (match := FAILED.fullmatch(line))]
    if status not in (0, NO_TESTS) and not result.counts["failed"]:
        result.add(failed_step(f"{name}: pytest ended with exit status {status}"))
    return result


def pytest(chosen: str, options: Sequence[str], files: Sequence[str] = ()) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "pytest", "-q", "-m", chosen, *options, *files]


def folders() -> list[list[str]]:
    """The test files of each folder."""
    tests = ROOT / "tests"
    found = sorted({path.parent for path in tests.rglob("test_*.py")})
    ranked = {tests / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    found.sort(key=lambda folder: ranked.get(folder, len(ranked)))
    return [[str(path.relative_to(ROOT)) for path in sorted(folder.glob("test_*.py"))] for folder in found]


class FolderByFolder:
    """The tests that need no compiler, on as many cores as there are.

    Each folder has a pytest of its own: what a test does to its process, its output or its log concerns nobody else,
    which workers that report over a pipe of their own do not allow.
    """

    def __init__(self, options: Sequence[str]) -> None:
        self.result = Result()
        self._options = options
        self._folders: SimpleQueue[list[str]] = SimpleQueue()
        self._reporting = threading.Lock()
        for files in folders():
            self._folders.put(files)

    def run(self) -> Result:
        """Until there is no folder left."""
        workers = [threading.Thread(target=self._work) for _ in range(os.cpu_count() or 1)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return self.result

    def _work(self) -> None:
        while True:
            try:
                files = self._folders.get_nowait()
            except Empty:
                return
            self._run(files)

    def _run(self, files: Sequence[str]) -> None:
        began_s = time.monotonic()
        command = pytest(WITHOUT_COMPILERS, self._options, files)
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = ended.stdout.decode(errors="replace")
        folder = str(Path(files[0]).parent)
        result = result_of(folder, text, ended.returncode)
        last = summary(text.splitlines()) or "nothing"
        with self._reporting:
            self.result.add(result)
            if result.failed:
                print(text)
            print(f"{folder}: {last.strip('= ')} ({time.monotonic() - began_s:.0f} s)", flush=True)


def without_compilers(options: Sequence[str]) -> Result:
    """The tests that need neither compiler nor network."""
    return FolderByFolder(options).run()


def with_compilers(options: Sequence[str]) -> Result:
    """The tests that need them, in one pytest: compilers take every core."""
    return _one_pytest("tests with compilers", pytest(WITH_COMPILERS, options))


def in_browser(options: Sequence[str]) -> Result:
    """The tests of the page."""
    return _one_pytest("tests in a browser", pytest(IN_BROWSER, options, ["tests/web"]))


def _one_pytest(name: str, command: Sequence[str]) -> Result:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None  # noqa: S101
        printed = bytearray()
        while some := os.read(process.stdout.fileno(), 1 << 16):
            printed += some
            sys.stdout.buffer.write(some)
            sys.stdout.buffer.flush()
    return result_of(name, printed.decode(errors="replace"), process.returncode)


def commands(name: str, *lines: str) -> Callable[[Sequence[str]], Result]:
    """A step that runs all of these programs, found beside Python; of alternatives (`||`) the first that succeeds."""

    def run(_options: Sequence[str]) -> Result:
        result = Result()
        for line in lines:
            print(f"{line}:", flush=True)
            if not any(_succeeds(alternative) for alternative in line.split(" || ")):
                result.add(failed_step(f"{name}: {line}"))
        return result

    return run


def _succeeds(line: str) -> bool:
    program, *arguments = line.split()
    return subprocess.run([BIN / program, *arguments], cwd=ROOT, check=False).returncode == 0


STEPS = {
    "lint": commands(
        "lint",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "check-jsonschema --builtin-schema vendor.github-workflows"
        " .github/workflows/ci.yml .github/workflows/release.yml",
        "check-jsonschema --builtin-schema vendor.github-issue-forms"
        " .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml",
        "check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml",
        "zensical build --strict --clean",
    ),
    "without-compilers": without_compilers,
    "toolchain": commands("toolchain", "ckwatch doctor --quiet || ckwatch toolchain install"),
    "with-compilers": with_compilers,
}
"""What runs where no step is named."""

OTHERS = {"web": in_browser}


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 when anything failed, 2 for a step that there is not."""
    names, options = list(arguments), list[str]()
    if "--" in names:
        at = names.index("--")
        names, options = names[:at], names[at + 1 :]
    known = STEPS | OTHERS
    if unknown := [name for name in names if name not in known]:
        print(f"no such step: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # dozens of processes would each compile the same modules anew
    result = Result()
    for name in names or STEPS:
        result.add(known[name](options))
    if result.counts:
        print(result.last_lines())
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
