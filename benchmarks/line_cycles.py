"""The estimated cycles of instructions and lines, held against profiles that others took on AMD GPUs.

    python -m benchmarks.line_cycles [FILE …] [--arch ARCH] [--waves N] [--workgroup-waves N]

The files are `code.json` of a thread trace's `ui_output` folder, with hits or with samples; by default the one in
../shared/profiles (MI300X, whose workgroups have 8 waves by its source, and whose registers let 4 waves on a SIMD).

Nothing is emulated here, so counts are those of the file: hits, or the mean of the issued samples of a basic block. A
memory access is taken to touch side by side what its lanes want, and one of LDS to have no conflicts.

*rank*: Spearman's correlation with the file's cycles or samples, of the estimate and of issues. *first N*: what part of
these the first N lines or instructions of each order have, and the best that any order could have.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ckwatch.codeobject.control_flow import control_flow_of
from ckwatch.codeobject.device_profiles import read_profile
from ckwatch.codeobject.disassembly import Instruction, InstructionKind, traits
from ckwatch.model.device_profiles import DeviceProfile, ProfiledPlace
from ckwatch.model.instruction_counts import InstructionCounts
from ckwatch.model.instruction_cycles import InstructionCycles
from ckwatch.prediction.wait_and_issue import Residency, cycles_of
from ckwatch.verification.counting import cache_line_bytes

TRACE = Path(__file__).parents[2] / "shared" / "profiles" / "att_code.json"
FIRST = {"lines": (3, 5, 10), "instructions": (5, 10, 20, 50)}
SCALE = 1000
"""Counts are whole numbers; a block's mean of samples is not."""

Floats = NDArray[np.float64]
"""A number for each line or instruction."""


def instructions_of(places: Sequence[ProfiledPlace]) -> list[Instruction]:
    """The instructions of a profile with the targets of branches, whose operand counts words from the next one."""
    found = []
    for number, place in enumerate(places):
        address = place.address or 0
        after = places[number + 1].address if number + 1 < len(places) else None
        branch = re.fullmatch(r"s_c?branch\w* (\d+)", place.text)
        target = None
        if branch is not None:
            words = int(branch[1])
            target = address + 4 + 4 * (words - 0x10000 if words & 0x8000 else words)
        found.append(
            Instruction(address, place.text.partition(" ")[0], place.text, (after or address + 4) - address, target)
        )
    return found


def issues_of(profile: DeviceProfile, instructions: Sequence[Instruction]) -> list[int]:
    """How often each instruction was issued, in thousandths for samples."""
    if profile.unit == "cycles":
        return [place.hits for place in profile.places]
    found = [0] * len(instructions)
    for block in control_flow_of(instructions).blocks:
        members = range(block.first, block.last + 1)
        mean = round(SCALE * sum(profile.places[index].issued for index in members) / len(members))
        for index in members:
            found[index] = mean
    return found


def counts_of(instruction: Instruction, issued: int, line_bytes: int) -> InstructionCounts:
    """The counts of an instruction whose lanes access places side by side."""
    found = traits(instruction.mnemonic)
    memory = found.kind in (InstructionKind.GLOBAL_LOAD, InstructionKind.GLOBAL_STORE)
    lines = max(1, 64 * found.bytes // line_bytes)
    requests = issued if memory else 0
    return InstructionCounts(issued, 64 * issued, requests=requests, cache_lines=requests * lines)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's, with the mean rank for equal values; NaN where all are equal."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1]) if np.ptp(one) and np.ptp(other) else math.nan


def _ranks(values: Floats) -> Floats:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places].astype(np.float64)


def held(order: Floats, weights: Floats, first: int) -> float:
    """The part of the weights that the first ones of an order have."""
    return float(weights[np.argsort(-order, kind="stable")[:first]].sum() / weights.sum())


def _summed(values: Floats, groups: Sequence[Hashable]) -> Floats:
    sums: dict[Hashable, float] = defaultdict(float)
    for group, value in zip(groups, values, strict=True):
        sums[group] += value
    return np.array(list(sums.values()))


def _spent(found: Mapping[int, InstructionCycles], address: int) -> float:
    one = found.get(address)
    return 0.0 if one is None else one.issue + sum(one.waits.values())


def record(path: Path, resident: Residency, say: Callable[[str], None] = print) -> None:
    """Print how good the estimate is for one file."""
    profile = read_profile(path.read_bytes())
    instructions = instructions_of(profile.places)
    issues = issues_of(profile, instructions)
    counts = {
        one.address: counts_of(one, issued, resident.line_bytes)
        for one, issued in zip(instructions, issues, strict=True)
    }
    estimate = cycles_of(instructions, counts, resident)
    if estimate is None:
        raise SystemExit(f"no numbers for {resident.arch}")
    cycles = np.array([_spent(estimate.instructions, one.address) for one in instructions])
    weights = np.array([float(profile.weight(place)) for place in profile.places])
    say(f"{path.name}, {resident.arch}: {len(instructions)} instructions, {weights.sum():,.0f} {profile.unit}")
    for note in estimate.notes:
        say(f"  {note}")
    lines = [(place.path, place.line) for place in profile.places]
    for name, groups in (("lines", lines), ("instructions", list(range(len(lines))))):
        ours, theirs = _summed(cycles, groups), _summed(weights, groups)
        issued = _summed(np.array(issues, np.float64), groups)
        ranks = rank_correlation(ours, theirs), rank_correlation(issued, theirs)
        say(f"  {len(ours)} {name}: rank {ranks[0]:.2f}, by issues {ranks[1]:.2f}")
        for first in FIRST[name]:
            parts = (held(order, theirs, first) for order in (ours, issued, theirs))
            say("    first {}: {:.0%}, by issues {:.0%}, at best {:.0%}".format(first, *parts))
    kinds = [traits(one.mnemonic).kind.value for one in instructions]
    ours, theirs = _summed(cycles, kinds), _summed(weights, kinds)
    for kind, estimated, taken in zip(dict.fromkeys(kinds), ours / ours.sum(), theirs / theirs.sum(), strict=True):
        say(f"  {kind}: {estimated:.0%}, of the file {taken:.0%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[TRACE])
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--waves", type=float, default=4, help="of a SIMD")
    parser.add_argument("--workgroup-waves", type=int, default=8)
    options = parser.parse_args()
    for path in options.files:
        record(
            path,
            Residency(
                arch=options.arch,
                waves_per_simd=options.waves,
                workgroup_waves=options.workgroup_waves,
                line_bytes=cache_line_bytes(options.arch),
            ),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
