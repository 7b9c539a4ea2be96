"""`ckwatch inspect FILE` and `ckwatch rank FILE…` on what Triton compiled, with LLVM's tools and without."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main
from ckwatch.cli.code_files import _line_of_its_time
from ckwatch.cli.command_words import code_path
from ckwatch.cli.output import SourceCache
from ckwatch.compile.toolchain.model import ToolchainChoice
from ckwatch.model.errors import ToolchainError
from helpers.code_objects import kernel_metadata, made_code_object

TRITON = Path(__file__).parents[1] / "data/triton"
MATMUL = TRITON / "matmul_kernel.hsaco"
ARGUMENTS = (
    "*f16 a_ptr, *f16 b_ptr, *f16 c_ptr, i32 M, i32 N, i32 K, i32 stride_am, i32 stride_bk, i32 stride_cm, "
    "*i8 global_scratch, *i8 profile_scratch"
)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace."""
    monkeypatch.chdir(tmp_path)


def without_rocm(_choice: ToolchainChoice | None) -> Any:
    raise ToolchainError("no HIP compiler found\n  nowhere", "install one")


def run(*words: str | Path, **dependencies: Any) -> int:
    return main([*map(str, words)], **dependencies)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("a.hsaco", True),
        ("lib.so", True),
        ("entry.ttgir", True),
        ("gemm/a@gfx942", False),
        ("gemm", False),
        ("k.kernel.toml", False),
        ("t.hip.j2", False),
        ("program", True),
        ("codes", True),
        ("kernels", False),
        ("empty", False),
    ],
)
def test_words_that_are_files(tmp_path: Path, word: str, found: bool) -> None:
    for name in ("program", "codes/a/k.hsaco", "kernels/k.hsaco", "kernels/k.kernel.toml", "empty/readme", "t.hip.j2"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert code_path(word) == (Path(word) if found else None)


def test_resources_need_no_rocm(capsys: Capture) -> None:
    assert run("inspect", MATMUL, discover=without_rocm) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.pop(3) == f"    arguments  {ARGUMENTS}"
    assert lines == [
        "matmul_kernel.hsaco, gfx942 (Triton: 4 warps, 4 KiB LDS)",
        "  no HIP compiler found: no main loop, no instructions, no predictions (`ckwatch toolchain install`)",
        "  matmul_kernel",
        "    registers  78 VGPR, 52 SGPR",
        "    spills     none",
        "    memory     4 KiB LDS, no scratch, 64 B of arguments",
        "    workgroup  at most 256 threads, in waves of 64",
        "    occupancy  6 waves per SIMD, limited by VGPR (each alone: waves 8, VGPR 6, SGPR 8, LDS 8)",
        "               6 workgroups of 256 threads per CU",
        "               6 VGPR fewer → 7 waves",
    ]
    assert run("inspect", MATMUL, "--isa", discover=without_rocm) == 2
    assert "cannot be shown: no HIP compiler found" in capsys.readouterr().err


def test_kernels_are_chosen_by_name_and_arch(capsys: Capture) -> None:
    assert run("inspect", TRITON, "--kernel", "*max*", "--json", discover=without_rocm) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["objects"]] == ["softmax_kernel.hsaco"]
    (arguments,) = found["objects"][0]["arguments"].values()
    assert [one["name"] for one in arguments[:2]] == ["out_ptr", "in_ptr"]


def test_many_kernels_have_a_line_each(tmp_path: Path, capsys: Capture) -> None:
    kernels = [kernel_metadata(f"k{number}", vgpr_spill_count=number % 2) for number in range(60)]
    (tmp_path / "k.co").write_bytes(made_code_object(kernels))
    assert run("inspect", "k.co", discover=without_rocm) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        "k.co: 60 kernels in 1 code object", "  arch    kernels  that spill  with scratch", "  gfx942       60          30             0",
    ]  # fmt: skip
    assert [line.split() for line in lines[5:8]] == [
        ["arch", "VGPR", "AGPR", "SGPR", "spilled", "LDS", "scratch", "threads", "waves", "kernel"],
        ["gfx942", "8", "0", "16", "0", "0", "0", "256", "8", "k0"],
        ["gfx942", "8", "0", "16", "1", "0", "0", "256", "8", "k1"],
    ]
    assert len(lines) == 66
    assert run("inspect", "k.co", "--kernel", "k1?", discover=without_rocm) == 0
    assert capsys.readouterr().out.count("registers") == 10


def test_too_many_kernels_are_not_ranked(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "k.co").write_bytes(made_code_object([kernel_metadata(f"k{number}") for number in range(2001)]))
    found = object()
    assert run("rank", "k.co", discover=lambda _: found) == 2
    assert capsys.readouterr().err == (
        "ckwatch: error: k.co has 2001 kernels: main loops of 2,000 at most are looked for\n"
        "ckwatch: help: choose them by --kernel PATTERN\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inspect", "none.hsaco"], "none.hsaco cannot be read: No such file or directory"),
        (
            ["inspect", MATMUL, "--arch", "gfx950"],
            f"{MATMUL} has no code for gfx950\nckwatch: help: it has some for gfx942",
        ),
        (["inspect", MATMUL, "--kernel", "x"], f"{MATMUL} has no kernel 'x'\nckwatch: help: it has matmul_kernel"),
        (["inspect", "gemm/a", "--arch", "gfx942"], "--arch is for a file"),
        (["rank", MATMUL, "--shape", "s"], "--shape and --part are for a KERNEL"),
        (["rank", MATMUL, "gemm"], "rank takes one KERNEL, or files with code objects"),
    ],
)
def test_mistakes(words: list[str | Path], said: str, capsys: Capture) -> None:
    assert run(*words, discover=without_rocm) == 2
    assert capsys.readouterr().err.startswith(f"ckwatch: error: {said}")


def test_a_file_without_code(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "cut.hsaco").write_bytes(MATMUL.read_bytes()[:70])
    assert run("inspect", "cut.hsaco", discover=without_rocm) == 1
    assert capsys.readouterr().out == "cut.hsaco: The code object is cut short.\n"
    assert run("rank", "cut.hsaco", discover=without_rocm) == 1
    assert capsys.readouterr().out == "cut.hsaco: The code object is cut short.\n"


@pytest.mark.toolchain
def test_instructions_with_their_source_lines(tmp_path: Path, capsys: Capture) -> None:
    assert run("inspect", MATMUL, "--isa", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    lines = found["text"].split("\n")
    mfma = next(one for one in found["lines"] if one["mnemonic"].startswith("v_mfma"))
    assert mfma["header"] == "/kernels/kernels.py:42"
    assert mfma["mnemonic"] in lines[mfma["line"]]
    (whole, *_) = found["folds"]
    assert lines[whole["start"]] == "; matmul_kernel: 589 instructions"
    assert lines[whole["end"]].split()[1] == "s_endpgm"
    assert lines[0] == "; matmul_kernel.hsaco, gfx942 (Triton: 4 warps, 4 KiB LDS)"
    shutil.copytree(TRITON, tmp_path / "cache")
    assert run("inspect", "cache", "--isa", "--kernel", "*") == 0
    printed = capsys.readouterr().out
    assert [f"; {name}_kernel: " in printed for name in ("add", "matmul", "softmax")] == [True] * 3


def test_the_text_of_a_source_line_is_that_of_its_time(tmp_path: Path) -> None:
    source, code = tmp_path / "k.py", tmp_path / "k.hsaco"
    for path in (source, code):
        path.write_text("first\nsecond\n")
    os.utime(code, (2e9, 2e9))
    read = partial(_line_of_its_time, SourceCache(), code)
    assert [read(str(source), 1), read(str(source), 5), read(str(tmp_path / "none"), 0)] == ["second", None, None]
    os.utime(source, (3e9, 3e9))
    assert read(str(source), 1) is None


@pytest.mark.toolchain
def test_a_ranking(capsys: Capture) -> None:
    assert run("rank", TRITON / "add_kernel.hsaco", MATMUL) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("gfx942, main loops by the FLOPs of a SIMD per clock, at best (predicted by llvm-mca")
    assert printed[2].split()[:5] == ["1", "matmul_kernel", "352.3", "1.00", "11"]
    assert printed[3:5] == [
        "gfx942, no place:",
        f"  add_kernel  no loop in 423 instructions  {TRITON / 'add_kernel.hsaco'}",
    ]
    assert printed[5].startswith("  left out: memory: ")
