"""The batched universal GEMM: what its rules have in common with those of the universal one, and where they differ."""

from __future__ import annotations

import pytest

from benchmarks.gemm_samples import Arguments
from cases.rule_instances import OPERATION as GEMM
from cases.rule_instances import row_col
from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.reference import parameter_description

BATCHED = "DeviceBatchedGemmMultiD_Xdl_CShuffle_V3"


def broken(operation: str, arguments: Arguments) -> list[str]:
    return [violation.rule for violation in check_instance(operation, arguments, "gfx942")]


@pytest.mark.parametrize(
    "change", [{}, {"MXdlPerWave": 3}, {"KPerBlock": 24}, {"ABlockTransferSrcScalarPerVector": 32}]
)
def test_rules_are_those_of_the_universal_gemm(change: Arguments) -> None:
    assert broken(BATCHED, row_col(**change)) == broken(GEMM, row_col(**change))
    assert list(OPERATIONS[BATCHED].parameters) == list(OPERATIONS[GEMM].parameters)


def test_it_multiplies_in_the_types_of_its_operands() -> None:
    given = {name: value for name, value in row_col(CDataType="I8").items() if not name.startswith("ComputeType")}
    assert broken(BATCHED, given) == []
    assert broken(BATCHED, {**given, "BDataType": "BF16"}) == ["compute-types"]
    assert "a-conversion" in broken(GEMM, given)


def test_it_takes_the_tiles_of_a_shuffle_as_they_are() -> None:
    change = row_col(CShuffleNXdlPerWavePerShuffle=4)
    assert broken(GEMM, change) == []
    (found,) = check_instance(BATCHED, change, "gfx942")
    assert (found.rule, found.severity, found.blame) == ("c-shuffle-n", "warning", "CShuffleNXdlPerWavePerShuffle")
    assert found.evaluated == "2 % 4 = 2"


def test_inductors_names_and_positions() -> None:
    text = f"using Gemm = ck::tensor_operation::device::{BATCHED}<Row, Col, Tuple<>, /* c_layout */ Row, F16>;"
    (found,) = rendered_instances(text)
    assert found.arguments["CLayout"] == "Row"
    for name, expected in (
        ("a_k1", "AK1"),
        ("acc_dtype", "GemmAccDataType"),
        ("c_shuffle_block_transfer_scalar_per_vector_n_per_block", "CDEShuffleBlockTransferScalarPerVectors"),
        ("block_gemm_pipeline_version", "BlkGemmPipelineVer"),
        ("b_compute_dtype", "ComputeTypeB"),
    ):
        assert OPERATIONS[BATCHED].canonical(name) == expected
    assert parameter_description(BATCHED, "MPerBlock") == parameter_description(GEMM, "MPerBlock")
