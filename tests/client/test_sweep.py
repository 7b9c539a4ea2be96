"""Sweeps as values and text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ckwatch.client.sweep import Parameters, Values, free_name, instance_tables, listed, product_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from helpers.each_row import each_row
from helpers.workspaces import KERNEL, workspace


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"M": [1, 2], "N": [3, 4]}, {"s_1_3": (1, 3), "s_1_4": (1, 4), "s_2_3": (2, 3), "s_2_4": (2, 4)}),
        ({"M": [1, 2], "N": 3}, {"s_1": (1, 3), "s_2": (2, 3)}),
        ({"M": 1, "N": "v3"}, {"s": (1, "v3")}),
        ({"M": range(2), "N": True}, {"s_0": (0, True), "s_1": (1, True)}),
        ({"M": (4, 64, 1), "N": [(4, 64, 1), [2, 128, 1]]}, {"s_4x64x1": ((4, 64, 1),) * 2, "s_2x128x1": ((4, 64, 1), (2, 128, 1))}),
        ({"M": (value for value in (1.5, False)), "N": "a b"}, {"s_1.5": (1.5, "a b"), "s_false": (False, "a b")}),
    ],
)  # fmt: skip
def test_combinations_and_their_names(
    parameters: Mapping[str, Values], expected: Mapping[str, tuple[Any, ...]]
) -> None:
    found = product_of("s", parameters)
    assert {name: tuple(own.values()) for name, own in found.items()} == expected
    assert list(found) == list(expected)
    assert all(type(value) is type(want) for own, row in zip(found.values(), expected.values(), strict=True)
               for value, want in zip(own.values(), row, strict=True))  # fmt: skip


def test_a_condition_sees_what_lies_beneath() -> None:
    found = product_of("s", {"M": [1, 2, 3]}, lambda own: own["M"] != own["N"], {"N": 2, "M": 9})
    assert list(found) == ["s_1", "s_3"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "it has no parameters"),
        ({"M": []}, "`M` has no values"),
        ({"M": range(1000), "N": range(1000)}, "has 1,000,000 combinations; the limit is 100,000"),
        ({"M": None}, "`M` cannot be None"),
        ({"M": [Fraction(1, 2)]}, r"`M` cannot be Fraction\(1, 2\)"),
        ({"M": ("a", 1)}, r"`M` cannot be \('a', 1\)"),
        ({"name": [1]}, "no parameter can be called `name`"),
        ({"M": ["a b", "a-b"]}, "two instances of the sweep would be called `s_a-b`"),
    ],
)
def test_sweeps_that_cannot_be(parameters: Mapping[str, Any], message: str) -> None:
    with pytest.raises(CkwatchError, match=message):
        product_of("s", parameters)


def test_nothing_meets_the_condition() -> None:
    with pytest.raises(CkwatchError, match="no combination meets `where`"):
        product_of("s", {"M": [1]}, lambda _own: False)


@pytest.mark.parametrize(
    ("instances", "message"), [([], "has no instances"), ([{}] * 100_001, "has 100,001 instances"), ([{"M": {}}], "cannot be")]
)  # fmt: skip
def test_lists_that_cannot_be(instances: Iterable[Mapping[str, ParameterValue]], message: str) -> None:
    with pytest.raises(CkwatchError, match=message):
        listed("s", instances)


def test_a_list() -> None:
    assert listed("s", [{"M": 1}, {"N": (2,)}]) == {"s_0": {"M": 1}, "s_1": {"N": (2,)}}


@pytest.mark.parametrize(
    ("taken", "name"),
    [([], "sweep"), (["first"], "sweep"), (["sweep"], "sweep2"), (["sweep_1", "sweep2_x"], "sweep3"), (["sweeping"], "sweep")],
)  # fmt: skip
def test_a_name_that_is_free(taken: list[str], name: str) -> None:
    assert free_name(taken) == name


@each_row(
    "value",
    [0, -(2**63), 2**63 - 1, 1.5, 1e300, -1e-9, 1e16, float("inf"), True, False, "", 'a"b\\c', "ü\t\n\x00\x1f\x7f\U0001f600", (), (4, 64, 1)],
)  # fmt: skip
def test_values_as_toml(value: ParameterValue) -> None:
    read = tomllib.loads(instance_tables({"mine": {"x": value}}, {}))["instance"][0]["x"]
    assert read == (list(value) if isinstance(value, tuple) else value)
    assert type(read) is (list if isinstance(value, tuple) else type(value))


def test_text_that_is_none() -> None:
    with pytest.raises(CkwatchError, match="is not valid Unicode"):
        instance_tables({"mine": {"x": "\ud800"}}, {})


@pytest.mark.parametrize("end", ["", "\n", " # a comment", "\r\n"])
def test_a_kernel_file_with_a_sweep_at_its_end(tmp_path: Path, end: str) -> None:
    base: Parameters = {"MPerBlock": 128, "NPerBlock": 64, "Lengths": (4, 64, 1), "BlkGemmPipelineVer": 'v"3'}
    tables = instance_tables(product_of("mine", {"NPerBlock": [16, 32], "Fast": True}), base)
    loaded = workspace(tmp_path, {"k.kernel.toml": KERNEL.rstrip("\n") + end + tables})
    assert loaded.errors == ()
    assert {instance.name: dict(instance.parameters) for instance in loaded.kernels[0].instances} == {
        "first": {"MPerBlock": 128},
        "mine_16": {**base, "NPerBlock": 16, "Fast": True},
        "mine_32": {**base, "NPerBlock": 32, "Fast": True},
    }
