"""Shapes that a GEMM with a preshuffled W or with microscaled operands refuses, and those next to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue
from helpers.workspaces import INSTANCE, TOP, workspace

Parameters = dict[str, ParameterValue]

PRESHUFFLED = """
[operation]
kind = "gemm"
a = { dtype = "f8" }
b = { dtype = "f8", preshuffled = [16, 16] }
c = { dtype = "bf16" }
split_k = true
"""
MICROSCALED = """
[operation]
kind = "gemm"
a = { dtype = "f8" }
b = { dtype = "f8", layout = "col" }
c = { dtype = "f16" }
scale_a = { dtype = "e8m0", per = "block", block = [1, 32], preshuffled = 16 }
scale_b = { dtype = "e8m0", per = "block", block = [32, 1], preshuffled = 16 }
split_k = true
"""
PACKED = MICROSCALED.replace('"f8"', '"f4"')
BOTH = PACKED.replace('layout = "col"', "preshuffled = [16, 32]")
WIDE = MICROSCALED.replace("preshuffled = 16", "preshuffled = 32")
TILE: Parameters = {
    "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 256, "AK1": 16, "BK1": 16, "GemmSpec": "Default", "BlockSize": 256,
    "ABlockTransferSrcScalarPerVector": 16, "BBlockTransferSrcScalarPerVector": 16, "BlkGemmPipelineVer": "v1",
}  # fmt: skip
SHUFFLED = {**TILE, "CDEShuffleBlockTransferScalarPerVectors": (8,)}
SCALED = {**TILE, "CShuffleBlockTransferScalarPerVector_NPerBlock": 8}


@pytest.mark.parametrize(
    ("operation", "parameters", "sizes", "expected"),
    [
        (PRESHUFFLED, SHUFFLED, (1, 128, 768, 1), ""),
        (
            PRESHUFFLED,
            SHUFFLED,
            (1, 130, 768, 1),
            "N = 130 is not a multiple of NPerBlock = 128, as a preshuffled W needs",
        ),
        (
            PRESHUFFLED,
            SHUFFLED,
            (1, 113, 768, 1),
            "N = 113 is not a multiple of NPerBlock = 128, as a preshuffled W needs",
        ),
        (
            PRESHUFFLED,
            SHUFFLED,
            (1, 128, 800, 1),
            "K = 800 is not a multiple of kBatch · KPerBlock = 256, as a preshuffled W",
        ),
        (
            PRESHUFFLED,
            SHUFFLED,
            (1, 128, 768, 2),
            "K = 768 is not a multiple of kBatch · KPerBlock = 512, as a preshuffled W",
        ),
        (PRESHUFFLED, SHUFFLED, (1, 128, 512, 1), "K = 512 is 2 × KPerBlock: pipeline v1 needs more than 2"),
        (PRESHUFFLED, SHUFFLED, (1, 128, 1536, 2), ""),
        (MICROSCALED, SCALED, (1, 32, 256, 1), ""),
        (MICROSCALED, SCALED, (133, 1184, 768, 3), ""),
        (MICROSCALED, SCALED, (1, 40, 256, 1), "N = 40 is not a multiple of 32, whose scales lie together"),
        (
            MICROSCALED,
            SCALED,
            (1, 32, 384, 1),
            "K = 384 is not a multiple of kBatch · KPerBlock = 256, as scales per block",
        ),
        (PACKED, SCALED, (1, 32, 1024, 2), ""),
        (
            PACKED,
            SCALED,
            (1, 32, 256, 1),
            "K = 256 is not a multiple of kBatch · 2 · KPerBlock = 512, as scales per block",
        ),
        (BOTH, SCALED, (1, 128, 1536, 1), ""),
        (BOTH, SCALED, (1, 160, 1536, 1), "N = 160 is not a multiple of NPerBlock = 128, as a preshuffled W needs"),
        (BOTH, SCALED, (1, 128, 1024, 1), "K = 1024 is 2 × KPerBlock: pipeline v1 needs more than 2"),
        (WIDE, SCALED, (33, 64, 256, 1), ""),
        (WIDE, SCALED, (32, 64, 256, 1), "M = 32, in whole 32, is not a multiple of 64, whose scales lie together"),
        (WIDE, SCALED, (64, 32, 256, 1), "N = 32 is not a multiple of 64, whose scales lie together"),
    ],
)
def test_reasons(
    tmp_path: Path, operation: str, parameters: Parameters, sizes: tuple[int, int, int, int], expected: str
) -> None:
    m, n, k, slices = sizes
    shape = f"\n[[shape]]\nM = {m}\nN = {n}\nK = {k}\nkBatch = {slices}\n"
    found = workspace(tmp_path, {"k.kernel.toml": TOP + operation + INSTANCE + shape})
    assert found.diagnostics == ()
    kernel = found.kernels[0]
    reason = unsupported_reason(parameters, problem_of(kernel.operation, kernel.shapes[0], "gfx950"))
    assert reason.startswith(expected) if expected else not reason
