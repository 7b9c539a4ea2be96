"""What accesses cost by the emulator's counts, against brute force byte by byte."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ckwatch.codeobject.access_patterns import fullest_bank
from ckwatch.codeobject.lds_banks import bank_rule
from ckwatch.model.instruction_counts import InstructionCounts, WorstRequest
from ckwatch.verification.counting import COUNT_FIELDS, cache_line_bytes, counting_rules, counts_of, worst_of
from helpers.each_row import each_row
from references.wave_emulator import LANES, Bytes, WaveEmulator, WaveState

PATTERNS = 200
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100")
LOADS = {1: "ubyte", 2: "ushort", 4: "dword", 8: "dwordx2", 12: "dwordx3", 16: "dwordx4"}
STORES = {1: "byte", 2: "short", 4: "dword", 8: "dwordx2", 12: "dwordx3", 16: "dwordx4"}
LDS_LOADS = {1: "u8", 2: "u16", 4: "b32", 8: "b64", 12: "b96", 16: "b128"}
LDS_STORES = {1: "b8", 2: "b16", 4: "b32", 8: "b64", 12: "b96", 16: "b128"}
ROOM = 1 << 15


def lanes_of(arch: str) -> int:
    return 32 if arch.startswith("gfx1") else LANES


def patterns(size_bytes: int, lanes: int) -> list[tuple[np.ndarray, int]]:
    """Offsets of the lanes and a mask of those that are active: rows, columns, one place, anywhere, some lanes off."""
    generator = np.random.default_rng(size_bytes)
    found = []
    for number in range(PATTERNS):
        stride = int(generator.integers(0, ROOM // 64 // size_bytes)) * size_bytes
        offsets = [
            np.arange(64) * size_bytes + int(generator.integers(0, 256)),
            np.arange(64) * stride,
            np.full(64, int(generator.integers(0, ROOM - 16))),
            generator.integers(0, ROOM - 16, 64),
            np.arange(64) // 8 * 1024 + np.arange(64) % 8 * stride % 512,
        ][number % 5]
        mask = int(generator.integers(1, 1 << 62)) if number % 3 == 0 else (1 << lanes) - 1
        found.append((offsets % (ROOM - 16), mask & ((1 << lanes) - 1) or 1))
    return found


def operands(size_bytes: int) -> str:
    """Data registers."""
    words = max(1, size_bytes // 4)
    return "v10" if words == 1 else f"v[10:{9 + words}]"


def renamed(arch: str, text: str) -> str:
    """As the disassembler prints it for an arch: RDNA names loads and stores by bits."""
    if not arch.startswith("gfx1"):
        return text
    for old, new in {
        "_ubyte": "_u8", "_ushort": "_u16", "_byte": "_b8", "_short": "_b16", "_dwordx2": "_b64", "_dwordx3": "_b96",
        "_dwordx4": "_b128", "_dword": "_b32", "ds_read": "ds_load", "ds_write": "ds_store",
    }.items():  # fmt: skip
        text = text.replace(old, new)
    return text


TOGETHER = 40
"""Patterns of one run: each has a vector register for its offsets, from v20 on, and a pair of scalars for EXEC, from
s20 on."""


def counted(
    emulator: WaveEmulator, arch: str, text: str, state: WaveState, *masks: int
) -> list[tuple[InstructionCounts, WorstRequest | None]]:
    """The counts of the access at each of the state's offsets, and its request if it costs more than the least. `text`
    has OFFSET where they stand."""
    lines = []
    state.exec_mask = (1 << lanes_of(arch)) - 1
    for number, mask in enumerate(masks or (state.exec_mask,)):
        scalar = 20 + 2 * number
        state.put_pair(scalar, mask)
        one = (
            f"s_mov_b32 exec_lo, s{scalar}" if arch.startswith("gfx1") else f"s_mov_b64 exec, s[{scalar}:{scalar + 1}]"
        )
        lines += [
            f"{one} // 00000000",
            renamed(arch, text.replace("OFFSET", f"v{20 + number}")) + " // 00000000 00000000",
        ]
    counts = np.zeros((len(lines) + 1, COUNT_FIELDS), np.uint64)
    emulator.run([*lines, "s_endpgm // BF810000"], arch, state, counts=counts)
    assert not counts[::2].any()
    return [(counts_of(row), worst_of(row)) for row in counts[1::2]]


def batched(found: list[tuple[np.ndarray, int]]) -> list[list[tuple[np.ndarray, int]]]:
    return [found[first : first + TOGETHER] for first in range(0, len(found), TOGETHER)]


def accessed(offsets: np.ndarray, mask: int, size_bytes: int) -> list[set[int]]:
    """By lane, the bytes."""
    return [
        set(range(int(offsets[lane]), int(offsets[lane]) + size_bytes)) if mask >> lane & 1 else set()
        for lane in range(LANES)
    ]


@each_row("arch", ARCHS)
@each_row("size_bytes", LOADS)
@each_row("writes", [False, True])
def test_cache_lines_are_those_of_brute_force(emulator: WaveEmulator, arch: str, size_bytes: int, writes: bool) -> None:
    data, line = operands(size_bytes), cache_line_bytes(arch)
    text = f"global_load_{LOADS[size_bytes]} {data}, OFFSET, s[18:19]"
    if writes:
        text = f"global_store_{STORES[size_bytes]} OFFSET, {data}, s[18:19]"
    memory: Bytes = np.zeros(ROOM, np.uint8)
    for group in batched(patterns(size_bytes, lanes_of(arch))):
        state = WaveState(memory=memory)
        state.put_pair(18, emulator.memory_address)
        for number, (offsets, _) in enumerate(group):
            state.vectors[20 + number] = offsets
        found = counted(emulator, arch, text, state, *(mask for _, mask in group))
        for (one, worst), (offsets, mask) in zip(found, group, strict=True):
            touched = set().union(*accessed(offsets + emulator.memory_address, mask, size_bytes))
            assert one == InstructionCounts(
                issued=0,
                lanes=0,
                requests=1,
                cache_lines=len({byte // line for byte in touched}),
                least_lines=-(-len(touched) // line),
                bytes=len(touched),
            )
            assert (worst is None) == (one.cache_lines == one.least_lines)
            if worst is not None:
                active = [lane for lane in range(LANES) if mask >> lane & 1]
                lowest = min(offsets[lane] for lane in active)
                assert worst == WorstRequest(
                    lanes=tuple(active), places=tuple(int(offsets[lane] - lowest) for lane in active),
                    size_bytes=size_bytes, banks=0, cost=one.cache_lines, least=one.least_lines,
                )  # fmt: skip


@each_row("arch", ARCHS)
@each_row("size_bytes", LDS_LOADS)
@each_row("writes", [False, True])
def test_turns_of_lds_are_those_of_brute_force(
    emulator: WaveEmulator, arch: str, size_bytes: int, writes: bool
) -> None:
    data, lanes = operands(size_bytes), lanes_of(arch)
    rule = bank_rule(arch, lanes, writes=writes, size_bytes=size_bytes)
    text = f"ds_read_{LDS_LOADS[size_bytes]} {data}, OFFSET"
    if writes:
        text = f"ds_write_{LDS_STORES[size_bytes]} OFFSET, {data}"
    lds: Bytes = np.zeros(ROOM, np.uint8)
    for group in batched(patterns(size_bytes, lanes)):
        state = WaveState(lds=lds)
        for number, (offsets, _) in enumerate(group):
            state.vectors[20 + number] = offsets
        found = counted(emulator, arch, text, state, *(mask for _, mask in group))
        for (one, worst), (offsets, mask) in zip(found, group, strict=True):
            by_lane, turns = accessed(offsets, mask, size_bytes), []
            for phase in rule.phases:
                banks: dict[int, set[int]] = defaultdict(set)
                for byte in set().union(*(by_lane[lane] for lane in phase)):
                    banks[byte // 4 % rule.banks].add(byte // 4)
                turns += [max(map(len, banks.values()))] if banks else []
            assert one == InstructionCounts(
                issued=0, lanes=0, accesses=1, turns=sum(turns), phases=len(turns), fullest=max(turns)
            )
            assert (worst is None) == (max(turns) == 1)
            if worst is not None:
                assert (worst.cost, worst.size_bytes, worst.banks) == (max(turns), size_bytes, rule.banks)
                assert worst.places == tuple(int(offsets[lane]) for lane in worst.lanes)
                assert any(set(worst.lanes) == {lane for lane in phase if by_lane[lane]} for phase in rule.phases)
                assert fullest_bank(worst)[1] == worst.cost


def test_both_addresses_of_an_instruction_count(emulator: WaveEmulator) -> None:
    """`ds_read2st64_b32` reads a column twice."""
    state = WaveState(lds=np.zeros(1 << 16, np.uint8))
    state.vectors[20] = np.arange(LANES) * 128
    ((found, _),) = counted(emulator, "gfx942", "ds_read2st64_b32 v[10:11], OFFSET offset1:1", state)
    assert found == InstructionCounts(issued=0, lanes=0, accesses=2, turns=128, phases=4, fullest=32)


def test_atomics_write(emulator: WaveEmulator) -> None:
    state = WaveState(lds=np.zeros(1 << 12, np.uint8))
    state.vectors[20] = 64
    ((found, worst),) = counted(emulator, "gfx942", "ds_add_u32 OFFSET, v10", state)
    assert worst is None
    assert found == InstructionCounts(issued=0, lanes=0, accesses=1, turns=2, phases=2, fullest=1)


def test_the_rules_say_all_widths_of_each_arch() -> None:
    for arch in ARCHS:
        rules = counting_rules(arch)
        assert rules.line_bytes == cache_line_bytes(arch)
        for writes in (0, 1):
            for rule in rules.rules[writes]:
                phases = list(rule.phases)[: rule.phase_count]
                assert sum(phases) == (1 << lanes_of(arch)) - 1
