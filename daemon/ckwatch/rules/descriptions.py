"""What the template parameters of Composable Kernel mean, and which values they may have: for people, and completion.

`values` are those that CK's headers know, as kernel files write them; where there are too many to list, none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.model.kernel import ParameterValue
from ckwatch.rules.checking import OPERATIONS
from ckwatch.rules.gemm_xdl_cshuffle_v3 import A_CLUSTER, B_CLUSTER, C_CLUSTER, C_VECTORS
from ckwatch.rules.model import Kind


@dataclass(frozen=True, slots=True)
class Description:
    """A parameter for people: what it is, and the values that it may have."""

    doc: str
    values: tuple[ParameterValue, ...] = ()


_GEMM_SPECS = ("Default", "MPadding", "NPadding", "KPadding", "MNPadding", "MKPadding", "NKPadding", "MNKPadding")
"""`ck/tensor_operation/gpu/device/gemm_specialization.hpp`, those without an O dimension."""

_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
_DTYPES = ("F16", "BF16", "F32", "F8", "BF8", "I8")


def _of_operand(side: str, rows: str, operand: str, contiguous: str, cluster: str) -> dict[str, Description]:
    """How a block copies one operand to LDS."""
    k0, k1, transfer = f"{side}K0", f"{side}K1", f"{side}BlockTransfer"
    order = f"the dimensions {k0}, {rows} and {k1} as 0, 1 and 2, each once, the fastest last"
    return {
        cluster: Description(
            f"How the threads of a block are laid out over its tile of {side} ({operand}), as {k0}, {rows}, {k1}; "
            "the product is at most `BlockSize`."
        ),
        f"{transfer}ThreadClusterArrangeOrder": Description(
            f"In which order the threads of the cluster are counted: {order}.", _ORDERS
        ),
        f"{transfer}SrcAccessOrder": Description(
            f"In which order a thread walks its part of {side} in global memory: {order}.", _ORDERS
        ),
        f"{transfer}SrcVectorDim": Description(
            f"The dimension of {operand} along which vectors are read, which must be the contiguous one: {contiguous}.",
            (1, 2),
        ),
        f"{transfer}SrcScalarPerVector": Description(
            f"Elements of {operand} that a thread reads from global memory at once.", (1, 2, 4, 8, 16)
        ),
        f"{transfer}DstScalarPerVector_{k1}": Description(
            f"Elements of {side} that a thread writes to LDS at once, along {k1}.", (1, 2, 4, 8, 16)
        ),
        f"{side}BlockLdsExtra{rows}": Description(
            f"Whether the tile of {side} in LDS is padded against bank conflicts.", (True, False)
        ),
        k1: Description(f"Elements of {operand} along K that lie together in LDS.", (1, 2, 4, 8, 16, 32)),
    }


_GEMM_XDL_CSHUFFLE_V3: Mapping[str, Description] = {
    "GemmSpec": Description(
        "Which sizes may be no multiple of the tile: those that are named are padded. `Default` pads none.", _GEMM_SPECS
    ),
    "BlockSize": Description("Threads of a block, a multiple of 64.", (64, 128, 192, 256, 512, 1024)),
    "MPerBlock": Description("Rows of Y that one block computes."),
    "NPerBlock": Description("Columns of Y that one block computes."),
    "KPerBlock": Description("How deep along K the tiles of X and W in LDS are."),
    "MPerXDL": Description("Rows of the tile of one matrix instruction (MFMA).", (4, 8, 16, 32, 64)),
    "NPerXDL": Description("Columns of the tile of one matrix instruction (MFMA).", (16, 32, 64)),
    "MXdlPerWave": Description("Tiles of the matrix instruction that one wave computes along M."),
    "NXdlPerWave": Description(
        "Tiles of the matrix instruction that one wave computes along N. CK 7.2 works it out from the other parameters."
    ),
    **_of_operand("A", "M", "X", "2 where it is row-major, 1 where it is column-major", A_CLUSTER),
    **_of_operand("B", "N", "W", "1 where it is row-major, 2 where it is column-major", B_CLUSTER),
    "CShuffleMXdlPerWavePerShuffle": Description(
        "Tiles along M of each wave that go through LDS at once on the way out."
    ),
    "CShuffleNXdlPerWavePerShuffle": Description(
        "Tiles along N of each wave that go through LDS at once on the way out."
    ),
    C_CLUSTER: Description(
        "How the threads of a block are laid out over the part of Y that goes through LDS, as MBlock, MPerBlock, "
        "NBlock, NPerBlock; the product is `BlockSize`."
    ),
    C_VECTORS: Description(
        "Elements of Y that a thread writes at once, `[n]` or `n`. The template adds the widths of the D tensors."
    ),
    "BlkGemmPipeSched": Description(
        "How a block overlaps loads with matrix instructions: within a wave, or between waves (v1 and v2 only).",
        ("Intrawave", "Interwave"),
    ),
    "BlkGemmPipelineVer": Description(
        "The block's pipeline: v1 is the plain one, v2 is for memory-bound problems, v3 to v5 are for compute-bound "
        "ones; v4 has two buffers in LDS, v5 two in registers for what it prefetches.",
        ("v1", "v2", "v3", "v4", "v5"),
    ),
    "CShuffleDataType": Description(
        "Type in which Y goes through LDS. Default: the accumulator's if there is an epilogue, else Y's.", _DTYPES
    ),
    "ComputeTypeA": Description("Type that X is multiplied in. Default: the wider of X's and W's types.", _DTYPES),
    "ComputeTypeB": Description("Type that W is multiplied in. Default: the wider of X's and W's types.", _DTYPES),
}

_DESCRIPTIONS: Mapping[str, Mapping[str, Description]] = {"DeviceGemmMultiD_Xdl_CShuffle_V3": _GEMM_XDL_CSHUFFLE_V3}

KINDS: Mapping[Kind, str] = {
    Kind.INTEGER: "integer",
    Kind.FLAG: "true or false",
    Kind.SEQUENCE: "array of integers",
    Kind.DTYPE: "string",
    Kind.LAYOUT: "string",
    Kind.ENUMERATOR: "string",
    Kind.TYPES: "string",
    Kind.OTHER: "string",
}
"""How a kernel file writes a parameter of a kind."""


def described(device_operation: str, parameter: str) -> Description | None:
    """What is known of a parameter of a device operation; None for one that kernel files do not give."""
    return _DESCRIPTIONS.get(device_operation, {}).get(parameter)


def described_parameters(device_operation: str) -> Mapping[str, Description]:
    """The parameters of a device operation that a kernel file may give."""
    return _DESCRIPTIONS.get(device_operation, {})


def kind_of(device_operation: str, parameter: str) -> str:
    """How a kernel file writes the parameter, in words; empty for an unknown one."""
    operation = OPERATIONS.get(device_operation)
    found = None if operation is None else operation.parameters.get(parameter)
    return "" if found is None else KINDS[found.kind]
