"""Every shipped unit, verified on each emulated arch: how many problems are right, refused and wrong.

`python -m benchmarks.verification [WORD …]` builds the units of the folders in SHIPPED that have one of the
words in their name, all without words, for gfx942 and gfx950, has the emulator try them on every problem, and prints a
table. Nothing of it is a time. Exit status 1 if a unit is not verified, or is tried on too few problems.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

from ckwatch.bench.job import VerifyJob
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.kernels import Unit
from ckwatch.model.verification import ProblemOutcome, Verification, VerificationOutcome
from ckwatch.verification.library import build_library
from ckwatch.verification.problems import trials_of
from ckwatch.verification.session import verify
from ckwatch.workspace.loading import load_workspace

EXAMPLES = Path(__file__).parent.parent / "examples"
SHIPPED = (
    "gemm", "batched_gemm", "convolution", "ck_tile", "hip", "scaled_gemm", "grouped_gemm", "attention", "moe",
    "preshuffled_gemm", "microscaled_gemm", "normalization",
)  # fmt: skip
ARCHS = ("gfx942", "gfx950")
LEAST = 30
"""Problems of a unit at least, if it is a product of matrices."""

LEAST_OF_ROWS = 20
"""Problems of a unit that computes row by row, whose kind names its sizes itself."""

TIME_LIMIT_S = 900.0


def shipped_units(words: Sequence[str]) -> Iterator[tuple[str, Unit]]:
    """The example and the unit. The workspace's archs are no limit, those of a kernel file are: it says why."""
    for example in SHIPPED:
        known = {(unit.kernel.name, unit.instance.name): unit for unit in load_workspace(EXAMPLES / example).units}
        for unit in known.values():
            for arch in ARCHS:
                made = Unit(unit.kernel, unit.instance, arch)
                if is_made_for(unit, arch) and (not words or any(word in made.id for word in words)):
                    yield example, made


def least_of(unit: Unit) -> int:
    """On how many problems a unit is tried at least."""
    return LEAST if unit.kernel.operation.rows is None else LEAST_OF_ROWS


def is_made_for(unit: Unit, arch: str) -> bool:
    """True if the kernel file names no archs, or this one."""
    return not unit.kernel.arch_spans or arch in unit.kernel.archs


def built(example: str, unit: Unit, folder: Path, *options: str) -> dict[str, Any] | None:
    """Output of `ckwatch build` for a unit, from the store or compiled first; None where it does not compile."""
    name = f"{unit.kernel.name}/{unit.instance.name}"
    command = [sys.executable, "-m", "ckwatch", "build", name, "-C", str(EXAMPLES / example), "--arch", unit.arch]
    environment = {**os.environ, "CKWATCH_TRUST_FILE": str(folder / "trusted")}
    printed = subprocess.run(
        [*command, "--no-daemon", "--trust", "--json", *options], stdout=subprocess.PIPE, env=environment, check=False
    )
    events = [json.loads(line) for line in printed.stdout.splitlines()]
    return next((event for event in events if event["event"] == "unit" and event["outcome"] == "built"), None)


def cells(unit: Unit, found: Verification | None) -> list[str]:
    """A row of the table."""
    counts = Counter(one.outcome for one in found.problems) if found is not None else Counter[ProblemOutcome]()
    problems = "does not compile" if found is None else str(len(found.problems))
    return [unit.id, problems, *(str(counts[outcome] or "") for outcome in ProblemOutcome)]


def verified(unit: Unit, event: Mapping[str, Any], library: Path) -> Verification:
    """Verify a built unit with the emulator; print what is wrong. Raises CkwatchError without a
    toolchain."""
    artifact = Path(event["products"]["shared-object"]).read_bytes()
    objdump = str(discover().objdump)
    job = VerifyJob(
        arch=unit.arch, symbol=event["symbol"], trials=trials_of(unit), library=str(library), objdump=objdump
    )
    found = anyio.run(partial(verify, job, artifact, time_limit_s=TIME_LIMIT_S))
    for one in found.problems:
        if one.outcome in (ProblemOutcome.WRONG, ProblemOutcome.NOT_VERIFIED):
            print(f"    {one.outcome}: {one.name} ({one.shape}): {one.message}")
    for finding in found.mistakes:
        print(f"    {finding.kind}: {finding.problem}: {finding.message}")
    return found


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="units that have it in their name")
    words = parser.parse_args().words
    table = Table("unit", "problems", *ProblemOutcome, title="shipped units on the emulator")
    right = True
    with tempfile.TemporaryDirectory(prefix="ckwatch-verification-") as name:
        library = anyio.run(build_library, Path(name), discover().clang)
        for example, unit in shipped_units(words):
            event = built(example, unit, Path(name))
            found = None if event is None else verified(unit, event, library)
            row = cells(unit, found)
            table.add_row(*row)
            print("  ".join(cell or "0" for cell in row), flush=True)
            if (
                found is None
                or found.outcome is not VerificationOutcome.VERIFIED
                or len(found.problems) < least_of(unit)
            ):
                right = False
    Console(width=140).print(table)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
