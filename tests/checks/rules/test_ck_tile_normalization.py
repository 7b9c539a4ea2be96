"""Rules of CK Tile's norms: each by an instance that breaks it, and instances that break none."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.checks.rules.checker import check_instance, value_of
from ckwatch.checks.rules.ck_tile_normalization import (
    LAYERNORM,
    LAYERNORM_PARAMETERS,
    LAYERNORM_RULES,
    OPERATIONS,
    RMSNORM,
    RMSNORM_RULES,
)
from ckwatch.checks.rules.reference import DESCRIPTIONS
from helpers.each_row import each_row

COMMON: dict[str, Any] = {
    "XDataType": "F16", "YDataType": "F16", "kFusedAdd": "Rmsnorm2dFusedAddEnum::NO_ADD",
    "kFusedQuant": "Rmsnorm2dFusedQuantEnum::NO_SWEEP", "Repeat_N": 2, "ThreadPerBlock_M": 4, "ThreadPerBlock_N": 64,
    "Vector_N": 8, "kPadN": True, "kTwoPass": False,
}  # fmt: skip
GIVEN = {RMSNORM: COMMON, LAYERNORM: {**COMMON, "kSaveMeanInvStd": False, "kFastFDiv": True, "kWelford": True}}
ASSERTING = "".join(f'static_assert(b, "{rule.asserted_by}");' for rule in LAYERNORM_RULES if rule.asserted_by)

ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    # device operation, change, rule that is broken, the message's end
    (RMSNORM, {"ThreadPerBlock_M": 32}, "block-threads", "BlockSize = 2048"),
    (RMSNORM, {"ThreadPerBlock_M": 3, "ThreadPerBlock_N": 32}, "whole-waves", "96 % 64 = 32"),
    (RMSNORM, {"ThreadPerBlock_M": 4, "ThreadPerBlock_N": 48}, "row-threads", ""),
    (RMSNORM, {"ThreadPerBlock_M": 2, "ThreadPerBlock_N": 96}, "row-threads", ""),
    (RMSNORM, {"ThreadPerBlock_M": 1, "ThreadPerBlock_N": 384}, "row-waves", "power of two"),
    (LAYERNORM, {"ThreadPerBlock_M": 1, "ThreadPerBlock_N": 192, "kFusedQuant": "DYNAMIC_QUANT"}, "row-waves", ""),
    (RMSNORM, {"Vector_N": 3}, "row-vector", "Vector_N = 3"),
    (RMSNORM, {"Vector_N": 32}, "row-vector", "Vector_N = 32"),
    (RMSNORM, {"kTwoPass": True, "kFusedQuant": "Rmsnorm2dFusedQuantEnum::DYNAMIC_QUANT"}, "two-pass-quant", ""),
    (LAYERNORM, {"kTwoPass": True, "kWelford": False}, "two-pass-welford", ""),
    (LAYERNORM, {"kSaveMeanInvStd": True}, "statistics-lanes", "ThreadPerBlock_N = 64"),
]

GOOD: list[tuple[str, dict[str, Any]]] = [
    (RMSNORM, {}),
    (RMSNORM, {"kFusedQuant": "Rmsnorm2dFusedQuantEnum::DYNAMIC_QUANT"}),
    (RMSNORM, {"ThreadPerBlock_M": 16, "ThreadPerBlock_N": 4}),
    (LAYERNORM, {"ThreadPerBlock_M": 1, "ThreadPerBlock_N": 192, "Repeat_N": 3}),
    (RMSNORM, {"kTwoPass": True}),
    (LAYERNORM, {"kTwoPass": True}),
    (LAYERNORM, {"kWelford": False, "kSaveMeanInvStd": True}),
    (LAYERNORM, {"ThreadPerBlock_M": 1, "ThreadPerBlock_N": 128, "kSaveMeanInvStd": True}),
]


def broken(name: str, change: dict[str, Any]) -> dict[str, str]:
    violations = check_instance(name, {**GIVEN[name], **change}, "gfx942", source=ASSERTING)
    return {violation.rule: violation.message for violation in violations}


@each_row(("name", "change", "rule", "end"), ROWS)
def test_rule_is_broken(name: str, change: dict[str, Any], rule: str, end: str) -> None:
    assert end in broken(name, change).get(rule, "not broken")


@pytest.mark.parametrize(("name", "change"), GOOD)
def test_no_rule_is_broken(name: str, change: dict[str, Any]) -> None:
    assert broken(name, change) == {}


def test_every_rule_has_a_row() -> None:
    assert {rule.slug for rule in (*RMSNORM_RULES, *LAYERNORM_RULES)} <= {row[2] for row in ROWS}


def test_what_a_block_reads() -> None:
    assert value_of(LAYERNORM, "Block_N", GIVEN[LAYERNORM]) == 1024
    assert value_of(LAYERNORM, "BlockSize", GIVEN[LAYERNORM]) == 256


def test_parameters_are_described() -> None:
    assert {one.name for one in OPERATIONS} == {RMSNORM, LAYERNORM}
    described = DESCRIPTIONS[LAYERNORM]
    assert {"kWelford", "Repeat_N"} <= set(described) <= {one.name for one in LAYERNORM_PARAMETERS}
