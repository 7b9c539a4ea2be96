"""Code objects in files of any kind: made here of real ones, and damaged here."""

from __future__ import annotations

import random
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from ckwatch.codeobject.code_files import CodeFile, TritonMetadata, open_code_file
from ckwatch.codeobject.code_paths import code_paths
from ckwatch.codeobject.metadata import read_metadata, without_labels
from ckwatch.compile.elf import SHT_SYMTAB, ElfFile
from fakes.fake_compiler import bundle, elf
from helpers.code_objects import content

TRITON = Path(__file__).parents[1] / "data/triton"
CODE = content("gemm_bf16_bias_silu_64x64x32.gfx942")
OTHER = content("gemm_bf16_bias_silu_64x64x32.gfx1100")
TARGET = "hipv4-amdgcn-amd-amdhsa--"
BUNDLE = bundle(("host-x86_64-unknown-linux-gnu-", b""), (f"{TARGET}gfx942:xnack-", CODE), (f"{TARGET}gfx1100", OTHER))


def archive(**members: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return file.getvalue()


def package() -> bytes:
    """One of AOT Inductor: kernels of Triton with their JSON, and a host library."""
    folder = "model/data/aotinductor/model/"
    triton = {f"{folder}{path.name}": path.read_bytes() for path in TRITON.glob("matmul_kernel.*")}
    return archive(**triton, **{f"{folder}k.wrapper.so": elf({".hip_fatbin": BUNDLE}), f"{folder}weights": b"PK\3\4"})


def opened(folder: Path, name: str, data: bytes) -> CodeFile:
    path = folder / name
    path.write_bytes(data)
    return open_code_file(path)


def kernels(found: CodeFile) -> list[tuple[str, str, str]]:
    return [(one.arch, one.origin, kernel.name) for one in found.objects for kernel in one.metadata.kernels]


def signature(found: CodeFile, kernel: str) -> list[str]:
    return [f"{one.type_name} {one.name}" for one in found.objects[0].metadata.arguments[kernel] if not one.hidden]


def test_an_entry_of_tritons_cache() -> None:
    found = open_code_file(TRITON / "matmul_kernel.hsaco")
    (code,) = found.objects
    assert code.triton == TritonMetadata(
        name="matmul_kernel", num_warps=4, shared_bytes=4096,
        arguments=(
            ("a_ptr", "*f16"), ("b_ptr", "*f16"), ("c_ptr", "*f16"), ("M", "i32"), ("N", "i32"), ("K", "i32"),
            ("stride_am", "i32"), ("stride_bk", "i32"), ("stride_cm", "i32"),
        ),
    )  # fmt: skip
    assert signature(found, "matmul_kernel")[:4] == ["*f16 a_ptr", "*f16 b_ptr", "*f16 c_ptr", "i32 M"]
    assert signature(found, "matmul_kernel")[-2:] == ["*i8 global_scratch", "*i8 profile_scratch"]
    (kernel,) = code.metadata.kernels
    assert (kernel.lds_bytes, kernel.workgroup_size, code.arch, found.notes) == (4096, 256, "gfx942", ())
    assert open_code_file(TRITON / "matmul_kernel.ttir") == found


def test_a_folder() -> None:
    found = open_code_file(TRITON)
    assert code_paths(TRITON) == [TRITON / f"{name}_kernel.hsaco" for name in ("add", "matmul", "softmax")]
    assert [one.triton and one.triton.shared_bytes for one in found.objects] == [0, 4096, 16]
    assert [one.origin for one in found.objects] == [path.name for path in code_paths(TRITON)]


@pytest.mark.parametrize(
    ("name", "beside", "note", "arguments"),
    [
        ("none", {}, [], [" ", " ", " ", " ", " ", " "]),
        ("damaged", {".json": b'{"name"'}, ["code.hsaco: the JSON beside it is not Triton's."], [" "] * 6),
        (
            "no such kernel",
            {".json": b'{"name": "other", "num_warps": 4, "shared": 0}'},
            ["code.hsaco: the JSON beside it is about `other`, which is not a kernel here."],
            [" "] * 6,
        ),
        (
            "too many warps",
            {".json": b'{"name": "add_kernel", "num_warps": 65, "shared": 0}'},
            ["code.hsaco: the JSON beside it is not Triton's."],
            [" "] * 6,
        ),
        (
            "another function",
            {".ttgir": b"tt.func public @other(%x: i32) {"},
            [],
            [" "] * 6,
        ),
        (
            "numbered arguments",
            {
                ".ttgir": b'  tt.func public @add_kernel(%arg0: !tt.ptr<f32, 1> {tt.divisibility = 16 : i32} loc("x"(#loc)), '
                b'%arg1: !tt.ptr<bf16> loc("/k.py":1:0), %arg2: !tt.ptr<i64>, %arg3: i1) attributes {noinline = false} {\n'
            },
            [],
            ["*f32 x", "*bf16 arg1", "*i64 arg2", "i1 arg3", "*i8 global_scratch", "*i8 profile_scratch"],
        ),
    ],
)
def test_what_stands_beside_tritons_code(
    tmp_path: Path, name: str, beside: dict[str, bytes], note: list[str], arguments: list[str]
) -> None:
    """Names of arguments are in its MLIR alone."""
    if name in ("another function", "numbered arguments"):
        shutil.copy(TRITON / "add_kernel.json", tmp_path / "code.json")
    for suffix, data in beside.items():
        (tmp_path / f"code{suffix}").write_bytes(data)
    found = opened(tmp_path, "code.hsaco", (TRITON / "add_kernel.hsaco").read_bytes())
    assert [*found.notes] == note
    assert signature(found, "add_kernel") == arguments


def test_a_host_file_of_several_archs(tmp_path: Path) -> None:
    second = bundle((f"{TARGET}gfx942", (TRITON / "add_kernel.hsaco").read_bytes()))
    text = b"a name of a format: __CLANG_OFFLOAD_BUNDLE__"
    found = opened(tmp_path, "k.so", elf({".rodata": text, ".hip_fatbin": BUNDLE + bytes(64) + second}))
    at = 64 + len(text)
    assert kernels(found) == [
        ("gfx942", f".hip_fatbin {at:#x}, gfx942:xnack-", "reduce_partials"),
        ("gfx942", f".hip_fatbin {at:#x}, gfx942:xnack-", "gemm_tiled<GemmTiled<256, 64, 64, 32, 4, 4>>"),
        ("gfx1100", f".hip_fatbin {at:#x}", "reduce_partials"),
        ("gfx1100", f".hip_fatbin {at:#x}", "gemm_tiled<GemmTiled<256, 64, 64, 32, 4, 4>>"),
        ("gfx942", f".hip_fatbin {at + len(BUNDLE) + 64:#x}", "add_kernel"),
    ]
    assert found.notes == ()
    one_arch = open_code_file(tmp_path / "k.so", "gfx1100")
    assert ([one.arch for one in one_arch.objects], one_arch.other_archs) == (["gfx1100"], ("gfx942",))


def test_a_package_of_aot_inductor(tmp_path: Path) -> None:
    found = opened(tmp_path, "model.pt2", package())
    assert found.notes == ()
    triton = [one for one in found.objects if one.triton is not None]
    assert [(one.name, one.origin) for one in triton] == [
        ("matmul_kernel.hsaco", "model/data/aotinductor/model/matmul_kernel.hsaco")
    ]
    assert triton[0].metadata.arguments["matmul_kernel"][3].name == "M"
    assert [one.arch for one in found.objects if one.triton is None] == ["gfx942", "gfx1100"]


def test_no_more_is_unpacked_than_fits_into_memory(tmp_path: Path) -> None:
    """Archives in archives, bundles that claim much, and entries that overlap."""
    inner = archive(**{"k.so": CODE})
    found = opened(tmp_path, "k.zip", archive(**{"a.so": inner, "b.co": CODE}))
    assert found.notes == ("k.zip: a.so is an archive itself: unpack it",)
    assert [one.origin for one in found.objects] == ["b.co"]
    claimed = b"".join(
        b"CCOB\3\0\0\0" + (32 + 20).to_bytes(8, "little") + (2**30).to_bytes(8, "little") + bytes(8 + 20)
        for _ in range(4)
    )
    assert opened(tmp_path, "k.hipfb", claimed).notes == (
        "k.hipfb: the offload bundle at 0x0 claims to be of 1,024 MiB in 20 bytes, which no code is: it is left out.",
    )
    entries = [(f"{TARGET}gfx942", CODE), (f"{TARGET}gfx950", CODE)]
    overlap = bytearray(bundle(*entries))
    second = overlap.index(f"{TARGET}gfx950".encode()) - 24
    first = overlap.index(f"{TARGET}gfx942".encode()) - 24
    overlap[second : second + 16] = overlap[first : first + 16] = bytes(8) + len(overlap).to_bytes(8, "little")
    assert opened(tmp_path, "k.hipfb", bytes(overlap)).notes == (
        "k.hipfb: the offload bundle at 0x0 has a damaged table of entries: they overlap.",
    )


def test_what_claims_too_much_leaves_room_for_others(tmp_path: Path) -> None:
    def claiming(size: int, packed: bytes) -> bytes:
        return b"CCOB\3\0\0\0" + b"".join(one.to_bytes(8, "little") for one in (32 + len(packed), size, 0)) + packed

    noise, size = random.Random(1).randbytes(2**22), 2**30 - 1  # noqa: S311
    sound = claiming(len(BUNDLE), zlib.compress(BUNDLE))
    found = opened(tmp_path, "k.hipfb", claiming(5 * 2**30, bytes(9)) + claiming(size, noise) * 3 + sound)
    assert {one.arch for one in found.objects} == {"gfx942", "gfx1100"}
    assert found.notes == (
        "k.hipfb: the offload bundle at 0x0 claims to be of 5.0 GiB, and no more than 2 GiB are unpacked.",
    )

    zeros = zipfile.ZipInfo("0.so")
    zeros.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(tmp_path / "k.pt2", "w") as file:
        file.writestr(zeros, bytes(65 * 2**20))
        file.writestr("1.pt2", b"PK")
        file.writestr("2.hsaco", CODE)
    packed = zeros.compress_size
    found = open_code_file(tmp_path / "k.pt2")
    assert [one.name for one in found.objects] == ["2.hsaco"]
    assert found.notes == (
        f"k.pt2: 0.so claims to be of 65 MiB in {packed:,} bytes, which no code is: it is left out",
        "k.pt2: 1.pt2 is an archive itself: unpack it",
    )


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("k.o", b"", "k.o holds no code for AMD GPUs."),
        ("k.o", elf({}), "k.o holds no code for AMD GPUs."),
        ("k.hsaco", CODE[:100], "k.hsaco: The code object is cut short."),
        ("k.so", elf({".hip_fatbin": BUNDLE[:60]}), "k.so: the offload bundle at 0x40 is cut short."),
        ("k.hipfb", b"CCOB\4\0\1\0",
         "k.hipfb: the offload bundle at 0x0 is compressed in a way that is not known (version 4, method 1)."),
        ("k.pt2", package()[:3000], "k.pt2 is a damaged archive: File is not a zip file"),
        ("k.o", elf({"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx942": b"BC"}),
         "k.o has LLVM bitcode for gfx942, which becomes instructions only when it is linked (-fgpu-rdc)."),
        ("k.o", elf({".hip_fatbin": bundle(("hip-spirv64-amd-amdhsa--amdgcnspirv", b"\3\2\x23\7spirv"))}),
         "k.o has SPIR-V for amdgcnspirv, which becomes instructions only when it is linked or loaded."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_noted(tmp_path: Path, name: str, data: bytes, note: str) -> None:
    found = opened(tmp_path, name, data)
    assert (found.objects, found.notes) == ((), (note,))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_code_file(tmp_path / "k.hsaco")


def test_labels_of_assembly_are_told_from_functions(tmp_path: Path) -> None:
    data = bytearray((TRITON / "add_kernel.hsaco").read_bytes())
    file = ElfFile(bytes(data))
    text = next(number for number, one in enumerate(file.sections) if one.name == ".text")
    label = next(one for one in file.symbols(SHT_SYMTAB) if one.name == "amdgpu.max_num_agpr")
    assert opened(tmp_path, "k.hsaco", bytes(data)).objects[0].metadata.labels == frozenset()
    data[label.entry_offset + 6 : label.entry_offset + 8] = text.to_bytes(2, "little")
    assert opened(tmp_path, "k.hsaco", bytes(data)).objects[0].metadata.labels == {"amdgpu.max_num_agpr"}
    assert read_metadata(without_labels(bytes(data))).labels == frozenset()


def damaged(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Cut short anywhere, and with bytes that are others."""
    for _ in range(12):
        yield data[: chance.randrange(len(data))]
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 30)):
            changed[chance.randrange(len(changed))] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256)])
        yield bytes(changed)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("k.hsaco", (TRITON / "add_kernel.hsaco").read_bytes()),
        ("k.so", elf({".hip_fatbin": bundle((f"{TARGET}gfx942", (TRITON / "add_kernel.hsaco").read_bytes()))})),
        ("k.pt2", package()),
    ],
)
def test_damage_is_never_an_exception(tmp_path: Path, name: str, data: bytes) -> None:
    shutil.copy(TRITON / "add_kernel.json", tmp_path / "k.json")
    (tmp_path / "k.ttir").write_bytes((TRITON / "add_kernel.ttir").read_bytes()[::-1])
    noted = 0
    for one in damaged(data, random.Random(11)):  # noqa: S311  # the same damage every time
        found = opened(tmp_path, name, one)
        assert found.objects or found.notes
        noted += bool(found.notes)
    assert noted > 10
