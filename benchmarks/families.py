"""Each family of kernels in a line: where it compiles, on how many problems it was right, what its rules catch.

`python -m benchmarks.families [EXAMPLE …]` builds every instance of these folders of `examples/` (those of Composable
Kernel without names) for ARCHS, verifies it on the emulator for VERIFIED, judges the stored results of
`benchmarks.mutated_instances`, compiles the first instance by hipcc alone and by `ckwatch build --force`, and prints a
table, also as `results/families.md`. The ratio is of processor seconds. An hour and more. Exit status 1 where something
does not compile or is not right.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from benchmarks.mutated_instances import ARCHS as MUTATED_ARCHS
from benchmarks.mutated_instances import RESULTS, Example, stored_results
from benchmarks.process_tree import processor_s
from benchmarks.verification import built, is_made_for, verified
from ckwatch.compile.flags import compile_flags, include_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.kernels import Unit
from ckwatch.model.targets import Language
from ckwatch.model.verification import ProblemOutcome
from ckwatch.verification.library import build_library

EXAMPLES = (
    "gemm", "batched_gemm", "convolution", "ck_tile", "scaled_gemm", "preshuffled_gemm", "microscaled_gemm",
    "grouped_gemm", "moe", "attention", "normalization",
)  # fmt: skip
ARCHS = ("gfx90a", "gfx942", "gfx950")
VERIFIED = ("gfx942", "gfx950")


@dataclass(slots=True)
class Family:
    """Results of the instances of an example."""

    name: str
    made: Counter[str] = field(default_factory=Counter)
    compiled: Counter[str] = field(default_factory=Counter)
    problems: Counter[ProblemOutcome] = field(default_factory=Counter)
    least_problems: int = 0
    registers: list[int] = field(default_factory=list)
    failures: int = 0
    caught: int = 0
    false_rejections: int = 0
    ratio: float = 0.0

    @property
    def right(self) -> bool:
        """True if all compile and none is wrong or not verified."""
        wrong = self.problems[ProblemOutcome.WRONG] + self.problems[ProblemOutcome.NOT_VERIFIED]
        return all(self.compiled[arch] == self.made[arch] for arch in ARCHS) and not wrong and not self.false_rejections

    @property
    def cells(self) -> list[str]:
        """A row of the table."""
        verified = f"{self.problems.total():,}: " + ", ".join(
            f"{count:,} {outcome}" for outcome, count in self.problems.items()
        )
        return [
            self.name,
            *(f"{self.compiled[arch]} of {self.made[arch]}" for arch in ARCHS),
            f"{verified}; at least {self.least_problems} each",
            f"{self.caught} of {self.failures}",
            str(self.false_rejections),
            f"{self.ratio:.2f} ×",
            f"{min(self.registers)}–{max(self.registers)}" if self.registers else "",
        ]


TITLES = (
    "example", *ARCHS, "verified on " + ", ".join(VERIFIED), "rules: caught", "false", "compile / hipcc", "VGPR",
)  # fmt: skip


def against_hipcc(example: str, unit: Unit, text: str, trust: Path) -> float:
    """Processor seconds of `ckwatch build` as a multiple of those of hipcc."""
    toolchain = discover()
    request = CompileRequest(text, "unit", Language.HIP, unit.arch)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "unit.hip").write_text(text)
        command = [str(toolchain.hipcc), *toolchain.hip_arguments]
        command += [*compile_flags(request, toolchain), *unit.kernel.flags]
        command += [*include_flags(request, toolchain), "-c", "unit.hip"]
        begun = processor_s()
        subprocess.run(command, cwd=folder, env={**os.environ, **toolchain.environment}, check=True)
        hipcc = processor_s() - begun
    begun = processor_s()
    built(example, unit, trust, "--force")
    return (processor_s() - begun) / hipcc


def measured(name: str, library: Path, folder: Path) -> Family:
    """All that a row says."""
    family = Family(name)
    example = Example(name, MUTATED_ARCHS)
    counts = []
    made = [replace(one, arch=arch) for one in example.units for arch in ARCHS if is_made_for(one, arch)]
    family.made.update(unit.arch for unit in made)
    for unit in made:
        event = built(name, unit, folder)
        print(unit.id, "built" if event else "does not compile", flush=True)
        if event is None:
            continue
        family.compiled[unit.arch] += 1
        family.registers.append(event["figures"]["vgprs"] + event["figures"]["agprs"])
        if unit.arch not in VERIFIED:
            continue
        found = verified(unit, event, library)
        family.problems.update(one.outcome for one in found.problems)
        counts.append(len(found.problems))
    family.least_problems = min(counts, default=0)
    judged = example.judgement(stored_results(name))
    family.failures, family.caught = judged.failures, judged.caught.total()
    family.false_rejections = len(judged.false_rejections)
    first = next((unit for unit in made if unit.arch == "gfx942"), made[0])
    text = example.rendered(first)
    family.ratio = against_hipcc(name, first, text, folder)
    return family


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", default=EXAMPLES, metavar="EXAMPLE")
    examples = parser.parse_args().examples
    with tempfile.TemporaryDirectory(prefix="ckwatch-families-") as folder:
        library = anyio.run(build_library, Path(folder), discover().clang)
        families = [measured(name, library, Path(folder)) for name in examples]
    rows = [TITLES, tuple("-" * 3 for _ in TITLES), *(family.cells for family in families)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    print(table)
    (RESULTS / "families.md").write_text(table + "\n")
    return 0 if all(family.right for family in families) else 1


if __name__ == "__main__":
    sys.exit(main())
