"""The nearest changes of parameters that may raise the occupancy, on the examples' instances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import ckwatch
import ckwatch_templates
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.points import Parameters, PointRules
from ckwatch.codeobject.occupancy import OccupancyStep, step_of
from ckwatch.engine.queries.language import considered_values
from ckwatch.model.kernels import Unit
from ckwatch.prediction.instances import instance_of
from ckwatch.prediction.occupancy_steps import CHANGED_AT_MOST, OperandSizes, occupancy_proposals
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.kernel_reports import resources

EXAMPLES = Path(ckwatch.__file__).parents[2] / "examples"
A = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
B = "BBlockTransferThreadClusterLengths_BK0_N_BK1"
LDS = {"vgprs": 100, "lds_bytes": 65536}
REGISTERS = {"vgprs": 256, "agprs": 128, "lds_bytes": 32768}
BOTH = {"vgprs": 189, "lds_bytes": 32768}
F16 = OperandSizes(x_bytes=2, w_bytes=2)


@pytest.fixture(scope="module")
def units() -> dict[str, Unit]:
    return {
        f"{folder}/{unit.kernel.name}/{unit.instance.name}": unit
        for folder in ("gemm", "ck_tile", "batched_gemm")
        for unit in load_workspace(EXAMPLES / folder).units
    }


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer((Path(ckwatch_templates.__file__).parent,))


def made(unit: Unit, renderer: Renderer) -> tuple[str, PointRules]:
    outcome = renderer.render(unit)
    assert outcome.rendered is not None
    rules = PointRules.of([(unit.instance.parameters, outcome.rendered.text)], unit.arch)
    assert rules is not None
    return outcome.rendered.text, rules


def step(used: Mapping[str, Any], arch: str = "gfx942") -> OccupancyStep:
    found = step_of(resources(**used), arch)
    assert found is not None
    return found


ROWS: list[tuple[str, dict[str, Any], list[Parameters]]] = [
    # CK, too much LDS: what copies the operands follows the depth of the tile
    (
        "gemm/gemm_f16/v3_128x128x64_intrawave",
        LDS,
        [
            {"KPerBlock": 32, A: (4, 64, 1), B: (4, 64, 1)},
            {"KPerBlock": 16, A: (2, 128, 1), B: (2, 128, 1)},
        ],
    ),
    # v4 has two buffers, the others one: nothing else needs to change
    (
        "gemm/gemm_f16/v4_128x128x64_intrawave",
        LDS,
        [{"BlkGemmPipelineVer": "v3"}, {"BlkGemmPipelineVer": "v1"}, {"BlkGemmPipelineVer": "v2"}],
    ),
    # CK, too many registers: a smaller tile has fewer accumulators, and as many waves must cover it
    (
        "gemm/gemm_f16/v3_256x256x32_intrawave",
        REGISTERS,
        [
            {"MPerBlock": 128, "MXdlPerWave": 2},
            {"MPerBlock": 128, "NXdlPerWave": 2},
            {"NPerBlock": 128, "NXdlPerWave": 2},
        ],
    ),
    ("batched_gemm/batched_f16/v3_128x128x64_intrawave", LDS, [{"KPerBlock": 32, A: (4, 64, 1), B: (4, 64, 1)}]),
    # CK Tile works its copies out by itself
    ("ck_tile/gemm_f16/v3_128x128x64", LDS, [{"TileK": 32}, {"TileK": 16, "WarpTileK": 16}]),
    ("ck_tile/gemm_f16/v3_128x128x64", BOTH, [{"TileK": 32}, {"TileM": 32}, {"TileN": 32}]),
]


@pytest.mark.parametrize(("name", "used", "expected"), ROWS)
def test_the_nearest_changes_come_first(
    units: dict[str, Unit], renderer: Renderer, name: str, used: dict[str, Any], expected: list[Parameters]
) -> None:
    unit = units[name]
    text, rules = made(unit, renderer)
    parameters, wanted = unit.instance.parameters, step(used)
    candidates = partial(considered_values, unit, emitted=rendered_instances(text))
    found = list(islice(occupancy_proposals(parameters, wanted, F16, candidates, rules.broken), 8))
    assert [one.changes for one in found][: len(expected)] == expected
    present = instance_of(parameters)
    assert present is not None
    for one in found:
        assert len(one.changes) <= CHANGED_AT_MOST
        assert rules.refusal({**parameters, **one.changes}) == ""
        changed = instance_of({**parameters, **one.changes})
        assert changed is not None
        assert changed.threads == present.threads
        assert one.vgprs <= wanted.vgprs.most
        assert one.lds_bytes <= wanted.lds_bytes.most
        assert one.vgprs == round(wanted.vgprs.present * changed.registers(2, 2) / present.registers(2, 2))
        assert one.lds_bytes == round(wanted.lds_bytes.present * changed.lds_bytes(2, 2) / present.lds_bytes(2, 2))
    assert [len(one.changes) for one in found] == sorted(len(one.changes) for one in found)


CK_TILE: Parameters = {
    "TileM": 128, "TileN": 128, "TileK": 64, "WarpM": 2, "WarpN": 2, "WarpK": 1, "WarpTileM": 32, "WarpTileN": 32,
    "Pipeline": "CompV3", "Scheduler": "Intrawave", "Epilogue": "CShuffle",
}  # fmt: skip


def found_with(
    parameters: Parameters, used: dict[str, Any], refused: Mapping[str, tuple[str, ...]] | None
) -> list[Parameters]:
    """The proposals where TileK may be 16 or 32 and everything with 32 breaks these rules (None: it cannot be told)."""

    def broken(one: Parameters) -> Mapping[str, tuple[str, ...]] | None:
        return refused if one["TileK"] == 32 else {}

    values = {"TileK": (64, 32, 16), "WarpM": (1, 2, 4)}
    proposals = occupancy_proposals(parameters, step(used), F16, lambda name: values.get(name, ()), broken)
    return [one.changes for one in proposals]


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ({}, [{"TileK": 32}, {"TileK": 16}]),
        ({"k": ("TileK",)}, [{"TileK": 16}]),
        ({"k": ("TileK", "WarpM")}, [{"TileK": 16}]),
        (None, [{"TileK": 16}]),
    ],
)
def test_what_the_rules_refuse_is_not_proposed(
    refused: Mapping[str, tuple[str, ...]] | None, expected: list[Parameters]
) -> None:
    assert found_with(CK_TILE, LDS, refused) == expected


def test_what_is_not_understood_has_no_proposals() -> None:
    assert found_with({"TileK": 64, "WarpM": 2}, LDS, {}) == []
    # SGPRs are not estimated
    scalar = step({"vgprs": 24, "sgprs": 104, "lds_bytes": 4096}, "gfx908")
    assert (scalar.sgprs.excess, scalar.vgprs.excess, scalar.lds_bytes.excess) == (4, 0, 0)
    assert list(occupancy_proposals(CK_TILE, scalar, F16, lambda _: (16,), lambda _: {})) == []
