"""Programs of planted bugs, `programs/*.hip`: a namespace is a kind of mistake, its kernels `wrong…` have it, at the
lines that end in `// code of the finding`, and its kernels `right…` do not. `ckwatch emulate` compiles and runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"
ARCHS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
LIMIT_S = 900

LOOKS_ATOMIC = frozenset({"plain_store_among_atomics::wrong", "counter_reset::wrong"})
"""Silent where a plain store and an atomic one are the same instruction."""
ARCHS_WITHOUT_ATOMIC_STORES = ("gfx90a", "gfx1100")


@dataclass(frozen=True)
class Program:
    """A source file; its kernels are named `namespace::kernel`."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem.replace("_", " ")

    @cached_property
    def lines(self) -> list[str]:
        return self.path.read_text("utf-8").splitlines()

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        found, namespace = [], ""
        for line in self.lines:
            if match := re.match(r"namespace (\w+) \{", line):
                namespace = match[1]
            elif match := re.match(r"__global__ void (\w+)\(", line):
                found.append(f"{namespace}::{match[1]}")
        return tuple(found)

    @cached_property
    def planted(self) -> Mapping[int, str]:
        """The code of what may be found, by line number."""
        marks = (
            (number, re.search(r"// ([a-z]+(?:-[a-z]+)+|misaligned)$", line))
            for number, line in enumerate(self.lines, 1)
        )
        return {number: mark[1] for number, mark in marks if mark}


@dataclass(frozen=True)
class Finding:
    """A mistake that `ckwatch emulate` has printed."""

    line: int
    kernel: str
    code: str


@dataclass(frozen=True)
class Run:
    """A program that has run for an arch; `printed` is all that it and the emulator said."""

    program: Program
    arch: str
    printed: str
    findings: tuple[Finding, ...]
    computed_right: bool

    @property
    def is_understood(self) -> bool:
        """True where each error that was printed is one of the findings, and the right kernels' results are right."""
        return self.computed_right and len(self.findings) == self.printed.count(": error: ")


@dataclass(frozen=True)
class KernelVerdict:
    """A kernel on all archs that were tried."""

    program: Program
    kernel: str
    missed_on: tuple[str, ...]
    astray: tuple[tuple[str, Finding], ...]
    """Findings that are not where, or what, was planted, with their arch."""
    codes: tuple[str, ...]
    unclear_on: tuple[str, ...] = ()
    """Archs on which the program did not end well, or said something else."""

    @property
    def kind(self) -> str:
        return self.kernel.partition("::")[0].replace("_", " ")

    @property
    def is_planted(self) -> bool:
        return is_planted(self.kernel)

    @property
    def found(self) -> bool:
        return self.is_planted and not self.missed_on

    @property
    def right(self) -> bool:
        return not (self.missed_on or self.astray or self.unclear_on)

    def __str__(self) -> str:
        lines = [f"{self.program.path.name}: {self.kernel}"]
        lines += [f"  the program did not run as it should on {arch}" for arch in self.unclear_on]
        lines += [f"  not found on {arch}" for arch in self.missed_on]
        lines += [f"  {arch}: {one.code} at line {one.line}" for arch, one in self.astray]
        return "\n".join(lines)


def programs() -> list[Program]:
    """All of them."""
    return [Program(path) for path in sorted(FOLDER.glob("*.hip"))]


def is_planted(kernel: str) -> bool:
    """True for a kernel that has a mistake."""
    return kernel.partition("::")[2].startswith("wrong")


def can_be_found(kernel: str, arch: str) -> bool:
    """False where the instructions of the arch do not show the mistake."""
    return not (kernel in LOOKS_ATOMIC and arch in ARCHS_WITHOUT_ATOMIC_STORES)


def run_program(program: Program, arch: str) -> Run:
    """Compile and emulate a program on several threads. Raises subprocess.TimeoutExpired after `LIMIT_S` seconds."""
    flags = "--flags=-O2 -gline-tables-only"
    command = [sys.executable, "-m", "ckwatch", "emulate", "--arch", arch, flags, str(program.path)]
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=os.environ | {"CKWATCH_EMULATOR_THREADS": "3"},
    )
    found = re.compile(
        rf"^\S*{re.escape(program.path.name)}:(\d+):\d+: error: ([\w:]+): .*\[verify/([\w-]+)\]$", re.MULTILINE
    )
    findings = tuple(Finding(int(line), kernel, code) for line, kernel, code in found.findall(ended.stdout))
    return Run(program, arch, ended.stdout, findings, re.search("^0 wrong$", ended.stdout, re.MULTILINE) is not None)


def judge_program(runs: Iterable[Run]) -> list[KernelVerdict]:
    """The verdict on each kernel of one program."""
    tried = list(runs)
    return [_judge_kernel(kernel, tried) for kernel in tried[0].program.kernels]


def _judge_kernel(kernel: str, runs: list[Run]) -> KernelVerdict:
    program = runs[0].program
    missed, astray, codes = [], [], set()
    for run in runs:
        own = [finding for finding in run.findings if finding.kernel == kernel]
        fitting = [one for one in own if is_planted(kernel) and program.planted.get(one.line) == one.code]
        if is_planted(kernel) and not fitting and can_be_found(kernel, run.arch):
            missed.append(run.arch)
        astray += [(run.arch, one) for one in own if one not in fitting]
        codes |= {one.code for one in own}
    unclear = tuple(run.arch for run in runs if not run.is_understood)
    return KernelVerdict(program, kernel, tuple(missed), tuple(astray), tuple(sorted(codes)), unclear)
