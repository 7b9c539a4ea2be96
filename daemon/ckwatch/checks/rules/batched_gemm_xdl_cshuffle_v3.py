"""Rules of `DeviceBatchedGemmMultiD_Xdl_CShuffle_V3`, for Composable Kernel 7.2.

For each matrix it runs the gridwise GEMM of `DeviceGemmMultiD_Xdl_CShuffle_V3`: parameters, definitions and rules are
those. Other than there the types to multiply in are by default those of A and B, and CShuffleNXdlPerWavePerShuffle
is taken as it is.
"""

from __future__ import annotations

from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.rule import Definition

OPERATION = GEMM.derived(
    "DeviceBatchedGemmMultiD_Xdl_CShuffle_V3",
    "ck/tensor_operation/gpu/device/impl/device_batched_gemm_multiple_d_xdl_cshuffle_v3.hpp",
    defaults={"ComputeTypeA": "ADataType", "ComputeTypeB": "BDataType"},
    definitions=[Definition("CShuffleNXdl", "CShuffleNXdlPerWavePerShuffle", "XDL tiles of C along N in one shuffle")],
)
