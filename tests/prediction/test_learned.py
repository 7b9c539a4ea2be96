"""The factor that public measurements say, and where it applies."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import log
from pathlib import Path

import pytest

from cases.gemm_instances import INSTANCE, MACHINE
from ckwatch.model.kernel_problem import problem_of
from ckwatch.prediction.learned import (
    PredictionRecord,
    features,
    instance_key,
    learned_corrections,
    read_corrections,
    slice_of,
)
from ckwatch.prediction.times import GemmSizes, estimated_figures, gemm_time
from ckwatch.workspace.loading import load_workspace

SIZES = GemmSizes(m=100, n=1024, k=1024, x_bytes=1, w_bytes=1, y_bytes=2)
FOUND = gemm_time(INSTANCE, estimated_figures(INSTANCE, SIZES), SIZES, MACHINE)
RECORD = PredictionRecord(
    slice="a8w8_rowwise, MI355X, i8", learned=True, shapes=311, candidates=83, first=0.64, first_five=0.92, off=0.084
)
TEXT = json.dumps(
    {
        "source": "us",
        "records": [asdict(RECORD), asdict(replace(RECORD, slice="a8w8_rowwise, MI308X, i8", learned=False))],
        "corrections": {
            "a8w8_rowwise": {
                "weights": {"always": 0.1, "used rows": 2.0},
                "instances": {"256x128x128x128_32x32_2x2_intrawave_v3": 0.2},
            }
        },
    }
)


def test_a_factor_is_the_sum_of_weights() -> None:
    known = read_corrections(TEXT).of(RECORD.slice)
    assert known is not None
    assert log(known.factor(INSTANCE, SIZES, FOUND, 64)) == pytest.approx(0.1 + 2 * log(100 / 128) + 0.2)
    other = replace(INSTANCE, pipeline="v1")
    assert log(known.factor(other, SIZES, FOUND, 64)) == pytest.approx(0.1 + 2 * log(100 / 128))
    assert str(RECORD) == (
        "right first choice 64 %, among the first five 92 %, times off by 8 % in the median, over 311 shapes with up "
        "to 83 instances to choose from"
    )


def test_a_correction_and_a_record_are_of_one_slice() -> None:
    known = read_corrections(TEXT)
    for other in ("a8w8_rowwise, MI308X, i8", "a8w8_rowwise, MI300X, i8", "a8w8_bpreshuffle, MI355X, i8", ""):
        assert known.of(other) is None, other
    assert known.record_of([RECORD.slice, RECORD.slice]) == RECORD
    assert known.record_of([RECORD.slice, ""]) is None
    assert known.record_of([]) is known.record_of(["a8w8_rowwise, MI300X, i8"]) is None


def test_features_have_names() -> None:
    found = features(INSTANCE, SIZES, FOUND, 64)
    assert found["v3 intrawave"] == 1.0
    assert found["CUs in use"] == pytest.approx(log(8 / 64))
    assert found["tile's depth"] == found["16×16 instructions"] == 0.0
    assert "slices of K" not in found


def test_what_ships_was_judged_on_what_its_fit_had_not_seen() -> None:
    known = learned_corrections()
    learned = [record.slice for record in known.records.values() if record.learned]
    assert {name.partition(",")[0] for name in learned} == known.corrections.keys()
    for name in learned:
        correction = known.of(name)
        assert correction is not None
        assert 0.2 < correction.factor(INSTANCE, SIZES, FOUND, 64) < 5, name
    assert instance_key(INSTANCE) in known.corrections["a8w8_rowwise"].instances


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
