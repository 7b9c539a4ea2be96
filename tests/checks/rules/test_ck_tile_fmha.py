"""Rules of CK Tile's attention: each by an instance that breaks it, and instances that break none."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.ck_tile_fmha import NAME, OPERATION, PADS, SEQUENCES, TILES
from ckwatch.checks.rules.reference import DESCRIPTIONS
from ckwatch.model.diagnostics import Severity
from helpers.each_row import each_row

F16: dict[str, Any] = {
    "QKVDataType": "F16", "ODataType": "F16", "Head": 128, "HeadV": 128,
    "BlockMask": "ck_tile::SimplifiedGenericAttentionMask<true>", "BiasEnum": "ck_tile::BlockAttentionBiasEnum::NO_BIAS",
    "kIsGroupMode": False, "kHasLogitsSoftCap": False, "kStoreLSE": False,
    "kM0": 128, "kN0": 128, "kK0": 32, "kN1": 128, "kK1": 32, "kQKHeaddim": 128,
    "Gemm0BlockWarps": (4, 1, 1), "Gemm0WarpTile": (32, 32, 16),
    "Gemm1BlockWarps": (4, 1, 1), "Gemm1WarpTile": (32, 32, 16),
    "kPadSeqLenQ": True, "kPadSeqLenK": True, "kPadHeadDimQ": True, "kPadHeadDimV": True,
    "Pipeline": "Pipeline::qr", "kBlockPerCu": -1,
}  # fmt: skip
ASYNC = {"Pipeline": "Pipeline::qr_async"}
TRLOAD = {"Pipeline": "Pipeline::qr_async_trload"}
F8 = {"QKVDataType": "F8", "Gemm0WarpTile": (32, 32, 32), "Gemm1WarpTile": (32, 32, 32)}
ASSERTING = "".join(f'static_assert(b, "{rule.asserted_by}");' for rule in OPERATION.rules if rule.asserted_by)

ROWS: list[tuple[dict[str, Any], str, str, str]] = [
    # change, arch, rule that is broken, the message's end
    ({}, "gfx1201", "fmha-arch", "target = gfx1201"),
    ({"Gemm1BlockWarps": (3, 1, 1)}, "gfx942", "fmha-warps", "3 % 4 = 3"),
    ({"kK0": 48}, "gfx942", "fmha-head-steps", "128 % 48 = 32"),
    ({"kQKHeaddim": 144, "kK0": 16}, "gfx942", "fmha-head-sizes", ""),
    ({"kQKHeaddim": 512}, "gfx942", "fmha-head-limit", "kQKHeaddim = 512"),
    ({**ASYNC, "kPadHeadDimQ": False}, "gfx942", "fmha-async-pads", ""),
    ({"Gemm0WarpTile": (32, 32, 4)}, "gfx942", "fmha-warp-tile", "32x32x4, WarpTiles = (32x32x8, "),
    ({**F8, "Gemm0WarpTile": (32, 32, 16)}, "gfx942", "fmha-warp-tile", "32x32x16, WarpTiles = (32x32x32)"),
    ({**ASYNC, "kN1": 96, "HeadV": 96}, "gfx942", "fmha-v-vector", ""),
    (TRLOAD, "gfx942", "fmha-trload-arch", "target = gfx942"),
    ({**TRLOAD, "kHasLogitsSoftCap": True}, "gfx950", "fmha-trload-bias", ""),
    ({**TRLOAD, "BiasEnum": "BlockAttentionBiasEnum::ALIBI"}, "gfx950", "fmha-trload-bias", ""),
    ({**F8, **ASYNC}, "gfx942", "fmha-async-f8", ""),
    ({**ASYNC, "Head": 100}, "gfx942", "fmha-async-head", ""),
    ({"Head": 160}, "gfx942", "fmha-head", "= 160, "),
    ({"HeadV": 160}, "gfx942", "fmha-head-v", "= 160, "),
    ({"Head": 96, "kPadHeadDimQ": False}, "gfx942", "fmha-head-unpadded", ""),
    ({"HeadV": 96, "kPadHeadDimV": False}, "gfx942", "fmha-head-v-unpadded", ""),
    ({"kIsGroupMode": True, "kPadSeqLenK": False}, "gfx942", "fmha-variable", ""),
    ({"Gemm0BlockWarps": (2, 2, 1)}, "gfx942", "fmha-one-warp", ""),
    ({"Gemm1BlockWarps": (8, 1, 1)}, "gfx942", "fmha-same-warps", ""),
    ({"Gemm1WarpTile": (16, 16, 32)}, "gfx942", "fmha-same-warps", ""),
    ({"kM0": 96}, "gfx942", "fmha-rows", "96 % (4 * 32) = 96"),
    ({"kN0": 80, "kK1": 16}, "gfx942", "fmha-keys", "80 % 32 = 16"),
    ({"kK0": 8}, "gfx942", "fmha-k0", "8 % 16 = 8"),
    ({"kN1": 144}, "gfx942", "fmha-columns", "144 % 32 = 16"),
    ({"kK1": 8}, "gfx942", "fmha-k1", "8 % 16 = 8"),
    ({"kK1": 48}, "gfx942", "fmha-key-steps", "128 % 48 = 32"),
]  # fmt: skip

GOOD: list[tuple[dict[str, Any], str]] = [
    ({}, "gfx90a"),
    (ASYNC, "gfx942:sramecc+:xnack-"),
    (F8, "gfx942"),
    (TRLOAD, "gfx950"),
    ({"Head": 100, "HeadV": 72}, "gfx942"),
    ({"kIsGroupMode": True, "BiasEnum": "BlockAttentionBiasEnum::ELEMENTWISE_BIAS"}, "gfx950"),
    (
        {"kQKHeaddim": 256, "kN1": 256, "Head": 256, "HeadV": 256, "kPadHeadDimQ": False, "kPadHeadDimV": False},
        "gfx942",
    ),
]


def broken(change: dict[str, Any], arch: str) -> dict[str, str]:
    violations = check_instance(NAME, {**F16, **change}, arch, source=ASSERTING)
    return {violation.rule: violation.message for violation in violations}


@each_row(("change", "arch", "rule", "end"), ROWS)
def test_rule_is_broken(change: dict[str, Any], arch: str, rule: str, end: str) -> None:
    assert end in broken(change, arch).get(rule, "not broken")


@pytest.mark.parametrize(("change", "arch"), GOOD)
def test_no_rule_is_broken(change: dict[str, Any], arch: str) -> None:
    assert broken(change, arch) == {}


def test_every_rule_has_a_row() -> None:
    assert {rule.slug for rule in OPERATION.rules} == {row[2] for row in ROWS}


def test_what_nothing_asserts_is_a_warning() -> None:
    found = check_instance(NAME, {**F16, "kK1": 48}, "gfx942", source="")
    assert {(one.rule, one.severity) for one in found} == {("fmha-key-steps", Severity.WARNING)}


def test_every_parameter_of_a_kernel_file_is_described() -> None:
    assert list(DESCRIPTIONS[NAME]) == [*TILES, *SEQUENCES, *PADS, "Pipeline", "kBlockPerCu"]
