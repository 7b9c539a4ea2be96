"""Launches of code objects that are damaged, leave their code, or do not end: each is refused or found, in words.

The disassembler is a script that prints recorded lines at the place of each kernel, so that no toolchain is needed.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckwatch.model.emulated_archs import EMULATED_ARCHS
from helpers.code_objects import content
from references.wave_emulator import WaveEmulator, WaveState
from torture.emulator import sections

CODE = content("limits.gfx942")
KERNEL = "lds_100_of_1024"
END = "s_endpgm // BF810000"
LOADS = "s_load_dword s4, s[0:1], 0x0 // C0020100 00000000"
BARRIER = "s_barrier // BF8A0000"

LEAVING = {
    "s_branch 8298 // BF82206A": "it branches 33192 bytes on, where no instruction begins",
    "s_branch 32768 // BF828000": "it branches 131072 bytes back, where no instruction begins",
    "s_cbranch_scc0 20000 // BF844E20": "it branches 80000 bytes on, where no instruction begins",
    "s_call_b64 s[6:7], 30000 // BA867530": "it branches 120000 bytes on, where no instruction begins",
    "s_setpc_b64 s[4:5] // BE801D04": "it jumps to 0x5, where no instruction begins",
    "s_swappc_b64 s[6:7], s[4:5] // BE861E04": "it jumps to 0x5, where no instruction begins",
    ".long 0xffffffff // FFFFFFFF": "this is no instruction of gfx942",
}


@pytest.mark.parametrize(
    "line", ["s_branch 1 // BF820001", "s_branch behind // BF820001", "s_cbranch_execnz L_1 // BF890001"]
)
def test_a_branch_may_be_printed_with_a_symbol(emulator: WaveEmulator, line: str) -> None:
    after = emulator.run([line, "s_mov_b32 s4, 1 // BE840081", END], "gfx942", WaveState())
    assert after.scalars[4] == 0


@pytest.mark.parametrize("line", LEAVING)
def test_a_wave_that_leaves_the_code_is_stopped(emulator: WaveEmulator, line: str) -> None:
    state = WaveState()
    state.put_pair(4, 5)
    emulator.run([line, END], "gfx942", state, reports=True)
    found = json.loads(emulator.finding())
    assert (found["kind"], found["pc"], found["note"]) == ("outside-code", 0, LEAVING[line])


def test_relative_scalar_registers_end_before_vcc(emulator: WaveEmulator) -> None:
    state = WaveState()
    state.scalars[124] = 127
    for line in ("s_movreld_b32 s4, s5 // BE842C05", "s_movrels_b64 s[4:5], s[6:7] // BE842B06"):
        emulator.run([line, END], "gfx942", state, reports=True)
        assert "beyond the scalar registers" in emulator.finding()


def test_an_endless_loop_of_indexed_registers_ends(emulator: WaveEmulator) -> None:
    on = "s_set_gpr_idx_on s4, gpr_idx(SRC0) // BF110104"
    for loop in ("s_branch 65535 // BF82FFFF", "s_branch 65534 // BF82FFFE"):
        emulator.run([on, loop, END], "gfx942", WaveState(), reports=True)
        assert json.loads(emulator.finding())["kind"] == "no-end"


def entries(code: bytes) -> dict[str, int]:
    """Return the address at which each kernel begins."""
    found, layout = {}, sections(code)
    (symbols, size, _), (strings, _, _) = layout[".dynsym"], layout[".dynstr"]
    rodata = layout[".rodata"]
    for at in range(symbols, symbols + size, 24):
        name, value = struct.unpack_from("<I", code, at)[0], struct.unpack_from("<Q", code, at + 8)[0]
        text = code[strings + name : code.index(b"\0", strings + name)].decode()
        if text.endswith(".kd"):
            found[text[:-3]] = value + struct.unpack_from("<q", code, rodata[0] + value - rodata[2] + 16)[0]
    return found


def descriptor(code: bytes) -> int:
    """The offset of the kernel's."""
    offset, _, address = sections(code)[".rodata"]
    strings = sections(code)[".dynstr"][0]
    symbols, size, _ = sections(code)[".dynsym"]
    for at in range(symbols, symbols + size, 24):
        name, value = struct.unpack_from("<I", code, at)[0], struct.unpack_from("<Q", code, at + 8)[0]
        if code.startswith(f"{KERNEL}.kd\0".encode(), strings + name):
            return int(offset + value - address)
    raise AssertionError(KERNEL)


Launched = Callable[..., dict[str, Any]]


@pytest.fixture
def launched(library: Path, tmp_path: Path) -> Launched:
    def disassembly(code: bytes, lines: list[str]) -> str:
        printed = []
        for start in sorted(entries(code).values()):
            for line in lines:
                text, _, words = line.partition(" // ")
                printed.append(f"\t{text} // {start:012X}: {words}\n")
                start += 4 * len(words.split())
        return "".join(printed)

    def launch(
        code: bytes,
        lines: list[str],
        grid: int = 1,
        block: int = 64,
        threads: int = 1,
        arch: str = "gfx942",
        with_halves: list[str] | None = None,
    ) -> dict[str, Any]:
        at = code if arch != "gfx942" else CODE  # which may be damaged
        (tmp_path / "printed").write_text(disassembly(at, lines))
        (tmp_path / "printed--mattr=+real-true16").write_text(disassembly(at, with_halves or lines))
        objdump = tmp_path / "objdump"
        objdump.write_text(f"#!/bin/sh\nexec cat {tmp_path}/printed$4\n")
        objdump.chmod(0o755)
        (tmp_path / "code").write_bytes(code)
        command = [sys.executable, str(Path(__file__).with_name("launched_code.py")), str(library)]
        environment = {
            "CKWATCH_EMULATOR_ARCH": arch,
            "CKWATCH_EMULATOR_OBJDUMP": str(objdump),
            "CKWATCH_EMULATOR_LIMIT": "1000000",
            "CKWATCH_EMULATOR_THREADS": str(threads),
        }
        ended = subprocess.run(
            [*command, str(tmp_path / "code"), KERNEL, str(grid), str(block)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            check=True,
        )
        return dict(json.loads(ended.stdout))

    return launch


RDNA4 = content("limits.gfx1201")
RDNA4_END = "s_endpgm // BFB00000"


def test_a_wave_of_gfx12_has_its_number_in_ttmp8(launched: Launched) -> None:
    lines = ["s_bfe_u32 s3, ttmp8, 0x50019 // 9303FF74 00050019", "s_cmp_lt_u32 s3, 3 // BF0A8303"]
    lines += ["s_cbranch_scc1 1 // BFA20001", "s_trap 2 // BF900002", RDNA4_END]
    found = launched(RDNA4, lines, block=128, arch="gfx1201")["findings"]
    assert [(one["kind"], one["wave"]) for one in found] == [("trap", 3)]


@pytest.mark.parametrize(
    ("arch", "like", "mach"),
    [("gfx1103", "gfx1100", 0x44), ("gfx1151", "gfx1100", 0x4A), ("gfx11-generic", "gfx1100", 0x54), ("gfx1200", "gfx1201", 0x48),
     ("gfx12-generic", "gfx1201", 0x59), ("gfx1251", "gfx1250", 0x5A), ("gfx9-4-generic", "gfx942", 0x5F)],
)  # fmt: skip
def test_archs_with_the_instructions_of_others(launched: Launched, arch: str, like: str, mach: int) -> None:
    assert EMULATED_ARCHS[arch] == like
    code = bytearray(content(f"limits.{like}"))
    code[48] = mach  # in the ELF header's flags
    end = END if like == "gfx942" else RDNA4_END
    assert launched(bytes(code), [end], arch=arch)["error"] == "hipSuccess"
    refused = launched(content("limits.gfx90a"), [end], arch=arch)
    assert refused["problem"] == f"the code object is not for {arch}:sramecc+:xnack-"


def test_halves_of_registers_are_disassembled_where_they_are_moved(launched: Launched) -> None:
    lines = [".long 0x7e023881 // 7E023881", RDNA4_END]
    known = ["v_mov_b16_e32 v1.l, 1 // 7E023881", RDNA4_END]
    assert launched(RDNA4, lines, arch="gfx1201")["error"] == "hipErrorLaunchFailure"
    assert launched(RDNA4, lines, arch="gfx1201", with_halves=known)["error"] == "hipSuccess"


def test_a_kernel_that_ends(launched: Launched) -> None:
    assert launched(CODE, [END]) == {"error": "hipSuccess", "problem": "", "findings": []}


@pytest.mark.parametrize(
    ("lines", "block", "note"),
    [
        (["s_branch 65535 // BF82FFFF"], 64, "1000000 counted instructions of the workgroup"),
        ([BARRIER, "s_branch 65534 // BF82FFFE"], 128, "1000000 counted instructions of the workgroup"),
        ([LOADS, "s_branch 65533 // BF82FFFD"], 64, "1000000 counted instructions of the workgroup"),
        (["s_branch 65535 // BF82FFFF"], 1024, "4000000 counted instructions of the workgroup"),
    ],
)
def test_a_kernel_without_end_is_stopped_at_its_limit(
    launched: Launched, lines: list[str], block: int, note: str
) -> None:
    for grid in (1, 40):
        found = launched(CODE, [*lines, END], grid, block)
        assert found["error"] == "hipErrorLaunchFailure"
        (one,) = [finding for finding in found["findings"] if finding["kind"] == "no-end"]
        assert one["note"].partition(",")[0] == note


def test_a_wave_that_goes_on_into_the_padding_behind_its_kernel(launched: Launched) -> None:
    found = launched(CODE, ["s_nop 0 // BF800000"])
    assert found["error"] == "hipErrorLaunchFailure"
    assert [(one["kind"], one["instruction"]) for one in found["findings"]] == [("outside-code", "s_nop 0")]


def test_a_wait_is_missing_where_a_launch_was_or_could_have_been(launched: Launched) -> None:
    """Executed instructions are reported as such, and once."""
    use, wait = "s_mov_b32 s5, s4 // BE850004", "s_waitcnt lgkmcnt(0) // BF8CC07F"
    for condition, workgroup in (
        ("s_cmp_eq_u32 s0, s0 // BF060000", None),
        ("s_cmp_lg_u32 s0, s0 // BF070000", [0, 0, 0]),
    ):
        lines = [LOADS, condition, "s_cbranch_scc1 1 // BF850001", use, wait, END]
        found = launched(CODE, lines, grid=1)["findings"]
        (one,) = [finding for finding in found if finding["kind"] == "missing-wait"]
        assert (one["instruction"], one["workgroup"], one["count"]) == ("s_mov_b32 s5, s4", workgroup, 1)
        found = launched(CODE, [LOADS, condition, "s_cbranch_scc1 2 // BF850002", wait, use, wait, END])["findings"]
        assert not [finding for finding in found if finding["kind"] == "missing-wait"]


def changed(at: int, form: str, *values: int) -> bytes:
    data = bytearray(CODE)
    struct.pack_into(form, data, at, *values)
    return bytes(data)


def segment(field: int, value: int) -> bytes:
    """Of the first that is loaded: another value at `field` of its header."""
    start, count = struct.unpack_from("<Q", CODE, 0x20)[0], struct.unpack_from("<H", CODE, 0x38)[0]
    at = next(start + 56 * n for n in range(count) if struct.unpack_from("<I", CODE, start + 56 * n)[0] == 1)
    return changed(at + field, "<Q", value)


def with_metadata(metadata: bytes) -> bytes:
    """The code object with a note of this metadata."""
    offset, size, _ = sections(CODE)[".note"]
    note = struct.pack("<III", 7, len(metadata), 32) + b"AMDGPU\0\0" + metadata
    assert len(note) <= size
    return CODE[:offset] + note + bytes(size - len(note)) + CODE[offset + size :]


def text(value: str) -> bytes:
    return (
        bytes([0xA0 | len(value)]) + value.encode()
        if len(value) < 32
        else b"\xd9" + bytes([len(value)]) + value.encode()
    )


ARGUMENTS = text(".args") + b"\x90"
ONE_KERNEL = text("amdhsa.kernels") + b"\x91\x81" + text(".symbol") + text(f"{KERNEL}.kd")
TWO_LISTS = text("amdhsa.kernels") + b"\x91\x83" + text(".symbol") + text(f"{KERNEL}.kd") + ARGUMENTS + ARGUMENTS
HUGE = b"CCOB" + struct.pack("<HHQQ", 3, 1, 64, 1 << 40) + bytes(40)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (segment(8, (1 << 64) - 8), "segment"),
        (segment(16, (1 << 64) - 8), "does not fit the file or the address space"),
        (segment(40, (1 << 64) - 8), "more than the 68719476736 bytes that it may have"),
        (segment(40, 1 << 46), "more than the 68719476736 bytes that it may have"),
        (with_metadata(b"\x82" + ONE_KERNEL + ONE_KERNEL), "metadata lists its kernels twice"),
        (with_metadata(b"\x81" + TWO_LISTS), "metadata lists the arguments of a kernel twice"),
        (HUGE, "claims to hold 1099511627776 bytes, more than its 64 bytes can hold"),
        (changed(descriptor(CODE) + 4, "<I", 0xFFFFFFFF), "needs 4294967295 bytes of scratch memory per work-item"),
        (changed(descriptor(CODE) + 8, "<I", 0xFFFFFFF8), "claims 4294967288 bytes of arguments"),
        (changed(descriptor(CODE) + 44, "<II", 0, 0x3F), "512 registers, of which those from 4 on"),
        (changed(0x28, "<Q", 0x31), "tables of segments and sections have the wrong layout"),
        (CODE[:400], "cut off"),
    ],
)
def test_what_is_damaged_is_refused_in_words(launched: Launched, code: bytes, problem: str) -> None:
    found = launched(code, [END])
    assert found["error"] == "hipErrorInvalidImage"
    assert problem in found["problem"]
