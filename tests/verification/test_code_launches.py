"""Descriptions of launches against the code objects that they are for, and descriptions to begin with."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from ckwatch.codeobject.code_files import CodeFile, open_code_file
from ckwatch.model.errors import DiagnosedError
from ckwatch.model.kernel_launches import ArgumentKind
from ckwatch.verification.code_launches import launches_of
from ckwatch.verification.launch_starter import starting_description
from ckwatch.verification.module_launch import ModuleFunction
from ckwatch.verification.problems import trials_asked, trials_of
from ckwatch.workspace.launch_file import read_launch_file
from helpers.code_objects import kernel_metadata, made_code_object

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
            "`M` is not a tensor, and the kernel takes *f32",
        ),
        (
            "grid",
            ARGUMENTS.replace('"in_ptr"', '"null"') + "\ngrid",
            "1:13",
            "`in_ptr` is not an argument of the kernel",
        ),
        ("grid", ARGUMENTS.replace('"n_cols"', '"in_ptr"') + "\ngrid", "1:49", "`in_ptr` is an address, and"),
        (
            "grid",
            ARGUMENTS.replace('"n_cols"', '"n_col"') + "\ngrid",
            "1:49",
            "`n_col` is not a size; did you mean `n_cols`?",
        ),
        ('"row_stride"]\n', '"row_stride"]\nruntime = { a = "double" }\n', "", ""),
        ('name = "in_ptr"', 'name = "x_ptr"', "3:9", "`in_ptr` is not a tensor"),
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


STRUCTURE = """\
grid = ["N"]
arguments = [ARGUMENT, "n"]
[operation]
sizes = ["N", "n"]
runtime = { alpha = "float" }
[[operation.input]]
name = "X"
dtype = "f32"
sizes = ["N"]
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]
"""
FORMAT = '{ format = "PPiife?", values = ["X", "Y", "N", "2 * n", "alpha", 0.5, true] }'
FIELDS = (
    '{ fields = [{ offset = 8, type = "pointer", value = "Y" }, { offset = 0, type = "pointer", value = "X" }, '
    '{ offset = 24, type = "float", value = 0.5 }] }'
)


def by_value(folder: Path, argument: str) -> tuple[CodeFile, Path]:
    """A kernel that takes a structure of 32 bytes and an int, and the description of a launch."""
    arguments = [
        {".value_kind": "by_value", ".offset": 0, ".size": 32},
        {".value_kind": "by_value", ".offset": 32, ".size": 4},
        {".value_kind": "hidden_block_count_x", ".offset": 40, ".size": 4},
    ]
    (folder / "k.hsaco").write_bytes(made_code_object([kernel_metadata("k", args=arguments)]))
    (folder / "args.toml").write_text(f"block = [64]\n{STRUCTURE.replace('ARGUMENT', argument)}")
    return open_code_file(folder / "k.hsaco"), folder / "args.toml"


class Recorded:
    """A device that keeps what is launched."""

    def __init__(self) -> None:
        self.arguments: list[bytes] = []

    def kernel(self, _code: bytes, _symbol: str) -> int:
        return 1

    def launch(self, _kernel: int, _extents: object, _lds: int, arguments: list[bytes]) -> None:
        self.arguments = arguments


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (FORMAT, struct.pack("<QQiife?x", 4096, 8192, 5, 14, 1.5, 0.5, True)),
        (FIELDS, struct.pack("<QQ8xf4x", 4096, 8192, 0.5)),
    ],
)
def test_a_structure_by_value(argument: str, expected: bytes, tmp_path: Path) -> None:
    file, path = by_value(tmp_path, argument)
    (one,) = launches_of(file, read_launch_file(path))
    (trial,) = trials_asked([one.unit], ["N=5,n=7,alpha=1.5"])[one.unit.id]
    device = Recorded()
    function = ModuleFunction(device, b"", one.launch, trial.problem)  # type: ignore[arg-type]
    function.launch({"X": 4096, "Y": 8192}, 0, 0)()
    assert device.arguments == [expected, struct.pack("<i", 7)]


@pytest.mark.parametrize(
    ("old", "new", "column", "said"),
    [
        ("PPiife?", "PPiifz?", 24, "`z` is not a type of a field; known: `P` pointer, "),
        ("PPiife?", "PPiife", 43, "7 values for 6 fields of `format`"),
        ("PPiife?", "PPiiff?8x", 13, "the format has 48 bytes, and the kernel takes 32 here"),
        ('"X", "Y", "N"', '"X", "Y", "M"', 55, "`M` is not a size; known: N, n, alpha, X, Y"),
        ('"alpha", 0.5', '"alpha", "Y"', 78, "`Y` is an address, and the kernel takes a _Float16 here"),
        ('"X", "Y"', '"N", "Y"', 45, "`N` is not a tensor, and the kernel takes a pointer here"),
        ('"alpha", 0.5', '"alpha", []', 78, "a value is a number or a string, not an array"),
        (FORMAT, '{ format = "P" }', 13, "a structure has either `format` and `values`, or `fields`"),
        (FORMAT, FIELDS.replace("offset = 8", "offset = 7"), 25, "the field at 7 begins in the one before, a pointer"),
        (FORMAT, FIELDS.replace("24", "30"), 119, "a float at 30 ends beyond the 32 bytes of the structure"),
        (FORMAT, '"N"', 13, "the kernel takes a structure of 32 bytes here: give its fields, as in { format = "),
        (FORMAT, '"workspace"', 13, "how large the workspace is, is missing: `workspace` above the tables says it"),
    ],
)
def test_mistakes_in_structures_are_at_their_places(old: str, new: str, column: int, said: str, tmp_path: Path) -> None:
    assert old in FORMAT
    file, path = by_value(tmp_path, FORMAT.replace(old, new))
    with pytest.raises(DiagnosedError) as caught:
        launches_of(file, read_launch_file(path))
    (found,) = [one for one in caught.value.diagnostics if said in one.message]
    assert (found.span.start.line, found.span.start.column) == (2, column)


def test_scratch_memory_of_triton_is_a_workspace(tmp_path: Path) -> None:
    for path in TRITON.glob("softmax_kernel.*"):
        shutil.copy(path, tmp_path)
    told = tmp_path / "softmax_kernel.json"
    told.write_text(told.read_text().replace('"global_scratch_size": 0', '"global_scratch_size": 128'))
    (tmp_path / "args.toml").write_text(SOFTMAX)
    file = open_code_file(tmp_path / "softmax_kernel.hsaco")
    (one,) = launches_of(file, read_launch_file(tmp_path / "args.toml"))
    assert [argument.kind for argument in one.launch.arguments[-2:]] == [ArgumentKind.WORKSPACE, ArgumentKind.NULL]
    (trial,) = trials_asked([one.unit], ["M=3,n_cols=7,row_stride=7"])[one.unit.id]
    function = ModuleFunction(Recorded(), b"", one.launch, trial.problem)  # type: ignore[arg-type]
    assert function.workspace_bytes(0) == 3 * 128


def test_a_structure_is_an_open_place_of_a_description_to_begin_with() -> None:
    text = starting_description(open_code_file(DATA / "code_objects/gemm_f16_v3_128x128x64.gfx942.hsaco"), "")
    lines = text.splitlines()
    at = lines.index("arguments = [")
    assert lines[at + 1].startswith(
        '    { format = "?", values = [] },  # ckwatch: say the fields of a structure of 120 bytes'
    )
    assert lines[at + 2] == "]"
