"""The folder that a standalone runner without a reference of its own reads: what is in it, and what it may not be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases.given_runner_case import given_unit, write_data
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError

SMALL = """\
ckwatch-runner-data symbol
shape 0 small
argument 3
argument 5
argument 7
argument 0.1
argument 1
buffer 15 1
buffer 3 1
buffer 19 0
buffer 3 1
buffer 1 0
view 2 2 3 5 7 1
view 3 1 3 1
view 4 1 1 1
"""


def test_inputs_and_right_outputs_of_each_shape(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert write_data(given_unit(tmp_path), "symbol", folder).omitted == ()
    index = (folder / "index.txt").read_text()
    assert index.startswith(SMALL)
    assert "\nshape 1 far more\n" in index
    x = np.fromfile(folder / "0.input.0", np.float32).reshape(3, 5)
    rows = np.fromfile(folder / "0.input.1", np.int32)
    assert set(rows) <= {0, 1, 2}
    y = np.float64(np.float32(0.1)) * x[rows]
    np.testing.assert_array_equal(np.fromfile(folder / "0.expected.0").reshape(3, 5), y)
    before = np.fromfile(folder / "0.input.3", np.float32)
    np.testing.assert_array_equal(np.fromfile(folder / "0.expected.1"), before + y.sum(axis=1))
    assert np.fromfile(folder / "0.expected.2", np.uint64).tolist() == [2**64 - 3]
    assert not (folder / "0.input.2").exists()


def test_shapes_that_are_too_large_are_left_out(tmp_path: Path) -> None:
    unit, folder = given_unit(tmp_path), tmp_path / "data"
    write_data(unit, "symbol", folder)
    assert write_data(unit, "symbol", folder, 1 << 10).omitted == ("far more",)
    assert (folder / "index.txt").read_text().endswith("\nomitted far more\n")
    assert not (folder / "1.input.0").exists()
    with pytest.raises(BenchmarkError) as raised:
        write_data(unit, "symbol", folder, 10)
    assert raised.value.hint == "a runner may have 0 MiB of them: add a smaller [[shape]]"


def test_a_mistake_of_the_reference_leaves_no_index(tmp_path: Path) -> None:
    unit, folder = given_unit(tmp_path, "def rows(X):\n    return X[0] / 0 + nothing\n"), tmp_path / "data"
    with pytest.raises(BenchmarkError) as raised:
        write_data(unit, "symbol", folder)
    assert raised.value.kind is FailureKind.REFERENCE
    assert raised.value.message == "the reference is wrong: reference.py:2: NameError: name 'nothing' is not defined"
    assert not (folder / "index.txt").exists()
