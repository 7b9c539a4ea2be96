"""The C function's tensors and arguments, as `[operation]` gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckwatch.model.kernels import Kernel, Tensor
from ckwatch.model.tensors import contiguous_strides, evaluate_size, names_in
from ckwatch.workspace.shapes import elements_spanned
from helpers.workspaces import INSTANCE, OPERATION, TOP, workspace


def kernel(root: Path, operation: str, shape: str = "") -> Kernel:
    found = workspace(root, {"k.kernel.toml": TOP + operation + INSTANCE + shape})
    assert found.diagnostics == ()
    return found.kernels[0]


def gemm(root: Path, extra: str = "", shape: str = "") -> Kernel:
    return kernel(root, OPERATION + extra, shape)


def test_plain_gemm(tmp_path: Path) -> None:
    operation = gemm(tmp_path).operation
    assert operation.inputs == (
        ("X", Tensor("X", "f16", "row", ("M", "K"), ("LDA", "1"), "X")),
        ("W", Tensor("W", "f16", "col", ("K", "N"), ("1", "LDB"), "W")),
        ("inv_scale_x", None),
        ("inv_scale_w", None),
        ("Bias", None),
    )
    assert operation.outputs == (("Y", Tensor("Y", "f16", "row", ("M", "N"), ("LDC", "1"), "Y")),)
    assert operation.size_arguments == ("M", "N", "K", "LDA", "LDB", "LDC", "LDD")
    assert (operation.runtime_arguments, operation.runtime_types) == (("kBatch",), {"kBatch": "int32_t"})
    assert operation.accumulator == "f32"
    assert operation.settings == {
        "activation": "none",
        "alpha": 1.0,
        "beta": 1.0,
        "scaling": "none",
        "split_k": False,
    }


TENSORS: list[tuple[str, str, Tensor]] = [
    ('bias = { dtype = "f32" }', "Bias", Tensor("Bias", "f32", "row", ("N",), ("1",), "Bias")),
    ('bias = { dtype = "f32", layout = "col" }', "Bias", Tensor("Bias", "f32", "col", ("M",), ("1",), "Bias")),
    (
        'bias = { dtype = "f16", full = true }',
        "Bias",
        Tensor("Bias", "f16", "row", ("M", "N"), ("LDD", "1"), "Bias"),
    ),
    (
        'bias = { dtype = "f16", layout = "col", full = true }',
        "Bias",
        Tensor("Bias", "f16", "col", ("M", "N"), ("1", "LDD"), "Bias"),
    ),
    ("scale_a = {}\nscale_b = {}", "inv_scale_w", Tensor("inv_scale_w", "f32", "row", ("1",), ("1",), "inv_scale_w")),
    (
        'scale_a.per = "row"\nscale_b.per = "row"',
        "inv_scale_x",
        Tensor("inv_scale_x", "f32", "row", ("M",), ("1",), "inv_scale_x"),
    ),
    (
        'scale_a.per = "row"\nscale_b.per = "row"',
        "inv_scale_w",
        Tensor("inv_scale_w", "f32", "row", ("N",), ("1",), "inv_scale_w"),
    ),
    ('bias = { same_as = "a", full = true }', "Bias", Tensor("Bias", "f16", "row", ("M", "N"), ("LDD", "1"), "X")),
]


@pytest.mark.parametrize(("extra", "name", "expected"), TENSORS)
def test_tensors(tmp_path: Path, extra: str, name: str, expected: Tensor) -> None:
    assert dict(gemm(tmp_path, extra).operation.inputs)[name] == expected


def test_one_buffer_given_twice(tmp_path: Path) -> None:
    text = OPERATION.replace('b = { dtype = "f16", layout = "col" }', 'b = { same_as = "a", layout = "col" }')
    tensors = dict(kernel(tmp_path, text).operation.inputs)
    assert tensors["W"] == Tensor("W", "f16", "col", ("K", "N"), ("1", "LDB"), "X")


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("alpha = 2\nbeta = 0.5", {"alpha": 2.0, "beta": 0.5}),
    ('activation = "silu"', {"activation": "silu"}),
    ("input_reorder = [4, 0, 1, 2, 3]", {"input_reorder": (4, 0, 1, 2, 3)}),
    ("split_k = true", {"split_k": True}),
    ("settings = { pad = [1, 2], mode = 'x' }", {"pad": (1, 2), "mode": "x"}),
    ('scale_a.per = "row"\nscale_b.per = "row"', {"scaling": "row"}),
]


@pytest.mark.parametrize(("extra", "expected"), SETTINGS)
def test_settings(tmp_path: Path, extra: str, expected: dict[str, Any]) -> None:
    settings = gemm(tmp_path, extra).operation.settings
    assert {key: settings[key] for key in expected} == expected
    assert isinstance(settings["alpha"], float)


@pytest.mark.parametrize(("dtype", "accumulator"), [("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("f64", "f64")])
def test_accumulator(tmp_path: Path, dtype: str, accumulator: str) -> None:
    assert kernel(tmp_path, OPERATION.replace("f16", dtype)).operation.accumulator == accumulator


def test_places_of_the_operation(tmp_path: Path) -> None:
    spans = gemm(tmp_path, 'activation = "relu"\n').operation_spans
    assert {key: str(spans[key].start) for key in ("kind", "a", "a.dtype", "b.layout", "activation")} == {
        "kind": "4:8",
        "a": "5:5",
        "a.dtype": "5:15",
        "b.layout": "6:31",
        "activation": "8:14",
    }


SHAPES = [
    ("M = 2\nN = 3\nK = 4", "", (2, 3, 4, 4, 4, 3, 0), 1),
    ("M = 2\nN = 3\nK = 4\nLDA = 8\nkBatch = 2", "", (2, 3, 4, 8, 4, 3, 0), 2),
    ("M = 2\nN = 3\nK = 4", 'bias = { dtype = "f16", full = true }', (2, 3, 4, 4, 4, 3, 3), 1),
    ("M = 2\nN = 3\nK = 4\nLDD = 0", 'bias = { dtype = "f16", full = true }', (2, 3, 4, 4, 4, 3, 0), 1),
    ("M = 2\nN = 3\nK = 4", 'bias = { dtype = "f16", layout = "col", full = true }', (2, 3, 4, 4, 4, 3, 2), 1),
]


@pytest.mark.parametrize(("shape", "extra", "sizes", "batch"), SHAPES)
def test_shapes(tmp_path: Path, shape: str, extra: str, sizes: tuple[int, ...], batch: int) -> None:
    loaded = gemm(tmp_path, extra, "[[shape]]\n" + shape)
    (found,) = loaded.shapes
    assert tuple(found.sizes[name] for name in loaded.operation.size_arguments) == sizes
    assert found.runtime == {"kBatch": batch}
    assert found.name == "2x3x4"


CUSTOM = """
[operation]
kind = "custom"
sizes = ["N", "C"]
runtime = { alpha = "float" }
[[operation.input]]
name = "X"
dtype = "f16"
sizes = ["N", "2 * C", 4]
[[operation.input]]
name = "Mask"
absent = true
[[operation.input]]
name = "Z"
same_as = "X"
[[operation.output]]
name = "Y"
dtype = "f32"
layout = "col"
sizes = ["N", "C"]
"""


def test_custom(tmp_path: Path) -> None:
    loaded = kernel(tmp_path, CUSTOM, "[[shape]]\nN = 2\nC = 3\nalpha = 0.5\n")
    strides = ("(2 * C) * 4", "4", "1")
    assert loaded.operation.inputs == (
        ("X", Tensor("X", "f16", "row", ("N", "2 * C", "4"), strides, "X")),
        ("Mask", None),
        ("Z", Tensor("Z", "f16", "row", ("N", "2 * C", "4"), strides, "X")),
    )
    assert loaded.operation.outputs == (("Y", Tensor("Y", "f32", "col", ("N", "C"), ("1", "N"), "Y")),)
    assert loaded.operation.runtime_types == {"alpha": "float"}
    assert (loaded.shapes[0].sizes, loaded.shapes[0].runtime) == ({"N": 2, "C": 3}, {"alpha": 0.5})
    tensor = dict(loaded.operation.inputs)["X"]
    assert tensor is not None
    assert elements_spanned(tensor, loaded.shapes[0].sizes) == 2 * 6 * 4


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("M * (N + 1)", 40), ("(0 - 7) / 2", -3), ("(0 - 7) % 2", -1), ("M - N * 2 % 3", 2)]
)
def test_sizes(text: str, value: int) -> None:
    assert evaluate_size(text, {"M": 4, "N": 9} | ({"N": 4} if "3" in text else {})) == value


@pytest.mark.parametrize("text", ["", "M +", "M ** 2", "M.x", "f(M)", "1.5", "True", "M if N else K", "[" * 150])
def test_what_is_no_size(text: str) -> None:
    assert names_in(text) == []
    with pytest.raises(ValueError, match="is not a size"):
        evaluate_size(text, {"M": 1, "N": 1, "K": 1})


@pytest.mark.parametrize("text", ["1 / N", "1 % N", "Q"])
def test_sizes_without_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"division by zero|has no value"):
        evaluate_size(text, {"N": 0})


def test_strides_without_gaps() -> None:
    assert contiguous_strides(("A", "B", "C"), "row") == ("B * C", "C", "1")
    assert contiguous_strides(("A", "B", "C"), "col") == ("C * B", "1", "B")
    assert contiguous_strides((), "row") == ()
