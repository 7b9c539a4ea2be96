"""Outputs that are computed row by row against a reference that a test can work out in its head."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from ckwatch.bench.numerics.comparison import WrongResultError
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.references import REFERENCES, Given, RowReference
from ckwatch.bench.numerics.references.given import Booleans, IntArray
from ckwatch.bench.numerics.row_verification import RowsReference, reference_of
from ckwatch.bench.numerics.storage import Doubles, Mask, Storage
from ckwatch.bench.report import FailureKind
from ckwatch.model.kernel_problem import Buffer, ComputedRows, KernelProblem, TensorView

ROWS, COLUMNS, GAP = 6, 3, 2


def picked(given: Given, role: str, rows: IntArray) -> Doubles:
    """`y`: the row of x that `order` says, `factor` times; `sums`: its sum."""
    values = given.read("x", given.integers("order", rows)) * float(given.sizes["factor"])
    return values if role == "y" else values.sum(axis=1)


def unused(given: Given, role: str) -> Booleans:
    flags = np.zeros(ROWS, np.bool_)
    flags[-1] = role == "y" and bool(given.options["short"])
    return flags


def order(given: Given, seed: int) -> Mapping[str, IntArray]:
    return {"order": (np.arange(given.shape("order")[0]) + seed) % ROWS}


@pytest.fixture(autouse=True)
def picked_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REFERENCES, "picked rows", RowReference(expected=picked, left_out=unused, contents=order))


def problem(*, short: bool = False, macs: int = ROWS * COLUMNS) -> KernelProblem:
    view = TensorView(buffer="X", sizes=(ROWS, COLUMNS), strides=(COLUMNS + GAP, 1))
    views = {
        "x": view,
        "order": TensorView(buffer="Order", sizes=(ROWS,), strides=(1,)),
        "y": TensorView(buffer="Y", sizes=view.sizes, strides=view.strides),
        "sums": TensorView(buffer="Sums", sizes=(ROWS, 1), strides=(1, 1)),
    }
    elements = (ROWS - 1) * (COLUMNS + GAP) + COLUMNS
    return KernelProblem(
        buffers=(
            Buffer(name="X", dtype="f32", elements=elements),
            Buffer(name="Order", dtype="i32", elements=ROWS),
            Buffer(name="Y", dtype="f32", elements=elements, output=True),
            Buffer(name="Sums", dtype="f32", elements=ROWS, output=True),
        ),
        views=tuple(views.values()),
        arguments=(),
        computed=ComputedRows(
            reference="picked rows",
            tensors=tuple(views.items()),
            sizes=(("factor", 2),),
            options=(("short", short),),
            macs=macs,
            depth=COLUMNS,
            compute="f32",
            accumulator="f32",
            fnuz=True,
        ),
        flops=None,
        bytes_moved=0,
    )


def right(inputs: Mapping[str, Storage]) -> dict[str, Storage]:
    """Return what the kernel must write on poisoned memory."""
    x = np.lib.stride_tricks.as_strided(inputs["X"], (ROWS, COLUMNS), ((COLUMNS + GAP) * 4, 4))
    y = np.full(inputs["X"].size, np.nan, np.float32)
    y.view(np.uint32)[:] = 0xFFFFFFFF
    tensor = np.lib.stride_tricks.as_strided(y, (ROWS, COLUMNS), ((COLUMNS + GAP) * 4, 4))
    tensor[...] = 2 * x[inputs["Order"]]
    return {"Y": y, "Sums": tensor.sum(axis=1, dtype=np.float32)}


def test_integers_that_mean_something_are_not_random() -> None:
    assert make_inputs(problem(), 3)["Order"].tolist() == [3, 4, 5, 0, 1, 2]


def test_right_rows_pass() -> None:
    inputs = make_inputs(problem(), 1)
    reference = reference_of(problem(), inputs)
    assert isinstance(reference, RowsReference)
    assert reference.check(right(inputs)).compared == ROWS * COLUMNS + ROWS
    assert reference.is_full
    assert reference.description == "numpy on the host, f64, every element"


def test_a_wrong_element_is_named() -> None:
    inputs = make_inputs(problem(), 1)
    outputs = right(inputs)
    outputs["Y"][(COLUMNS + GAP) * 3 + 1] += 1
    with pytest.raises(WrongResultError, match="1 of 18 elements of Y are wrong") as caught:
        RowsReference(problem(), inputs).check(outputs)
    assert "wrong are rows 3 to 3, columns 1 to 1" in caught.value.detail
    assert "Y[3, 1] is " in caught.value.detail


def test_a_wrong_second_output_is_found() -> None:
    inputs = make_inputs(problem(), 1)
    outputs = right(inputs)
    outputs["Sums"] *= 2
    with pytest.raises(WrongResultError, match="6 of 6 elements of Sums are wrong") as caught:
        RowsReference(problem(), inputs).check(outputs)
    assert "wrong are rows 0 to 5, columns 0 to 0" in caught.value.detail


def test_rows_that_are_not_written_or_hold_anything_are_found() -> None:
    inputs = make_inputs(problem(), 1)
    outputs = right(inputs)
    begin = (ROWS - 1) * (COLUMNS + GAP)
    outputs["Y"].view(np.uint32)[begin:] = 0xFFFFFFFF
    with pytest.raises(WrongResultError, match="the kernel left 3 of 18 elements of Y unwritten") as caught:
        RowsReference(problem(), inputs).check(outputs)
    assert caught.value.kind is FailureKind.UNWRITTEN
    outputs["Y"][begin:] = 1e3
    with pytest.raises(WrongResultError, match="elements of Y are wrong"):
        RowsReference(problem(), inputs).check(outputs)


def test_left_out_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_last(given: Given, role: str, rows: IntArray) -> Doubles:
        values = picked(given, role, rows)
        if role == "y":
            values[rows == ROWS - 1] = np.nan
        return values

    monkeypatch.setitem(REFERENCES, "picked rows", RowReference(expected=without_last, left_out=unused, contents=order))
    inputs = make_inputs(problem(short=True), 1)
    outputs = right(inputs)
    outputs["Y"].view(np.uint32)[(ROWS - 1) * (COLUMNS + GAP) :] = 0xFFFFFFFF
    assert RowsReference(problem(short=True), inputs).check(outputs).compared == ROWS * COLUMNS + ROWS - COLUMNS


def test_a_gap_that_was_written_is_out_of_bounds() -> None:
    inputs = make_inputs(problem(), 1)
    outputs = right(inputs)
    outputs["Y"][COLUMNS] = 0
    with pytest.raises(WrongResultError) as caught:
        RowsReference(problem(), inputs).check(outputs)
    assert caught.value.kind is FailureKind.OUT_OF_BOUNDS


def test_of_large_problems_a_sample_of_rows_is_compared() -> None:
    large = problem(macs=ROWS * 100)
    inputs = make_inputs(large, 1)
    reference = RowsReference(large, inputs, full_check_macs=200)
    assert not reference.is_full
    assert "sampled rows" in reference.description
    reference.check(right(inputs))


def test_a_part_is_compared_where_it_was_written() -> None:
    inputs = make_inputs(problem(), 1)
    outputs = right(inputs)
    written: dict[str, Mask] = {name: np.zeros(elements.size, np.bool_) for name, elements in outputs.items()}
    written["Y"][:COLUMNS] = True
    outputs["Y"][COLUMNS + GAP :] = 1e3
    assert RowsReference(problem(), inputs, written=written).check_part(outputs).compared == COLUMNS


def test_without_a_computation_there_is_no_reference() -> None:
    with pytest.raises(ValueError, match="row by row"):
        Given(_unknown(), {})
    assert reference_of(_unknown(), {}) is None


def _unknown() -> KernelProblem:
    return KernelProblem(buffers=(), views=(), arguments=(), computed=None, flops=None, bytes_moved=0)
