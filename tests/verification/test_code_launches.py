"""Descriptions of launches against the code objects that they are for, and descriptions to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.codeobject.code_files import open_code_file
from ckwatch.model.errors import CkwatchError, DiagnosedError
from ckwatch.model.kernel_launches import ArgumentKind
from ckwatch.verification.code_launches import launches_of
from ckwatch.verification.launch_starter import starting_description
from ckwatch.verification.problems import trials_of
from ckwatch.workspace.launch_file import read_launch_file

DATA = Path(__file__).parents[1] / "data"
TRITON = DATA / "triton"
SOFTMAX = """\
grid = ["M"]
[operation]
sizes = ["M", "n_cols", "row_stride"]
[operation.limits]
n_cols = { max = 1024 }
[[operation.input]]
name = "in_ptr"
dtype = "f32"
sizes = ["M", "n_cols"]
strides = ["row_stride", "1"]
[[operation.output]]
name = "out_ptr"
dtype = "f32"
sizes = ["M", "n_cols"]
strides = ["row_stride", "1"]
"""
ARGUMENTS = 'arguments = ["out_ptr", "in_ptr", "row_stride", "n_cols", "null", "null"]'


def test_a_launch_by_what_tritons_files_say(tmp_path: Path) -> None:
    (tmp_path / "args.toml").write_text(SOFTMAX)
    (one,) = launches_of(open_code_file(TRITON / "softmax_kernel.hsaco"), read_launch_file(tmp_path / "args.toml"))
    assert one.unit.id == "softmax_kernel.hsaco/softmax_kernel@gfx942"
    launch = one.launch
    assert (launch.grid, launch.block, launch.dynamic_lds) == (("M",), ("256",), "16")
    null, buffer, value = ArgumentKind.NULL, ArgumentKind.BUFFER, ArgumentKind.VALUE
    assert [(one.kind, one.text, one.size_bytes) for one in launch.arguments] == [
        (buffer, "out_ptr", 8), (buffer, "in_ptr", 8), (value, "row_stride", 4), (value, "n_cols", 4), (null, "", 8),
        (null, "", 8),
    ]  # fmt: skip
    trials = trials_of(one.unit)
    assert {"ragged", "padded rows", "offsets beyond 32 bits"} <= {trial.name for trial in trials}
    assert {trial.hint for trial in trials} == {
        "if the kernel does not take such sizes, say so under [operation.limits]"
    }


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("grid", 'kernel = "softmax"\ngrid', "1:10", "has no kernel `softmax`; did you mean `softmax_kernel`?"),
        ("grid", "block = [2, 1024]\ngrid", "1:9", "a block of 2048 threads: the kernel takes at most 256"),
        ("grid", 'arguments = ["out_ptr"]\ngrid', "1:13", "1 argument, and the kernel takes 6: *f32 out_ptr, "),
        (
            "grid",
            ARGUMENTS.replace('"in_ptr"', '"M"') + "\ngrid",
            "1:25",
            "`M` is no tensor, and the kernel takes *f32",
        ),
        ("grid", ARGUMENTS.replace('"in_ptr"', '"null"') + "\ngrid", "1:13", "`in_ptr` is none of the kernel's"),
        ("grid", ARGUMENTS.replace('"n_cols"', '"in_ptr"') + "\ngrid", "1:49", "`in_ptr` is an address, and"),
        (
            "grid",
            ARGUMENTS.replace('"n_cols"', '"n_col"') + "\ngrid",
            "1:49",
            "`n_col` is no size; did you mean `n_cols`?",
        ),
        ('"row_stride"]\n', '"row_stride"]\nruntime = { a = "double" }\n', "", ""),
        ('name = "in_ptr"', 'name = "x_ptr"', "3:9", "`in_ptr` is no tensor"),
    ],
)
def test_what_does_not_fit_is_at_its_place(old: str, new: str, place: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "args.toml"
    path.write_text(SOFTMAX.replace(old, new, 1))
    file = open_code_file(TRITON / "softmax_kernel.hsaco")
    if not said:
        assert launches_of(file, read_launch_file(path))
        return
    with pytest.raises(DiagnosedError) as caught:
        launches_of(file, read_launch_file(path))
    (found,) = [one for one in caught.value.diagnostics if said in one.message]
    assert f"{found.span.start.line + 1}:{found.span.start.column + 1}" == place


def test_a_file_of_several_kernels_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "args.toml").write_text(SOFTMAX)
    file = open_code_file(DATA / "code_objects/limits.gfx942.hsaco")
    with pytest.raises(DiagnosedError, match=r"`kernel` is missing: limits\.gfx942\.hsaco has"):
        launches_of(file, read_launch_file(tmp_path / "args.toml"))


def test_a_description_to_begin_with(tmp_path: Path) -> None:
    text = starting_description(open_code_file(TRITON / "matmul_kernel.hsaco"), "ckwatch verify X --args args.toml")
    lines = text.splitlines()
    assert {
        'kernel = "matmul_kernel"',
        "block = [256]",
        "dynamic_lds = 4096",
        'sizes = ["M", "N", "K", "stride_am", "stride_bk", "stride_cm"]',
        'name = "c_ptr"',
    } <= set(lines)
    path = tmp_path / "args.toml"
    path.write_text(text.replace('[[operation.input]]\nname = "c_ptr"', '[[operation.output]]\nname = "c_ptr"'))
    with pytest.raises(DiagnosedError) as caught:
        read_launch_file(path)
    assert [(one.code, one.span.start.line) for one in caught.value.diagnostics] == [
        ("kernel-file/open-place", number) for number, line in enumerate(lines) if '"?"]' in line
    ]


def test_arguments_of_a_cpp_kernel_are_told_by_its_name() -> None:
    """A kernel of CK takes a structure by value, which no description can give."""
    with pytest.raises(CkwatchError, match="which a description cannot give"):
        starting_description(open_code_file(DATA / "code_objects/gemm_f16_v3_128x128x64.gfx942.hsaco"), "")
