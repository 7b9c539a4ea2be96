"""Metadata of code objects: the figures are those of the compiler's own remarks."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import msgpack
import pytest

from ckwatch.codeobject import metadata
from ckwatch.codeobject.metadata import read_metadata
from ckwatch.codeobject.report import KernelResources
from ckwatch.compile.elf import SHT_SYMTAB, ElfFile
from helpers.code_objects import OBJECTS, content, kernel_metadata, made_code_object, remarks
from helpers.each_row import each_row

GEMM = "gemm_f16_v3_128x128x64.gfx942"
TILED = "gemm_bf16_bias_silu_64x64x32.gfx942"
LIMITS = "limits.gfx942"


def kernel(name: str, ending: str) -> KernelResources:
    (found,) = [kernel for kernel in read_metadata(content(name)).kernels if kernel.symbol.endswith(ending)]
    return found


@each_row("name", OBJECTS)
def test_every_figure_is_the_compilers(name: str) -> None:
    found = read_metadata(content(name))
    kernels, arch, notes = found.kernels, found.arch, found.notes
    remarked = remarks(name)
    assert {kernel.symbol for kernel in kernels} == set(remarked)
    assert arch == name.split(".")[1].partition("-")[0]
    assert notes == ()
    for kernel in kernels:
        remark = remarked[kernel.symbol]
        assert {
            "TotalSGPRs": str(kernel.sgprs),
            "VGPRs": str(kernel.vgprs),
            "AGPRs": str(kernel.agprs) if "AGPRs" in remark else None,
            "ScratchSize [bytes/lane]": str(kernel.scratch_bytes),
            "Dynamic Stack": str(kernel.dynamic_stack),
            "SGPRs Spill": str(kernel.sgpr_spills),
            "VGPRs Spill": str(kernel.vgpr_spills),
            "LDS Size [bytes/block]": str(kernel.lds_bytes),
            "Occupancy [waves/SIMD]": remark["Occupancy [waves/SIMD]"],
        } == {"AGPRs": None} | remark


def test_a_gemm_of_composable_kernel() -> None:
    assert replace(kernel(GEMM, "KernelArgumentE"), symbol="") == KernelResources(
        symbol="", name="gemm_universal<HasMainKBlockLoop=true, TailNumber::Full>", vgprs=194, agprs=0, sgprs=50,
        vgpr_spills=0, sgpr_spills=0, scratch_bytes=0, lds_bytes=32768, workgroup_size=256, wavefront_size=64,
        kernarg_bytes=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "symbol", "workgroup", "wavefront"),
    [
        (LIMITS, "registers_140", 512, 64),
        ("limits.gfx1100", "registers_140", 512, 32),
        ("limits.gfx1100-mwavefrontsize64", "registers_140", 512, 64),
        (LIMITS, "nothing_of_576", 576, 64),
    ],
)
def test_sizes_of_workgroup_and_wave(name: str, symbol: str, workgroup: int, wavefront: int) -> None:
    found = kernel(name, symbol)
    assert (found.workgroup_size, found.wavefront_size) == (workgroup, wavefront)


@pytest.mark.parametrize(
    ("name", "in_cu_mode"),
    [("limits.gfx1100", False), ("limits.gfx1100-mcumode", True), ("limits.gfx942", False)],
)
def test_cu_mode(name: str, in_cu_mode: bool) -> None:
    found = read_metadata(content(name))
    assert found.cu_mode == (frozenset(kernel.symbol for kernel in found.kernels) if in_cu_mode else frozenset())


# -- linked of several objects, written by hand


def test_a_code_object_has_the_kernels_of_all_that_was_linked() -> None:
    """As Tensile's libraries, each of whose kernels was an object of its own."""
    data = made_code_object([kernel_metadata("a"), kernel_metadata("b")], b"\xc1", [kernel_metadata("c")])
    found = read_metadata(data)
    assert [one.symbol for one in found.kernels] == ["a", "b", "c"]
    assert found.notes == ("The code object's metadata is damaged: it is not MessagePack.",)


@each_row("name", ["limits.gfx90a", "limits.gfx942", "limits.gfx950"])
def test_agprs_by_the_descriptor_are_those_of_the_metadata(name: str) -> None:
    """Registers are given in eights; a kernel without AGPRs may get more than it uses, where LDS bounds its waves."""
    file = ElfFile(content(name))
    symbols = {one.name: one for one in file.symbols(SHT_SYMTAB)}
    descriptors = dict(metadata._descriptors(file, symbols))
    kernels = [one for one in read_metadata(file.data).kernels if one.agprs]
    assert kernels
    for kernel in kernels:
        found = metadata._allocated_agprs(kernel.vgprs, descriptors[kernel.symbol], name.split(".")[1])
        assert 0 <= found - kernel.agprs < 8


# -- stripped, unknown


def without_symbols(data: bytes) -> bytes:
    """As llvm-strip leaves it, as far as anything here can tell: the sections are gone."""
    return data[:0x28] + bytes(8) + data[0x30:0x3A] + bytes(6) + data[0x40:]


def test_a_stripped_file_tells_what_it_can() -> None:
    whole = {kernel.symbol: kernel for kernel in read_metadata(content(LIMITS)).kernels}
    found = read_metadata(without_symbols(content(LIMITS)))
    kernels, arch, notes = found.kernels, found.arch, found.notes
    assert arch == "gfx942"
    assert {kernel.symbol: kernel for kernel in kernels} == whole  # 256 VGPR beside AGPR are a multiple of 4 anyway
    assert notes == ("registers_330: VGPR is rounded up to a multiple of 4: the code object is stripped.",)


def test_an_unknown_version_is_read_all_the_same() -> None:
    data = bytearray(content(TILED))
    data[8] = 77
    found = read_metadata(bytes(data))
    kernels, notes = found.kernels, found.notes
    assert len(kernels) == 2
    assert notes == ("The code object's version is not known: its figures are read as those of version 6.",)


def test_an_unknown_arch_has_resources_all_the_same() -> None:
    found = read_metadata(content(TILED).replace(b"amdhsa--gfx942", b"amdhsa--gfx777"))
    kernels, arch, notes = found.kernels, found.arch, found.notes
    assert (arch, len(kernels)) == ("gfx777", 2)
    assert notes == ("The limits of gfx777 are not known: no occupancy.",)


@pytest.mark.parametrize(("written", "arch"), [(b"g:xna-", "g"), (b"gfx9-4", "gfx9-4"), (b"gfx90a", "gfx90a")])
def test_features_are_no_part_of_the_arch(written: bytes, arch: str) -> None:
    data = content("limits.gfx90a").replace(b"amdhsa--gfx90a", b"amdhsa--" + written)
    assert read_metadata(data).arch == arch


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (b".vgpr_count", b".vgpr_kount", "the metadata lacks .vgpr_count."),
        (b".wavefront_size\x40", b".wavefront_size\xc0", "the metadata lacks .wavefront_size."),
    ],
)
def test_a_kernel_whose_figures_are_missing_is_named(old: bytes, new: bytes, note: str) -> None:
    data = content(GEMM)
    assert old in data
    found = read_metadata(data.replace(old, new))
    kernels, notes = found.kernels, found.notes
    assert kernels == ()
    assert notes == (f"flush_icache: {note}", f"gemm_universal<HasMainKBlockLoop=true, TailNumber::Full>: {note}")


# -- what is no code object


def with_metadata(packed: bytes) -> bytes:
    """A code object of gfx942 with nothing but this metadata."""
    note = struct.pack("<III", 7, len(packed), metadata.NT_AMDGPU_METADATA) + b"AMDGPU\0\0" + packed
    note += bytes(-len(note) % 4)
    header = struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 64, 0, 0x4C, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
    return b"\x7fELF\x02\x01\x01\x40\x04" + bytes(7) + header + segment + note


def test_padding_follows_the_metadata() -> None:
    assert read_metadata(with_metadata(b"\x80\0\0\0")).arch == "gfx942"


def test_many_kernels_without_figures_are_counted() -> None:
    kernels = [{".name": f"k{number}"} for number in range(60)]
    notes = read_metadata(with_metadata(msgpack.packb({"amdhsa.kernels": [{}, *kernels, {}]}))).notes
    assert len(notes) == 51
    assert notes[0] == "The metadata has a kernel without a name."
    assert notes[1].startswith("k0: the metadata lacks .vgpr_count")
    assert notes[-1] == "And 11 more notes about kernels."
    many = b"\x81" + msgpack.packb("amdhsa.kernels") + b"\xdd" + (1_000_001).to_bytes(4, "big") + b"\x80" * 1_000_001
    with pytest.raises(ValueError, match="is damaged: a list in it claims more than 1,000,000 entries"):
        read_metadata(with_metadata(many))


@each_row(
    ("data", "says"),
    [
        (b"", "Not a code object: not an ELF file."),
        (b"int main() {}", "Not a code object: not an ELF file."),
        (b"\x7fELF\x02\x01", "The code object is cut short."),
        (b"\x7fELF\x01\x01" + bytes(90), "Not a code object: not a 64-bit little-endian ELF file."),
        (b"\x7fELF\x02\x01" + bytes(12) + b"\x3e" + bytes(60), "for another machine (62)"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(90), "This is an offload bundle, not a code object."),
        (b"CCOB" + bytes(90), "This is an offload bundle, not a code object."),
        (content(GEMM)[:100], "The code object is cut short."),
        (content(GEMM)[:4000], "The code object is cut short."),
        (content(GEMM)[:-1], "The code object is cut short."),
        (content(GEMM)[:0x20] + b"\xff" * 8 + content(GEMM)[0x28:], "The code object is cut short."),
        (content(GEMM)[:0x3A] + b"\x01" + content(GEMM)[0x3B:], "The code object has a damaged table of sections."),
        (content(GEMM).replace(b"AMDGPU\0", b"XMDGPU\0"), "The code object has no metadata."),
        (
            content(GEMM).replace(b"\x20\0\0\0AMDGPU\0", b"\x0a\0\0\0AMDGPU\0"),
            "This is a code object of version 2, whose metadata is not read: compile it again.",
        ),
        (
            content(GEMM).replace(b"\xaeamdhsa.kernels", b"\xc1amdhsa.kernels"),
            "The code object's metadata is damaged: it is not MessagePack.",
        ),
        (with_metadata(b"\x91" * 5000 + b"\xc0"), "The code object's metadata is damaged: it is not MessagePack."),
        (with_metadata(b"\xdd\xff\xff\xff\xff"), "is damaged: a list in it claims more than 1,000,000 entries."),
        (with_metadata(b"\x90"), "The code object's metadata is damaged: expected a map."),
    ],
)
def test_what_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as refused:
        read_metadata(data)
    assert says in str(refused.value)


def refusal(data: bytes) -> str:
    try:
        read_metadata(data)
    except ValueError as error:
        return str(error)
    return ""


def test_no_damage_raises_anything_else() -> None:
    data = content(TILED)
    chance = random.Random(6)  # noqa: S311  # the same damage every time
    refused = 0
    for _ in range(300):
        damaged = bytearray(data[: chance.choice([len(data), chance.randrange(len(data))])])
        for _ in range(chance.randrange(1, 20)):
            # mostly where headers, tables and metadata are
            at = (
                chance.choice([chance.randrange(len(damaged)), chance.randrange(min(2048, len(damaged)))])
                if damaged
                else 0
            )
            damaged[at : at + 1] = bytes([chance.randrange(256)])
        refused += refusal(bytes(damaged)).endswith(".")
    assert 100 < refused < 300


def test_the_machine_of_the_header_names_the_arch_where_the_metadata_does_not() -> None:
    data = content(LIMITS)
    assert not any("version is not known" in note for note in read_metadata(data).notes)
    assert read_metadata(data.replace(b"amdhsa.target", b"amdhsa.tarket")).arch == "gfx942"
    unknown = bytearray(data.replace(b"amdhsa.target", b"amdhsa.tarket"))
    struct.pack_into("<I", unknown, 0x30, 0xFE)
    assert "The code object does not name its arch." in read_metadata(bytes(unknown)).notes
