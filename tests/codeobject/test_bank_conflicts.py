"""Bank conflicts of LDS, where the code tells the addresses."""

from __future__ import annotations

import pytest

from ckwatch.codeobject.bank_conflicts import LaneValues, WaveRegisters, bank_conflicts
from ckwatch.codeobject.control_flow import control_flow_of
from ckwatch.codeobject.disassembly import Instruction
from helpers.each_row import each_row


def kernel(*texts: str) -> list[Instruction]:
    """Instructions of 4 bytes each; `-> N` after a branch is the place that it goes to."""
    found = []
    for place, text in enumerate(texts):
        written, arrow, target = text.partition(" -> ")
        found.append(Instruction(4 * place, written.partition(" ")[0], written, 4, 4 * int(target) if arrow else None))
    return found


def turns(*texts: str, arch: str = "gfx942", wavefront_size: int = 64) -> list[tuple[int, float]]:
    """The known accesses of the outermost loop: their places and how many times as long they take."""
    instructions = kernel(*texts)
    flow = control_flow_of(instructions)
    found = bank_conflicts(instructions, flow, flow.loops[0].blocks, wavefront_size, arch)
    return [(access.at, access.turns) for access in found]


def accesses(address: str, access: str) -> tuple[str, ...]:
    """A loop with one access, at what an instruction computes from the lane's number in v0."""
    return (address, access, "s_cbranch_scc1 x -> 1", "s_endpgm")


@each_row(
    ("address", "access", "expected"),
    [
        # 4 bytes a lane: one lane after the other, every other word, one bank for all, one word for all
        ("v_lshlrev_b32_e32 v1, 2, v0", "ds_read_b32 v2, v1", 1),
        ("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b32 v2, v1", 2),
        ("v_lshlrev_b32_e32 v1, 7, v0", "ds_write_b32 v1, v2", 32),
        ("v_mov_b32_e32 v1, 0", "ds_read_b32 v2, v1", 1),
        # an odd number of words apart
        ("v_mul_u32_u24_e32 v1, 0x84, v0", "ds_read_b32 v2, v1 offset:64", 1),
        # 16 bytes a lane: one after the other, 32 apart, rows of 128 bytes
        ("v_lshlrev_b32_e32 v1, 4, v0", "ds_write_b128 v1, v[2:5]", 1),
        ("v_lshlrev_b32_e32 v1, 4, v0", "ds_read_b128 v[2:5], v1 offset:4096", 1),
        ("v_lshlrev_b32_e32 v1, 5, v0", "ds_write_b128 v1, v[2:5]", 2),
        ("v_lshlrev_b32_e32 v1, 7, v0", "ds_write_b128 v1, v[2:5]", 8),
        # with a register of which nothing is known
        ("v_add_lshl_u32 v1, v0, v9, 4", "ds_read_b128 v[2:5], v1", None),
    ],
)
def test_turns(address: str, access: str, expected: float | None) -> None:
    assert turns(*accesses(address, access)) == ([] if expected is None else [(1, expected)])


def test_the_groups_of_a_read_are_not_those_of_a_write() -> None:
    """Rows of 16 lanes, 272 bytes apart: eight lanes in a row are of one, but a read has lanes of two in a group."""
    row = ("v_lshrrev_b32_e32 v1, 4, v0", "v_mul_u32_u24_e32 v1, 0x110, v1", "v_and_b32_e32 v2, 15, v0",
           "v_lshl_add_u32 v1, v2, 4, v1")  # fmt: skip
    loop = ("ds_read_b128 v[4:7], v1", "ds_write_b128 v1, v[4:7]", "s_cbranch_scc1 x -> 4", "s_endpgm")
    assert turns(*row, *loop) == [(4, 2), (5, 1)]


@each_row(
    ("texts", "expected"),
    [
        # an unknown number, the same for all lanes, makes no difference; the address from memory does
        (("v_lshlrev_b32_e32 v1, 3, v0", "v_add_u32_e32 v1, s4, v1", "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 2"),
         [(2, 2)]),
        (("global_load_dword v1, v[4:5], off", "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 1"), []),
        (("v_xor_b32_e32 v1, s4, v0", "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 1"), []),
        # computed where only some lanes may be on
        (("s_and_saveexec_b64 s[0:1], vcc", "v_lshlrev_b32_e32 v1, 2, v0", "s_or_b64 exec, exec, s[0:1]",
          "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 3"), []),
        (("s_and_saveexec_b64 s[0:1], vcc", "s_or_b64 exec, exec, s[0:1]", "v_lshlrev_b32_e32 v1, 2, v0",
          "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 3"), [(3, 1)]),
        # computed on one of two ways, or in a loop before
        (("v_lshlrev_b32_e32 v1, 2, v0", "s_cbranch_scc0 x -> 3", "v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b32 v2, v1",
          "s_cbranch_scc1 x -> 3"), []),
        # the lane's number by counting the lanes below
        (("v_mbcnt_lo_u32_b32 v1, -1, 0", "v_mbcnt_hi_u32_b32 v1, -1, v1", "v_lshlrev_b32_e32 v1, 3, v1",
          "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 3"), [(3, 2)]),
        # a register that a load overwrites
        (("v_lshlrev_b32_e32 v1, 2, v0", "ds_read_b128 v[0:3], v9", "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 2"), []),
        # widths of which the groups are not known, addresses between words
        (("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b64 v[2:3], v1", "s_cbranch_scc1 x -> 1"), []),
        (("v_lshlrev_b32_e32 v1, 1, v0", "ds_read_b32 v2, v1", "s_cbranch_scc1 x -> 1"), []),
    ],
)  # fmt: skip
def test_what_is_known_of_an_address(texts: tuple[str, ...], expected: list[tuple[int, float]]) -> None:
    assert turns(*texts, "s_endpgm") == expected


@pytest.mark.parametrize(("arch", "wavefront_size"), [("gfx950", 64), ("gfx1100", 32), ("gfx1100", 64)])
def test_nothing_is_said_of_other_archs(arch: str, wavefront_size: int) -> None:
    texts = accesses("v_lshlrev_b32_e32 v1, 3, v0", "ds_read_b32 v2, v1")
    assert turns(*texts, arch=arch, wavefront_size=wavefront_size) == []


@each_row(
    ("text", "lane_5"),
    [
        ("v_mov_b32_e32 v1, v0", 5),
        ("v_sub_u32_e32 v1, 0, v0", 0x100000000 - 5),
        ("v_subrev_u32_e32 v1, 1, v0", 4),
        ("v_not_b32_e32 v1, v0", 0xFFFFFFFA),
        ("v_ashrrev_i32_e32 v1, 31, v0", 0),
        ("v_and_or_b32 v1, v0, 4, 16", 20),
        ("v_or3_b32 v1, v0, 8, 16", 29),
        ("v_xad_u32 v1, v0, 1, 16", 20),
        ("v_bfe_u32 v1, v0, 2, 3", 1),
        ("v_bfi_b32 v1, 6, v0, 9", 13),
        ("v_lshl_or_b32 v1, v0, 2, 1", 21),
        ("v_mad_u32_u24 v1, v0, 6, 1", 31),
        ("v_mul_hi_u32 v1, v0, 0x80000000", 2),
        ("v_add3_u32 v1, v0, v0, 1", 11),
        ("v_add_co_u32 v1, vcc, 3, v0", 8),
        ("v_dual_mov_b32 v7, 0 :: v_dual_and_b32 v1, 4, v0", 4),
        ("v_accvgpr_write_b32 v1, v0", 5),
    ],
)
def test_arithmetic(text: str, lane_5: int) -> None:
    wave = WaveRegisters(64)
    first, _, second = text.partition(" :: ")
    mnemonic = first.partition(" ")[0] + ("::" + second.partition(" ")[0] if second else "")
    wave.follow(Instruction(0, mnemonic, text, 4))
    found = wave.value("v1")
    assert found is not None
    assert (found.values[5], found.exact) == (lane_5, True)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("v_add_u32_e32 v1, s4, v0", True),
        ("v_lshl_add_u32 v1, v0, 2, s4", True),
        ("v_lshl_add_u32 v1, v0, s4, 2", False),
        ("v_mul_lo_u32 v1, s4, 3", True),
        ("v_mul_lo_u32 v1, s4, v0", False),
        ("v_or_b32_e32 v1, s4, v0", False),
        ("v_mul_u32_u24_e32 v1, s4, v0", False),
    ],
)
def test_unknown_numbers_that_all_lanes_share(text: str, known: bool) -> None:
    wave = WaveRegisters(64)
    wave.follow(kernel(text)[0])
    found = wave.value("v1")
    assert (found is not None) == known
    assert found is None or not found.exact


@pytest.mark.parametrize(
    "text",
    ["v_add_u32_e32 v1, 09, v0", "v_add_u32_e32 v1, v0", "v_add_u32_e32 v1, v0, v0, v0", "v_mbcnt_lo_u32_b32", "v_mov_b32",
     "v_mov_b32_e32 v[1:99999999], v0"],
)  # fmt: skip
def test_operands_that_are_none(text: str) -> None:
    wave = WaveRegisters(64)
    wave.follow(kernel(text)[0])
    assert wave.value("v1") is None


def test_a_long_chain_is_given_up() -> None:
    wave = WaveRegisters(64)
    wave.follow(kernel("v_mov_b32_e32 v1, v0")[0])
    for _ in range(2000):
        wave.follow(kernel("v_add_u32_e32 v1, 1, v1")[0])
    assert wave.value("v1") is None
    assert wave.value("v0") == LaneValues(tuple(range(64)))
