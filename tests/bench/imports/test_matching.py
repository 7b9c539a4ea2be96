"""Which kernels, shapes and instances an imported timing is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.bench.imports.aiter import read_aiter
from ckwatch.bench.imports.matching import InstanceIndex, is_about, is_for_arch, matched
from ckwatch.bench.imports.records import ImportedTiming
from ckwatch.model.kernels import Kernel, ParameterValue
from helpers.imported_workspaces import NAME, TABLE, kernel_in, kernel_text
from helpers.workspaces import gemm_kernel

RECORDS = read_aiter(TABLE).records


def found(kernel: Kernel, *records: ImportedTiming) -> list[tuple[str, float, tuple[str, ...]]]:
    return [
        (one.shape, one.time_us, one.instances)
        for on_shapes in matched(records, kernel, InstanceIndex(kernel))
        for one in on_shapes
    ]


def test_the_same_operation_on_the_same_sizes(tmp_path: Path) -> None:
    kernel = kernel_in(tmp_path, kernel_text())
    assert found(kernel, *RECORDS) == [("large", 15.1, ("theirs",)), ("large", 17.5, ()), ("large", 21.25, ())]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (kernel_text("f8"), [11.0]),
        (kernel_text(scale=""), []),
        (kernel_text(scale='{ dtype = "f32", per = "tensor" }'), []),
        (kernel_text(b_layout="row"), []),
    ],
)
def test_another_operation(tmp_path: Path, text: str, times: list[float]) -> None:
    assert [time for _, time, _ in found(kernel_in(tmp_path, text), *RECORDS)] == times


def test_preshuffled_and_block_scaled_are_other_operations(tmp_path: Path) -> None:
    kernel = kernel_in(tmp_path, kernel_text())
    for name in ("a8w8_bpreshuffle", "a8w8_blockscale", "a8w8_batched_rowwise"):
        assert is_about(replace(RECORDS[0], kernel=name), kernel) is (name == "a8w8_batched_rowwise")
    assert not is_about(replace(RECORDS[0], sizes={"B": 1, **RECORDS[0].sizes}), kernel)
    assert is_about(replace(RECORDS[0], kernel="", instance="an assembler's"), kernel)


def test_a_kernel_that_is_named(tmp_path: Path) -> None:
    instances: dict[str, dict[str, ParameterValue]] = {
        "a": {"Tile": 16, "Order": (1, 0)},
        "b": {"Tile": 16, "Order": (0, 1)},
        "c": {"Tile": 32},
    }
    shapes = {"s": {"M": 64, "N": 32, "K": 16}, "t": {"M": 64, "N": 32, "K": 8}}
    kernel = kernel_in(tmp_path, gemm_kernel("t.hip.j2", instances, shapes=shapes))
    record = ImportedTiming(kernel="", instance="", time_us=1.0, for_kernel="k")
    tile = replace(record, sizes={"x": 64, "y": 32}, parameters={"Tile": 16})
    assert found(kernel, tile) == [("s", 1.0, ("a", "b")), ("t", 1.0, ("a", "b"))]
    assert found(kernel, replace(tile, parameters={"Tile": 16, "Order": (0, 1), "kBatch": 2})) == [
        ("s", 1.0, ("b",)), ("t", 1.0, ("b",)),
    ]  # fmt: skip
    assert found(kernel, replace(tile, sizes={"K": 8}, parameters={"Other": 1})) == [("t", 1.0, ())]
    assert found(kernel, replace(tile, sizes={"x": 64, "y": 64})) == []
    assert found(kernel, replace(record, for_kernel="other", sizes={"x": 64})) == []
    assert found(kernel, record) == [], "it has two shapes, and the record no sizes"


def test_archs() -> None:
    of_950 = RECORDS[0]
    assert of_950.instance == NAME
    assert is_for_arch(of_950, "gfx950:xnack-")
    assert not is_for_arch(of_950, "gfx942")
    assert is_for_arch(replace(of_950, arch="sm_90"), "sm_90a")
    assert is_for_arch(replace(of_950, arch=""), "gfx942")
