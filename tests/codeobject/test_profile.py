"""Counts and a listing → a profile; what it says is lost; and the files of other tools."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from ckwatch.codeobject.disassembly import Instruction, traits
from ckwatch.codeobject.listing import Listing, listing_of
from ckwatch.codeobject.profile import profile_of, waited_for
from ckwatch.codeobject.profile_files import pprof, speedscope
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.instruction_counts import InstructionCounts, KernelCounts
from ckwatch.model.instruction_cycles import CycleEstimate, InstructionCycles, WaitCause
from ckwatch.model.profiles import KernelProfile, LossKind, ProfiledLine, ProfileFigures
from codeobject.test_listing import main_of, product, product_lines, product_rendered

COUNTED = InstructionCounts(issued=8, lanes=8 * 48)


def kernel_counts(listing: Listing) -> KernelCounts:
    """Each instruction as often as its loop's depth says: 8 issues outside of loops, 80 in one."""
    counts = {}
    for row in listing.rows:
        times = 1 if row.loop is None else 10 ** listing.loops[row.loop].depth
        counts[row.instruction.address] = InstructionCounts(COUNTED.issued * times, COUNTED.lanes * times)
    return KernelCounts(symbol="product", launches=1, workgroups=2, all_workgroups=16, instructions=counts)


def product_profile(*, estimated: bool = False) -> KernelProfile:
    function, rendered = product(), product_rendered()
    listing = listing_of(function, main=main_of(function), frames=product_lines(), rendered=rendered)
    cycles = estimate_of(listing) if estimated else None
    return profile_of(listing, kernel_counts(listing), rendered, wave_lanes=64, line_bytes=128, cycles=cycles)


def estimate_of(listing: Listing) -> CycleEstimate:
    """Each instruction takes 4 cycles a time; waits take 100 for the first load, barriers 10."""
    counts = kernel_counts(listing).instructions
    load = next(row.instruction.address for row in listing.rows if "_load_" in row.instruction.mnemonic[2:])
    found = {}
    for row in listing.rows:
        one = row.instruction
        waits = {WaitCause("load", load): 100.0} if one.mnemonic == "s_waitcnt" else {}
        waits |= {WaitCause("others at a barrier"): 10.0} if one.mnemonic == "s_barrier" else {}
        found[one.address] = InstructionCycles(4.0 * counts[one.address].issued, waits)
    return CycleEstimate(found, ("of waves, with 2 on a SIMD at a time",))


def test_issues_are_those_that_were_counted() -> None:
    function = product()
    listing = listing_of(function, main=main_of(function))
    counts = kernel_counts(listing)
    profile = product_profile()
    issued = sum(one.issued for one in counts.instructions.values())
    assert profile.total.counts.issued == issued
    assert sum(stack.issued for stack in profile.stacks) == issued
    assert sum(one.counts.issued for one in profile.instructions) == issued
    mix = Counter[str]()
    for row in listing.rows:
        mix[traits(row.instruction.mnemonic).kind.value] += counts.instructions[row.instruction.address].issued
    assert profile.total.mix == dict(mix)


def test_shares_of_lines_sum_to_all() -> None:
    """By their own instructions, with those that have no line."""
    profile = product_profile()
    without = sum(one.counts.issued for one in profile.instructions if one.at is None)
    own = sum(line.own.counts.issued for line in profile.lines)
    assert own + without == profile.total.counts.issued
    assert all(line.total.counts.issued >= line.own.counts.issued for line in profile.lines)


def test_a_line_of_the_template_has_what_its_calls_cost() -> None:
    profile = product_profile()
    templates = {line.path.rpartition("/")[2] for line in profile.lines if line.in_template}
    assert templates == {"product.hip.j2", "loading.hip.j2"}
    line = max((line for line in profile.lines if line.in_template), key=lambda line: line.total.counts.issued)
    (called,) = [one for one in profile.lines if one.path.endswith("loading.hip.j2")]
    assert line.own.counts.issued + called.own.counts.issued == line.total.counts.issued
    assert line.total.lanes_at_work(64) == pytest.approx(0.75)


def test_instructions_lead_to_all_lines_that_called_them() -> None:
    profile = product_profile()
    totals = Counter[int]()
    for one in profile.instructions:
        chain = () if one.chain is None else profile.chains[one.chain]
        assert one.at is None or one.at in chain
        totals.update(dict.fromkeys(chain, one.counts.issued))
    assert totals == {at: line.total.counts.issued for at, line in enumerate(profile.lines)}
    assert len(set(profile.chains)) == len(profile.chains) < len(profile.instructions)


def test_a_loop_counts_its_rounds() -> None:
    profile = product_profile()
    assert [loop.rounds for loop in profile.loops] == [COUNTED.issued * 10**loop.depth for loop in profile.loops]
    for loop in profile.loops:
        inside = [
            one for one in profile.instructions if one.loop is not None and _within(profile, one.loop, loop.header)
        ]
        assert loop.figures.counts.issued == sum(one.counts.issued for one in inside)


def test_estimated_cycles_sum_up_like_issues() -> None:
    profile = product_profile(estimated=True)
    total = profile.total.cycles
    assert total is not None
    assert total.issue == 4 * profile.total.counts.issued
    waits = sum(one.text.startswith("s_waitcnt") for one in profile.instructions)
    barriers = sum(one.text.startswith("s_barrier") for one in profile.instructions)
    assert total.wait == 100 * waits + 10 * barriers
    assert sum(stack.cycles or 0 for stack in profile.stacks) == total.total
    own = sum(line.own.cycles.total for line in profile.lines if line.own.cycles is not None)
    without = sum(one.cycles.total for one in profile.instructions if one.at is None and one.cycles is not None)
    assert own + without == total.total
    assert profile.cycle_share(total.total) == 1
    assert profile.cycle_notes
    plain = product_profile()
    assert (plain.total.cycles, plain.cycle_notes, plain.cycle_share(None)) == (None, (), None)


def test_what_a_line_waits_for_is_named_by_its_line() -> None:
    """Without the file where it is that of the line that waits."""
    profile = product_profile(estimated=True)
    load = next(one for one in profile.instructions if "_load_" in one.text.split()[0][2:])
    assert load.at is not None
    place = profile.lines[load.at]
    name = place.path.rpartition("/")[2]
    seen = set()
    for line in profile.lines:
        for what in () if line.own.cycles is None else line.own.cycles.waits_for:
            if what != "others at a barrier":
                here = line.path == place.path
                assert what == (f"load of line {place.line + 1}" if here else f"load of {name}:{place.line + 1}")
                seen.add(here)
    assert seen == {True, False}
    assert profile.total.cycles is not None
    assert f"load of {name}:{place.line + 1}" in profile.total.cycles.waits_for


def test_a_loop_stands_at_the_line_that_closes_it() -> None:
    profile = product_profile()
    for loop in profile.loops:
        assert loop.at is not None
        assert profile.lines[loop.at].in_template


def _within(profile: KernelProfile, loop: int | None, header: int) -> bool:
    while loop is not None:
        if profile.loops[loop].header == header:
            return True
        loop = profile.loops[loop].parent
    return False


@pytest.mark.parametrize(
    ("text", "waited"),
    [
        ("s_waitcnt vmcnt(0)", ("memory",)),
        ("s_waitcnt vmcnt(2) lgkmcnt(0)", ("memory", "LDS or scalar loads")),
        ("s_waitcnt_vscnt null, 0x0", ("stores",)),
        ("s_wait_loadcnt 0x0", ("memory",)),
        ("s_wait_loadcnt_dscnt 0x0", ("memory", "LDS")),
        ("s_wait_kmcnt 0x0", ("scalar loads",)),
        ("s_waitcnt depctr_hold_cnt(0)", ()),
    ],
)
def test_what_an_instruction_waits_for(text: str, waited: tuple[str, ...]) -> None:
    assert waited_for(Instruction(0, text.partition(" ")[0], text, 4)) == waited


def figures(**counts: int) -> ProfileFigures:
    found = InstructionCounts(counts.pop("issued", 100), counts.pop("lanes", 6400), **counts)
    return ProfileFigures(counts=found, on_lanes=found.issued, active_lanes=found.lanes, mix={}, waits={})


def profile_with(*lines: ProfileFigures) -> KernelProfile:
    total = InstructionCounts(0, 0)
    for one in lines:
        total += one.counts
    found = [
        ProfiledLine(path="/w/k.hip.j2", line=number, in_template=True, function="k", own=one, total=one)
        for number, one in enumerate(lines)
    ]
    return KernelProfile(
        name="k",
        symbol="k",
        workgroups=1,
        all_workgroups=1,
        launches=1,
        wave_lanes=64,
        line_bytes=128,
        total=ProfileFigures(counts=total, mix={}, waits={}),
        lines=tuple(found),
    )


def test_a_conflict_of_lds_is_said_at_its_line() -> None:
    column = figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
    (hint,) = hints_of([profile_with(figures(), column)])
    assert (hint.kind, hint.line, hint.text) == (LossKind.LDS_CONFLICT, 1, "32-way LDS conflict")
    assert hint.loss == pytest.approx(620 / (110 + 620))


def test_cache_lines_of_which_little_is_used_are_said() -> None:
    strided = figures(issued=10, lanes=640, requests=10, cache_lines=640, least_lines=20, bytes=2560)
    (hint,) = hints_of([profile_with(figures(), strided)])
    assert (hint.kind, hint.text) == (LossKind.CACHE_LINES, "4 of 128 bytes used per cache line")
    assert "touches 64 lines, where 2 would hold what it wants" in hint.message


def test_idle_lanes_are_said() -> None:
    (hint,) = hints_of([profile_with(figures(), figures(lanes=100 * 16))])
    assert (hint.kind, hint.text) == (LossKind.IDLE_LANES, "25 % of the lanes work")


@pytest.mark.parametrize(
    "harmless",
    [
        figures(requests=100, cache_lines=200, least_lines=200, bytes=25600),
        figures(requests=100, cache_lines=100, least_lines=100, bytes=400),  # all lanes read one word
        figures(accesses=100, turns=200, phases=200, fullest=1),
        figures(lanes=6000),
    ],
)
def test_nothing_is_said_where_nothing_is_lost(harmless: ProfileFigures) -> None:
    assert hints_of([profile_with(figures(), harmless)]) == ()


def test_a_loss_that_does_not_matter_is_not_said() -> None:
    rare = figures(issued=1, lanes=64, accesses=1, turns=64, phases=2, fullest=32)
    assert hints_of([profile_with(figures(issued=100_000, lanes=6_400_000), rare)]) == ()


def test_speedscope_gets_all_issues() -> None:
    profile = product_profile()
    content = json.loads(speedscope(profile, "unit"))
    (one,) = content["profiles"]
    assert one["endValue"] == sum(one["weights"]) == profile.total.counts.issued
    frames = [frame["name"] for frame in content["shared"]["frames"]]
    named = [tuple(frames[number] for number in sample) for sample in one["samples"]]
    assert named == [stack.functions for stack in profile.stacks]


def fields(content: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers: numbers and bytes."""
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(content):
        key, value = varint(), varint()
        if key & 7 == 2:
            found.append((key >> 3, content[at : at + value]))
            at += value
        else:
            found.append((key >> 3, value))
    return found


def varints(content: bytes) -> list[int]:
    return [int(value) for _, value in fields(b"".join(b"\x08" + one for one in _split(content)))]


def _split(content: bytes) -> list[bytes]:
    found, start = [], 0
    for at, byte in enumerate(content):
        if not byte & 0x80:
            found.append(content[start : at + 1])
            start = at + 1
    return found


def test_pprof_gets_all_issues_with_the_innermost_function_first() -> None:
    profile = product_profile()
    message = fields(gzip.decompress(pprof(profile, "unit")))
    strings = [value.decode() for number, value in message if number == 6 and isinstance(value, bytes)]
    assert strings[0] == ""
    functions = {
        dict(fields(value))[1]: strings[int(dict(fields(value))[2])]
        for number, value in message
        if number == 5 and isinstance(value, bytes)
    }
    samples = []
    for number, value in message:
        if number == 2 and isinstance(value, bytes):
            parts = dict(fields(value))
            assert isinstance(parts[1], bytes)
            assert isinstance(parts[2], bytes)
            samples.append((tuple(functions[one] for one in varints(parts[1])), varints(parts[2])[0]))
    assert samples == [(stack.functions[::-1], stack.issued) for stack in profile.stacks]
