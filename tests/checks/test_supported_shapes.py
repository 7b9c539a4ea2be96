"""Shapes that CK refuses, and those next to them that it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cases.gemm_case import GemmCase
from ckwatch.checks.supported_shapes import named_as_ck, unsupported_reason
from ckwatch.model.kernels import ParameterValue
from helpers.each_row import each_row
from helpers.kernel_reports import problem

Parameters = dict[str, ParameterValue]

WIDE: Parameters = {
    "GemmSpec": "MNKPadding", "BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 64, "AK1": 8, "BK1": 8,
    "ABlockTransferSrcScalarPerVector": 8, "BBlockTransferSrcScalarPerVector": 8,
    "CDEShuffleBlockTransferScalarPerVectors": (8,), "BlkGemmPipelineVer": "v1",
}  # fmt: skip
ANY: Parameters = WIDE | {
    "MPerBlock": 64, "NPerBlock": 64, "KPerBlock": 32, "ABlockTransferSrcScalarPerVector": 1,
    "BBlockTransferSrcScalarPerVector": 1, "CDEShuffleBlockTransferScalarPerVectors": (1,),
}  # fmt: skip


@each_row(
    ("parameters", "sizes", "expected"),
    [
        (WIDE, (4096, 4096, 4096), ""),
        (WIDE, (1, 8, 8), ""),
        (WIDE, (128, 128, 1001), "K = 1001 is not a multiple of ABlockTransferSrcScalarPerVector = 8"),
        (WIDE, (128, 1001, 1024), "N = 1001 is not a multiple of CDEShuffleBlockTransferScalarPerVectors = 8"),
        (WIDE | {"CDEShuffleBlockTransferScalarPerVectors": 8}, (128, 1001, 1024), "N = 1001 is not a multiple of CDEShuffleBlockTransferScalarPerVectors = 8"),
        (ANY, (7, 13, 3), ""),
        # as many rounds of the main loop as are loaded ahead are too few
        (WIDE | {"BlkGemmPipelineVer": "v3"}, (128, 128, 128), "K = 128 is 2 × KPerBlock: pipeline v3 needs more than 2"),
        (WIDE | {"BlkGemmPipelineVer": "v3"}, (128, 128, 136), ""),
        (WIDE | {"BlkGemmPipelineVer": "v4"}, (128, 128, 192), "K = 192 is 3 × KPerBlock: pipeline v4 needs more than 3"),
        (WIDE | {"BlkGemmPipelineVer": "v5"}, (128, 128, 200), ""),
        # 32 KiB in flight: one stage of 32 KiB, but at least two
        (WIDE | {"BlkGemmPipelineVer": "v2"}, (128, 128, 128), "K = 128 is 2 × KPerBlock: pipeline v2 needs more than 2"),
        (WIDE | {"BlkGemmPipelineVer": "v2"}, (128, 128, 136), ""),
        # 16 KiB for each of two workgroups: stages of 2.5 KiB
        (
            WIDE | {"BlkGemmPipelineVer": "v2", "BlockSize": 128, "MPerBlock": 16, "NPerBlock": 4},
            (128, 128, 448),
            "K = 448 is 7 × KPerBlock: pipeline v2 needs more than 7",
        ),
        (WIDE | {"BlkGemmPipelineVer": "v2", "BlockSize": 128, "MPerBlock": 16, "NPerBlock": 4}, (128, 128, 456), ""),
        (WIDE | {"BlkGemmPipelineVer": "v9"}, (128, 128, 64), ""),
        # without padding
        (WIDE | {"GemmSpec": "Default"}, (100, 96, 128), ""),
        (WIDE | {"GemmSpec": "Default"}, (100, 96, 96), "K = 96 is not a multiple of kBatch · KPerBlock = 64, and GemmSpec does not pad it"),
        (WIDE | {"GemmSpec": "MNPadding"}, (100, 96, 96), "K = 96 is not a multiple of kBatch · KPerBlock = 64, and GemmSpec does not pad it"),
        (WIDE | {"GemmSpec": "KPadding"}, (100, 96, 96), ""),
        (WIDE | {"GemmSpec": "SomethingElse"}, (100, 96, 96), ""),
        # more than 2 GiB in f16
        (WIDE, (1 << 16, 8, (1 << 14) + 8), "X is larger than 2 GiB"),
        (WIDE, (1 << 16, 8, 1 << 14), ""),
        (WIDE, (8, 1 << 16, (1 << 14) + 8), "W is larger than 2 GiB"),
        (WIDE, (1 << 16, (1 << 14) + 8, 8), "Y is larger than 2 GiB"),
        # other templates' instances
        ({"MPerBlock": 64, "NPerBlock": 64, "KPerBlock": 32, "ABlockTransferSrcScalarPerVector": 8}, (1, 1, 1), ""),
        ({"BlkGemmPipelineVer": "v3"}, (1, 1, 1), ""),
    ],
)  # fmt: skip
def test_refusals(parameters: Parameters, sizes: tuple[int, int, int], expected: str) -> None:
    assert unsupported_reason(parameters, problem(*sizes)) == expected


@pytest.mark.parametrize(
    ("parameters", "k", "slices", "expected"),
    [
        (WIDE, 1024, 16, ""),
        # 9 slices of 8 elements each: the last would be empty
        (WIDE, 64, 9, "K = 64 is too small for 9 slices (kBatch)"),
        (WIDE, 64, 8, ""),
        # 13 pieces of 8: two for each of 7 slices, of which the last gets one
        (WIDE, 104, 7, ""),
        (WIDE, 96, 7, "K = 96 is too small for 7 slices (kBatch)"),
        (WIDE | {"BlkGemmPipelineVer": "v3"}, 1024, 8, "K = 1024 is 2 × KPerBlock in each of 8 slices: pipeline v3 needs more than 2"),
        (WIDE | {"BlkGemmPipelineVer": "v3"}, 1024, 4, ""),
        (WIDE | {"GemmSpec": "Default"}, 1024, 3, "K = 1024 is not a multiple of kBatch · KPerBlock = 192, and GemmSpec does not pad it"),
    ],
)  # fmt: skip
def test_refusals_of_split_k(parameters: Parameters, k: int, slices: int, expected: str) -> None:
    assert unsupported_reason(parameters, problem(128, 128, k, slices)) == expected


@pytest.mark.parametrize(
    ("layouts", "sizes", "expected"),
    [
        ("col col row", (1001, 128, 128), "M = 1001 is not a multiple of ABlockTransferSrcScalarPerVector = 8"),
        ("row row row", (128, 1001, 128), "N = 1001 is not a multiple of BBlockTransferSrcScalarPerVector = 8"),
        ("row col row", (128, 128, 1001), "K = 1001 is not a multiple of ABlockTransferSrcScalarPerVector = 8"),
        ("col row row", (128, 128, 1001), ""),
    ],
)
def test_vectors_lie_along_the_contiguous_axis(layouts: str, sizes: tuple[int, int, int], expected: str) -> None:
    assert unsupported_reason(WIDE, problem(*sizes, case=GemmCase(layouts=layouts))) == expected


@pytest.mark.parametrize(
    ("layouts", "spec", "expected"),
    [
        ("col col row", "NKPadding", "M = 200 is not a multiple of MPerBlock = 128, and GemmSpec does not pad it"),
        ("col col row", "MPadding", ""),
        # CK asks this of a col-major X and a row-major W only
        ("row col row", "KPadding", ""),
        ("row row row", "MKPadding", "N = 264 is not a multiple of NPerBlock = 128, and GemmSpec does not pad it"),
        ("row row row", "NKPadding", ""),
    ],
)
def test_tiles_that_are_not_padded(layouts: str, spec: str, expected: str) -> None:
    assert (
        unsupported_reason(WIDE | {"GemmSpec": spec}, problem(200, 264, 128, case=GemmCase(layouts=layouts)))
        == expected
    )


@pytest.mark.parametrize(
    ("matrices", "expected"), [(65535, ""), (65536, "B = 65536 is above 65535, the most that a grid has along an axis")]
)
def test_matrices_of_a_batch(matrices: int, expected: str) -> None:
    one = problem(1, 8, 8)
    assert one.gemm is not None
    batch = replace(one.gemm, **{name: replace(getattr(one.gemm, name), batch=((matrices, 64),)) for name in "xwy"})
    assert unsupported_reason(WIDE, replace(one, computed=batch)) == expected


def test_inductors_names_stand_for_those_of_ck() -> None:
    given: Parameters = {
        "gemm_specialization": "GemmSpecialization::MNKPadding", "block_size": 256, "m_per_block": 128, "n_per_block": 128,
        "k_per_block": 64, "a_k1": 8, "b_k1": 8, "a_block_transfer_src_scalar_per_vector": 8,
        "b_block_transfer_src_scalar_per_vector": 8, "c_shuffle_block_transfer_scalar_per_vector_n_per_block": (8,),
        "block_gemm_pipeline_version": "BlockGemmPipelineVersion::v1",
    }  # fmt: skip
    assert named_as_ck(given) == WIDE
    assert named_as_ck(WIDE) == WIDE
    for own in ({}, {"Threads": 256}, {**given, "UNROLL": 4}):
        assert named_as_ck(own) is own
