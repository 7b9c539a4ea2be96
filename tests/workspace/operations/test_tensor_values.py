"""`values` and `index` of custom operations: what they mean, and the place and words of each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Kernel, SizeLimits
from ckwatch.model.tensor_values import ContentKind, TensorValues
from ckwatch.workspace.loading import Workspace, load_workspace

SHAPE = "[[shape]]\nT = 5\nC = 100\n"
OUTPUT = '[[operation.output]]\nname = "Y"\ndtype = "f32"\nsizes = ["T", "C"]\n'


def loaded(folder: Path, first: str, *, output: str = OUTPUT, shape: str = SHAPE, head: str = "") -> Workspace:
    """A gather whose input `Index` has the keys `first`."""
    (folder / "ckwatch.toml").write_text("")
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates/gather.hip.j2").write_text("{{ header('hip') }}")
    text = f'template = "gather.hip.j2"\n[operation]\nkind = "custom"\nsizes = ["T", "C"]\n{head}'
    text += f'[[operation.input]]\nname = "Index"\ndtype = "i32"\nsizes = ["T"]\n{first}\n'
    text += '[[operation.input]]\nname = "Table"\ndtype = "f32"\nsizes = ["64", "C"]\n'
    (folder / "gather.kernel.toml").write_text(f'{text}{output}{shape}[[instance]]\nname = "a"\n')
    return load_workspace(folder)


def kernel(folder: Path, first: str, *, output: str = OUTPUT, shape: str = SHAPE, head: str = "") -> Kernel:
    workspace = loaded(folder, first, output=output, shape=shape, head=head)
    assert workspace.diagnostics == ()
    return workspace.kernels[0]


def problem(folder: Path, first: str, *, output: str = OUTPUT) -> KernelProblem:
    made = kernel(folder, first, output=output)
    return problem_of(made.operation, made.shapes[0], "gfx942")


def mistake(
    folder: Path, first: str, *, output: str = OUTPUT, shape: str = SHAPE, head: str = ""
) -> tuple[str, str, str]:
    """The code, the text at its place, and the message of the only diagnostic."""
    (found,) = loaded(folder, first, output=output, shape=shape, head=head).diagnostics
    lines = (folder / "gather.kernel.toml").read_text().splitlines()
    assert found.span.start.line == found.span.end.line
    text = lines[found.span.start.line][found.span.start.column : found.span.end.column]
    return found.code.removeprefix("kernel-file/"), text, found.message


@pytest.mark.parametrize(
    ("text", "kind", "numbers"),
    [
        ('values = "normal"', ContentKind.NORMAL, ()),
        ('values = "normal(3, 0.5)"', ContentKind.NORMAL, (3, 0.5)),
        ('values = " uniform ( -1 , 1 ) "', ContentKind.UNIFORM, (-1, 1)),
        ('values = "ones"', ContentKind.CONSTANT, (1,)),
        ('values = "zeros"', ContentKind.CONSTANT, (0,)),
        ('values = "constant(-7)"', ContentKind.CONSTANT, (-7,)),
        ('values = "permutation"', ContentKind.PERMUTATION, ()),
        ('values = "sorted"', ContentKind.SORTED, ()),
        ('values = "mask"', ContentKind.MASK, ()),
        ('index = "rows of Table"', ContentKind.INDEX, (0, 64)),
        ('index = "columns of Table"', ContentKind.INDEX, (0, 100)),
        ('index = "axis 1 of Y"', ContentKind.INDEX, (0, 100)),
        ('index = "elements of Table"', ContentKind.INDEX, (0, 6400)),
        ('index = [-1, "2 * C - 1"]', ContentKind.INDEX, (-1, 199)),
        ('index = ["-C", 5]', ContentKind.INDEX, (-100, 5)),
        ('index = "rows of Table"\nvalues = "sorted"', ContentKind.SORTED, (0, 64)),
        ('values = "permutation"\nindex = [0, "C"]', ContentKind.PERMUTATION, (0, 100)),
    ],
)
def test_meanings(tmp_path: Path, text: str, kind: ContentKind, numbers: tuple[float, ...]) -> None:
    assert problem(tmp_path, text).buffer("Index").values == TensorValues(kind=kind, numbers=numbers)


@pytest.mark.parametrize(
    ("text", "code", "place", "message"),
    [
        ('values = "normall"', "unknown-values", '"normall"', "unknown values `normall`; did you mean `normal`? known: "),
        ('values = "3"', "unknown-values", '"3"', "unknown values `3`; known: normal, uniform, ones, zeros"),
        ('values = 3', "wrong-type", "3", "`values` must be a string, not the integer 3"),
        ('values = "normal(1)"', "invalid-values", '"normal(1)"',
         "`normal` does not take 1 numbers; write `normal(mean, deviation)`"),
        ('values = "constant"', "invalid-values", '"constant"', "`constant` does not take 0 numbers"),
        ('values = "ones(3)"', "invalid-values", '"ones(3)"', "`ones` does not take 1 numbers; write `ones`"),
        ('values = "constant(x)"', "invalid-values", '"constant(x)"', "`x` is not a finite number"),
        ('values = "constant(inf)"', "invalid-values", '"constant(inf)"', "`inf` is not a finite number"),
        ('values = "uniform(2, 1)"', "out-of-range", '"uniform(2, 1)"', "`uniform(2, 1)` is empty"),
        ('values = "normal(0, -1)"', "out-of-range", '"normal(0, -1)"', "the deviation of `normal(0, -1)` is negative"),
        ('values = "constant(1e10)"', "dtype-mismatch", '"constant(1e10)"', "1e+10 is out of the range of i32"),
        ('values = "probabilities"', "dtype-mismatch", '"probabilities"', "i32 has no such values"),
        ('index = "rows of Tabel"', "unknown-tensor", '"rows of Tabel"',
         "`index` names no tensor: `Tabel`; did you mean `rows of Table`?"),
        ('index = "row of Table"', "invalid-index", '"row of Table"', "`row of Table` is not an index; write `rows of T`"),
        ('index = "axis 2 of Table"', "unknown-axis", '"axis 2 of Table"',
         "there is no axis 2 of Table: Table has 2 axes, counted from 0"),
        ('index = "columns of Index"', "unknown-axis", '"columns of Index"', "Index has 1 axis"),
        ('index = [0, "D"]', "unknown-size", '"D"', "unknown size `D`; known: T, C"),
        ('index = [0, 1, 2]', "wrong-length", "[0, 1, 2]", "a range has two bounds, as in [0, 64], not 3"),
        ('index = [0, "C +"]', "invalid-size", '"C +"', "`C +` is not a bound: write an integer"),
        ('index = [0, 0.5]', "wrong-type", "[0, 0.5]", "the number 0.5 is not a bound"),
        ('index = [5, 5]', "dtype-mismatch", "[5, 5]", "the range [5, 5] is empty: its upper bound is exclusive"),
        ('index = [0, 5000000000]', "dtype-mismatch", "[0, 5000000000]", "does not fit into i32"),
        ('index = [0, 4]\nvalues = "mask"', "inconsistent-values", '"mask"', "`index` says already what it holds"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, code: str, place: str, message: str) -> None:
    found = mistake(tmp_path, text)
    assert found[:2] == (code, place)
    assert message in found[2]


def test_values_that_a_shape_makes_impossible(tmp_path: Path) -> None:
    assert mistake(tmp_path, 'index = ["T", 5]') == (
        "shape-mismatch",
        "[[shape]]",
        "the values of Index do not go with this shape: the range [5, 5] is empty: its upper bound is exclusive",
    )


@pytest.mark.parametrize(
    ("strides", "place", "words"),
    [
        ('["C - 1", "1"]', "100", "elements of Y overlap: its stride `C - 1` must be at least 100"),
        ('["99", "1"]', '"99"', "its stride `99` must be at least 100"),
        ('["0", "1"]', '"0"', "its stride `0` must be at least 100"),
        ('["1", "4"]', '"4"', "its stride `4` must be at least 5"),
    ],
)
def test_elements_of_an_output_that_lie_at_one_place(tmp_path: Path, strides: str, place: str, words: str) -> None:
    code, at, message = mistake(tmp_path, "", output=f"{OUTPUT}strides = {strides}\n")
    assert (code, at) == ("out-of-range", place)
    assert words in message


@pytest.mark.parametrize("strides", ['["C", "1"]', '["C + 3", "1"]', '["1", "T"]', '["2", "9"]', '["300", "3"]'])
def test_elements_with_gaps_or_in_turns_do_not_overlap(tmp_path: Path, strides: str) -> None:
    (found,) = kernel(tmp_path, "", output=f"{OUTPUT}strides = {strides}\n").operation.outputs
    assert [*found[1].strides] == json.loads(strides)


@pytest.mark.parametrize(
    ("dtype", "meant"), [("uint32_t", "u32"), ("int64", "i64"), ("float16", "f16"), ("int", "i32")]
)
def test_dtypes_by_their_names_elsewhere(tmp_path: Path, dtype: str, meant: str) -> None:
    output = OUTPUT.replace('"f32"', f'"{dtype}"')
    assert mistake(tmp_path, "", output=output) == (
        "unknown-dtype", f'"{dtype}"', f"unknown dtype `{dtype}`; did you mean `{meant}`?",
    )  # fmt: skip


def test_an_index_of_floats(tmp_path: Path) -> None:
    output = OUTPUT + 'in_out = true\nindex = "rows of Table"\n'
    assert mistake(tmp_path, "", output=output) == (
        "dtype-mismatch",
        '"rows of Table"',
        "indices must be integers, and f32 is not one of i8, i16, i32, i64, u8, u16, u32, u64",
    )


def test_outputs_that_are_read_or_keep_elements(tmp_path: Path) -> None:
    found = problem(tmp_path, "optional = true", output=OUTPUT + 'in_out = true\nvalues = "ones"\n').buffer("Y")
    assert (found.in_out, found.partial, found.given, found.output) == (True, False, True, True)
    assert found.values == TensorValues(kind=ContentKind.CONSTANT, numbers=(1,))
    found = problem(tmp_path, "", output=OUTPUT + "partial = true\n").buffer("Y")
    assert (found.in_out, found.partial, found.given, found.values) == (False, True, True, None)
    assert mistake(tmp_path, "", output=OUTPUT + 'values = "ones"\n') == (
        "inconsistent-values",
        "values",
        "`values` is the content before a launch, which only an output with `in_out` or `partial` has",
    )


def test_a_null_pointer_is_no_buffer(tmp_path: Path) -> None:
    made = kernel(tmp_path, "optional = true")
    found = problem_of(made.operation, made.shapes[0], "gfx942", frozenset({"Index"}))
    assert [one.name for one in found.buffers] == ["Table", "Y"]
    assert [(one.name, one.is_null) for one in found.arguments if one.c_type.endswith("*")] == [
        ("Index", True),
        ("Table", False),
        ("Y", False),
    ]


def test_limits_of_sizes(tmp_path: Path) -> None:
    made = kernel(
        tmp_path, "", head="limits = { T = { min = 0, max = 8192 }, C = { max = '2 * T + 90', multiple = 4 } }\n"
    )
    assert made.operation.limits == {"T": SizeLimits("0", "8192"), "C": SizeLimits(None, "2 * T + 90", 4)}
    assert {one.name: one.may_be_empty for one in made.operation.tensors} == {"Index": True, "Table": False, "Y": True}
    made = kernel(tmp_path, "", head="limits = { T = { min = 0 } }\n", shape="[[shape]]\nT = 0\nC = 3\n")
    found = problem_of(made.operation, made.shapes[0], "gfx942")
    assert {one.name: one.elements for one in found.buffers} == {"Index": 0, "Table": 192, "Y": 0}


@pytest.mark.parametrize(
    ("limits", "code", "place", "message"),
    [
        ("D = { min = 1 }", "unknown-size", "D", "`D` is not a size; known: T, C"),
        ("C = { min = 8, max = 4 }", "out-of-range", "4", "no `C` is at least 8 and at most 4"),
        ("C = { max = 'D' }", "unknown-size", "'D'", "unknown size `D`; known: T"),
        ("C = { max = 'C' }", "unknown-size", "'C'", "unknown size `C`; known: T"),
        ("C = { multiple = 0 }", "out-of-range", "0", "`multiple` should be greater than or equal to 1"),
        ("C = { least = 4 }", "unknown-key", "least", "unknown key `least`"),
        ("C = { max = 64 }", "out-of-range", "100", "`C` must be at most 64, by [operation.limits]"),
        ("C = { max = '2 * T' }", "out-of-range", "100", "`C` must be at most 10 (2 * T), by [operation.limits]"),
        ("T = { min = 6 }", "out-of-range", "5", "`T` must be at least 6, by [operation.limits]"),
        ("C = { multiple = 8 }", "out-of-range", "100", "`C` must be a multiple of 8, by [operation.limits]"),
    ],
)
def test_mistakes_in_limits(tmp_path: Path, limits: str, code: str, place: str, message: str) -> None:
    found = mistake(tmp_path, "", head=f"limits = {{ {limits} }}\n")
    assert found[:2] == (code, place)
    assert found[2].startswith(message)
