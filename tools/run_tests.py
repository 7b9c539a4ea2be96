"""Run linters and tests, all of them whatever fails, and say at the end what did.

`run_tests.py [STEP ...] [-- PYTEST OPTIONS]`: the steps of the tables `STEPS` and `OTHERS` by their names; without a
name all of `STEPS`. The last line counts tests, in the form `7516 passed, 3 failed, 2 skipped`; a step that is no test
and fails (a linter, the toolchain) counts as one that failed.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
COMPILERS = "toolchain or network"
ELSEWHERE = "editors or browser"
PROCESSES = min((os.cpu_count() or 1) + 1, 8)
"""One more than processors, as tests wait for half of their time. Each collects all tests, which takes half a minute:
with more of them most would do nothing else."""

NO_TESTS = 5
"""pytest's exit status where nothing was chosen."""

COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
SUMMARY = re.compile(r"\d+ [a-z]+.* in [\d.]+s\b")
FAILED = re.compile(r"(?:FAILED|ERROR) (tests/.*)")


@dataclass(slots=True)
class Result:
    """Results of some steps: how many tests `passed`, `failed`, … and the names of what failed."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Count the other's too."""
        self.counts += other.counts
        self.failed += other.failed

    def last_lines(self) -> str:
        """The names of what failed, line by line, and the counts."""
        names = ["Failed:", *(f"  {name}" for name in self.failed)] if self.failed else []
        shown = ["passed", "failed", *sorted(self.counts.keys() - {"passed", "failed", "deselected"})]
        return "\n".join([*names, ", ".join(f"{self.counts[what]} {what}" for what in shown)])


Step = Callable[[Sequence[str]], Result]
"""Takes options for pytest."""


def summary(lines: Sequence[str]) -> str:
    """pytest's last line; empty where it broke off."""
    return next((line for line in reversed(lines) if SUMMARY.search(line)), "")


def failed_step(name: str) -> Result:
    """A step without tests of its own, or a pytest that broke off."""
    return Result(Counter(failed=1), [name])


def result_of(name: str, output: str, status: int) -> Result:
    """The result of one pytest, by its output and status; `name` stands for it where no test failed and yet it did."""
    lines = output.splitlines()
    result = Result()
    for count, what in COUNT.findall(summary(lines)):
        result.counts["failed" if what.startswith("error") else what] += int(count)
    result.failed = [match[1] for line in lines if (match := FAILED.fullmatch(line))]
    if status not in (0, NO_TESTS) and not result.counts["failed"]:
        result.add(failed_step(f"{name}: pytest ended with exit status {status}"))
    return result


def pytest(chosen: str, *files: str, processes: int = PROCESSES, root: Path = ROOT) -> Step:
    """Run the tests with these marks in one pool of processes.

    A process that has no tests left takes some of another's. One that dies fails its test and is replaced.
    """
    pool = ("-n", str(processes), "--dist", "worksteal", "--continue-on-collection-errors")

    def run(options: Sequence[str]) -> Result:
        command = [sys.executable, "-m", "pytest", "-q", *pool, "-m", chosen, *options, *files]
        environment = {"PYTHONHASHSEED": str(random.getrandbits(31)), **os.environ}  # the same tests in every process
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would rewrite the asserts of all tests
        with subprocess.Popen(
            command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None  # noqa: S101
            printed = bytearray()
            while some := os.read(process.stdout.fileno(), 1 << 16):
                printed += some
                sys.stdout.buffer.write(some)
                sys.stdout.buffer.flush()
        return result_of(chosen, printed.decode(errors="replace"), process.returncode)

    return run


def commands(name: str, *lines: str) -> Step:
    """Run all of these programs, found beside Python; of alternatives (`||`) the first that succeeds."""

    def run(_options: Sequence[str]) -> Result:
        result = Result()
        for line in lines:
            if not any(_succeeds(alternative) for alternative in line.split(" || ")):
                result.add(failed_step(f"{name}: {line}"))
        return result

    return run


def _succeeds(line: str) -> bool:
    program, *arguments = line.split()
    ended = subprocess.run([BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"\n{line}:\n{ended.stdout}{ended.stderr}", flush=True)
    return ended.returncode == 0


SITE = "zensical build --strict --clean"
STEPS: Mapping[str, Step] = {
    "lint": commands(
        "lint",
        "ruff check .",
        "ruff format --check .",
        "lint-imports --no-cache --no-logo",
        "mypy",
        "check-jsonschema --builtin-schema vendor.github-workflows"
        " .github/workflows/ci.yml .github/workflows/release.yml",
        "check-jsonschema --builtin-schema vendor.github-actions action.yml",
        "check-jsonschema --builtin-schema vendor.github-issue-forms"
        " .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml",
        "check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml",
        SITE,
    ),
    "toolchain": commands("toolchain", "ckwatch doctor --quiet || ckwatch toolchain install"),
    "tests": pytest(f"not ({ELSEWHERE})"),
}
"""Steps that run where none is named."""

OTHERS: Mapping[str, Step] = {
    "docs": commands("docs", SITE),
    "without-compilers": pytest(f"not ({COMPILERS} or {ELSEWHERE})"),
    "with-compilers": pytest(f"({COMPILERS}) and not ({ELSEWHERE})"),
    "web": pytest("browser", "tests/web", processes=1),
}
BESIDE = "lint"
"""The step that runs while the others do: it keeps one core busy at most."""


def main(arguments: Sequence[str], steps: Mapping[str, Step] = STEPS) -> int:
    """The exit status: 1 when anything failed, 2 for a step that there is not."""
    names, options = list(arguments), list[str]()
    if "--" in names:
        at = names.index("--")
        names, options = names[:at], names[at + 1 :]
    known = {**steps, **OTHERS}
    if unknown := [name for name in names if name not in known]:
        print(f"no such step: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    names = names or [*steps]
    result = Result()
    with ThreadPoolExecutor() as beside:
        linted = [beside.submit(known[name], options) for name in names if name == BESIDE]
        for name in names:
            if name != BESIDE:
                result.add(known[name](options))
    for each in linted:
        result.add(each.result())
    if result.counts:
        print(result.last_lines())
    return 1 if result.failed else 0


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # dozens of processes would each compile the same modules anew
    sys.exit(main(sys.argv[1:]))
