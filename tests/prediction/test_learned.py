"""The factor that public measurements say, and where it applies."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from importlib.resources import files
from itertools import pairwise
from math import exp, log, log2
from pathlib import Path
from typing import Any

import pytest

from cases.gemm_instances import INSTANCE, MACHINE
from ckwatch.model.kernel_problem import problem_of
from ckwatch.prediction.learned import (
    FOLDER,
    FOREIGN,
    OTHER,
    SHARE_WIDTHS,
    DecisionTable,
    PredictionRecord,
    features,
    instance_keys,
    kernel,
    learned_family,
    looked_up,
    point_of,
    read_family,
    record_of,
    regimes,
    share_log,
    share_logs,
    slice_of,
    source_of,
)
from ckwatch.prediction.predict import predict, target_of
from ckwatch.prediction.times import GemmSizes, estimated_figures, gemm_time
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.shapes import find_shape
from helpers.static_diagnostics import EXAMPLES

SIZES = GemmSizes(m=100, n=1024, k=1024, x_bytes=1, w_bytes=1, y_bytes=2)
FOUND = gemm_time(INSTANCE, estimated_figures(INSTANCE, SIZES), SIZES, MACHINE)
KEY = "256x128x128x128_32x32_2x2_1x1_intrawave_v3"
OWN, ELSEWHERE = "a8w8_rowwise, MI355X, i8", "a8w8_rowwise, MI308X, i8"
RECORD = PredictionRecord(
    slice=OWN, learned=True, shapes=311, candidates=83, first=0.64, first_five=0.92, off=0.084, off_90=0.21, inside=0.8
)
NAMES = list(features(INSTANCE, SIZES, FOUND, 64))
PIPELINE, SHARE = NAMES.index("pipeline"), len(NAMES)
"""Numbers of features: those of `features`, then the shares among winners nearby."""

STORED = {
    "version": 2,
    "source": "us",
    "records": [asdict(RECORD), asdict(replace(RECORD, slice=ELSEWHERE, learned=False))],
    "correction": {
        "features": NAMES,
        "known": [KEY, "another"],
        "tables": [
            [[0, 99.0], [0, 99.0], [PIPELINE, 2.5], [SHARE, 0.1], [0.0, 0.1, 0.2, 0.4, *[9.0] * 12]],
            [*[[0, 99.0]] * 4, [0.05, *[9.0] * 15]],
        ],
        "trend": {"N / K": 0.5},
        "intervals": [[0, 0.0, 0.5, 2.0], [1, 0.0, 0.7, 1.5], [1, 0.5, 0.8, 1.2], [2, 0.5, 0.9, 1.1]],
        "slices": [[OWN, "gfx950"]],
        "points": [[0, 100, 1024, 1024, 1, 0, 0.25]],
    },
}


def test_tables_are_looked_up_by_all_of_their_splits() -> None:
    table = DecisionTable((3, 0.5), (2, 0.5), (1, 0.5), (0, 2.0), tuple(map(float, range(16))))
    for bits in range(16):
        numbers = [2.0 + bits % 2, *(float(bits >> place & 1) for place in (1, 2, 3))]
        assert looked_up([table, table], numbers) == 2 * bits
    assert looked_up([table], [2.0, 0.5, 0.5, 0.5]) == 0, "a threshold is not above itself"


def test_a_record_says_how_good_predictions_were() -> None:
    assert str(RECORD) == (
        "right first choice 64 %, among the first five 92 %, times off by 8 % in the median and 21 % in the 90th "
        "percentile, over 311 shapes with up to 83 instances to choose from"
    )


def test_measurements_count_by_how_near_they_are() -> None:
    known = read_family(json.dumps(STORED)).correction
    assert known is not None
    here = known.nearby(SIZES, OWN, "gfx950")
    assert (here.evidence, here.off, here.familiar) == (1.0, 0.25, 2)
    # the winner's share is nearly all, that of an instance that was never measured says nothing
    assert share_logs(INSTANCE, here)[0] == share_log(1.0, 1.0, 2) > 0.6
    assert share_logs(replace(INSTANCE, pipeline="v1"), here) == (0.0,) * len(SHARE_WIDTHS)
    # names of experts say nothing of the epilogue
    unsaid = replace(known, known=(KEY.replace("1x1_", "0x0_"), "another"), _nearby={})
    assert share_logs(INSTANCE, unsaid.nearby(SIZES, OWN, "gfx950")) == share_logs(INSTANCE, here)
    assert known.nearby(SIZES, ELSEWHERE, "gfx950").off == pytest.approx(0.3 * 0.25)
    assert known.nearby(SIZES, ELSEWHERE, "gfx942").off == pytest.approx(0.1 * 0.25)
    far = replace(SIZES, m=6400, k=512)
    assert known.nearby(far, OWN, "gfx950").evidence < 1e-6
    assert known.nearby(far, OWN, "gfx950").off == pytest.approx(0, abs=1e-6), "the trend is that of the one point"
    # v3 and a winner nearby, v3 with nothing nearby, v1: one table; the other one always says 0.05
    factor, low, high = known.factor(INSTANCE, SIZES, FOUND, 64, OWN, "gfx950")
    assert factor == pytest.approx(exp(0.4 + 0.05 + 0.25))
    assert (low, high) == (0.9, 1.1)
    assert known.factor(INSTANCE, far, FOUND, 64, OWN, "gfx950")[0] == pytest.approx(exp(0.2 + 0.05), abs=1e-6)
    other = replace(INSTANCE, pipeline="v1")
    assert known.factor(other, SIZES, FOUND, 64, OWN, "gfx950")[0] == pytest.approx(exp(0.05 + 0.25))
    assert known.factor(INSTANCE, far, FOUND, 64, OWN, "gfx950")[1:] == (0.7, 1.5)
    assert known.factor(INSTANCE, replace(SIZES, k=1025), FOUND, 64, OWN, "gfx950")[1:] == (0.8, 1.2)
    # elsewhere: less of what was learned
    factor, low, high = known.factor(INSTANCE, SIZES, FOUND, 64, ELSEWHERE, "gfx950")
    assert factor == pytest.approx(exp(FOREIGN[0] * (0.4 + 0.05) + FOREIGN[1] * 0.3 * 0.25))
    assert (low, high) == (0.5, 2.0)


def test_the_trend_stays_in_the_box_of_what_was_measured() -> None:
    stored: dict[str, Any] = copy.deepcopy(STORED)
    stored["correction"]["points"].append([0, 6400, 4096, 512, 1, 0, 0.0])
    known = read_family(json.dumps(stored)).correction
    assert known is not None
    edge, beyond = replace(SIZES, m=6400, n=4096, k=512), replace(SIZES, m=10**6, n=2**20, k=1)
    # N over K is 8 there: three quarters of the weight's unit
    assert known.nearby(beyond, OWN, "gfx950").off == pytest.approx(0.5 * 3 / 4, abs=1e-6)
    assert known.nearby(edge, OWN, "gfx950").off == pytest.approx(0.5 * 3 / 4, abs=1e-6)
    assert known.within((8.0, 11.0, 9.5, 0.0)) == (8.0, 11.0, 9.5, 0.0)


def test_more_of_a_shipped_product_takes_no_less_time() -> None:
    (kernel,) = (one for one in load_workspace(EXAMPLES / "scaled_gemm").kernels if one.name == "gemm_f8_block_scales")
    target = target_of("gfx942")
    assert target is not None
    for instance in kernel.instances[:2]:
        for sizes in ("{},4096,4096", "4096,{},4096", "4096,4096,{}"):
            shapes = [find_shape(kernel, sizes.format(size).replace(",", "x")) for size in (1, 16, 128, 1024, 8192)]
            problems = [problem_of(kernel.operation, shape, "gfx942") for shape in shapes]
            found = [predict(None, instance.parameters, problem, target).time_us for problem in problems]
            times = [one for one in found if one is not None]
            assert len(times) > 1
            assert all(later > 0.9 * sooner > 0 for sooner, later in pairwise(times)), (instance.name, sizes, times)


@pytest.mark.parametrize("m", [1, 3, 8, 100, 512, 5000, 100000])
def test_regimes_of_m_change_linearly(m: int) -> None:
    found = regimes(log(m) / log(2))
    assert sum(found.values()) == pytest.approx(1)
    assert len(found) <= 2


def test_kernels_and_points() -> None:
    at = point_of(replace(SIZES, m=64, slices=4))
    assert at == pytest.approx((6.0, 10.0, 10.0, 2.0))
    assert kernel(at, at, (1, 1, 1, 1)) == 1
    assert kernel(at, (7, 10, 10, 2), (1, 1, 1, 1)) == pytest.approx(exp(-0.5))


def test_a_correction_and_a_record_are_of_one_slice() -> None:
    known = read_family(json.dumps(STORED))
    assert known.correction_of(OWN) is known.correction
    for other in (ELSEWHERE, "a8w8_rowwise, MI300X, i8"):
        assert known.correction_of(other) is None, other
    left_out = {**STORED, "records": [asdict(RECORD), asdict(replace(RECORD, slice=OTHER))]}
    again = read_family(json.dumps(left_out))
    assert again.correction_of("a8w8_rowwise, MI300X, i8") is again.correction


def test_what_ships_has_records() -> None:
    found = record_of([OWN, OWN])
    assert found is not None
    assert found.slice == OWN
    assert record_of([OWN, ""]) is record_of([]) is record_of([""]) is record_of(["norms, MI300X, f16"]) is None
    other = record_of(["a8w8_rowwise, MI325X, i8"])
    assert other is not None
    assert other.slice == OTHER
    assert source_of([OWN, OWN]).startswith("ROCm/aiter")
    assert source_of([""]) == ""


def test_features_have_names() -> None:
    found = features(INSTANCE, SIZES, FOUND, 64)
    assert (found["pipeline"], found["interwave"], found["bytes of an element"]) == (3.0, 0.0, 1.0)
    assert found["CUs in use"] == found["workgroups per CU"] == log2(8 / 64)
    assert found["used rows"] == log2(100 / 128)
    assert (found["tile's depth"], found["slices of K"], found["tiles along N"]) == (7.0, 0.0, 3.0)
    assert list(instance_keys(INSTANCE)) == [KEY, KEY.replace("1x1_", "1x1x8_"), KEY.replace("1x1_", "0x0_")]


def test_what_ships_can_be_read_and_has_a_number_for_each_instance() -> None:
    names = [path.name.removesuffix(".json") for path in files("ckwatch.prediction").joinpath(FOLDER).iterdir()]
    assert {"a8w8_rowwise", "a8w8_bpreshuffle", "moe_stage1", "moe_stage2"} <= set(names)
    for name in names:
        family = learned_family(name)
        assert family is not None
        assert all(one.partition(",")[0] == name or one == OTHER for one in family.records)
        correction = family.correction
        assert (correction is not None) == any(one.learned for one in family.records.values())
        if correction is not None:
            stored = json.loads(files("ckwatch.prediction").joinpath(FOLDER, f"{name}.json").read_text())["correction"]
            assert stored["features"] == NAMES, "tables count features in this order"
            for *splits, values in correction.tables:
                assert all(number < len(NAMES) + len(SHARE_WIDTHS) for number, _ in splits)
                assert len(values) == 1 << len(splits)
            assert all(point.winner < len(correction.known) for point in correction.points)
            assert all(low < 1.05 and high > 0.95 and low < high for *_, low, high in correction.intervals)
    rowwise = learned_family("a8w8_rowwise")
    assert rowwise is not None
    assert rowwise.correction is not None
    assert KEY in rowwise.correction.known


PARAMETERS = {"MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 128, "MPerXDL": 32}
ROW_SCALES = 'scale_a = { dtype = "f32", per = "row" }\nscale_b = { dtype = "f32", per = "row" }\n'
BLOCK_SCALES = (
    'scale_a = { dtype = "f32", per = "block", block = [1, 128] }\n'
    'scale_b = { dtype = "f32", per = "block", block = [128, %d] }\n'
)


COLUMNS = 'dtype = "f8", layout = "col"'


def operation(b: str = COLUMNS, c: str = "bf16", more: str = ROW_SCALES) -> str:
    a = '{ dtype = "f8", layout = "row" }'
    return f'kind = "gemm"\na = {a}\nb = {{ {b} }}\nc = {{ dtype = "{c}", layout = "row" }}\n{more}'


@pytest.mark.parametrize(
    ("text", "family"),
    [
        (operation(), "a8w8_rowwise"),
        (operation('dtype = "f8", preshuffled = [16, 16]'), "a8w8_bpreshuffle"),
        (operation(more=BLOCK_SCALES % 128), "a8w8_blockscale"),
        (operation(more=BLOCK_SCALES % 1), ""),
        (operation(more=""), ""),
        (operation(c="f16"), ""),
        (operation('dtype = "bf8", layout = "col"'), ""),
        (operation('dtype = "f8", layout = "row"'), ""),
        (operation(more=ROW_SCALES.replace('"row"', '"tensor"')), ""),
        (operation(more=f'{ROW_SCALES}activation = "relu"'), ""),
        (operation(more=f"{ROW_SCALES}alpha = 2.0"), ""),
    ],
)
def test_a_product_is_in_the_list_that_has_its_like(tmp_path: Path, text: str, family: str) -> None:
    sizes = "M = 512\nN = 1024\nK = 2048\n"
    instance = "".join(f"{name} = {value}\n" for name, value in PARAMETERS.items())
    text = f'template = "ck/gemm_universal.hip.j2"\n[operation]\n{text}\n[[shape]]\n{sizes}[[instance]]\nname = "a"\n{instance}'
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx950"]\n')
    (tmp_path / "k.kernel.toml").write_text(text)
    workspace = load_workspace(tmp_path)
    assert not [one.message for one in workspace.errors]
    (kernel,) = workspace.kernels
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx950")
    assert slice_of(PARAMETERS, problem, "MI355X") == (f"{family}, MI355X, f8" if family else "")
    assert slice_of({"TileM": 128, "TileN": 128, "TileK": 64}, problem, "MI355X") == ""


TILE = {"TileM": 64, "TileN": 64, "TileK": 64, "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 16}


@pytest.mark.parametrize(
    ("parameters", "b", "c", "expected"),
    [
        (TILE, "col", "f16", "gemm_universal_cktile, MI355X, f16"),
        (TILE, "row", "f16", ""),
        (TILE, "col", "f32", ""),
        (PARAMETERS, "col", "f16", ""),
    ],
)
def test_a_product_of_ck_tile_has_a_slice_of_its_own(
    tmp_path: Path, parameters: dict[str, int], b: str, c: str, expected: str
) -> None:
    operands = f'a = {{ dtype = "f16", layout = "row" }}\nb = {{ dtype = "f16", layout = "{b}" }}\n'
    kind = f'kind = "gemm"\n{operands}c = {{ dtype = "{c}", layout = "row" }}\n'
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx950"]\n')
    (tmp_path / "k.kernel.toml").write_text(
        f'template = "ck_tile/gemm_universal.hip.j2"\n[operation]\n{kind}[[shape]]\nM = 512\nN = 1024\nK = 2048\n'
        f'[[instance]]\nname = "a"\nTileM = 64\n'
    )
    (kernel,) = load_workspace(tmp_path).kernels
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx950")
    assert slice_of(parameters, problem, "MI355X") == expected
    record = record_of([expected] if expected else [])
    assert (record is not None) == bool(expected)
    assert record is None or str(record).endswith("; which instance is the fastest there is not known")
