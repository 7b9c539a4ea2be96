"""GEMM instances to try the rules on: known-good ones and mutants of them, reproducible from a seed.

The good ones are tile configurations of CK's own instance lists for f16, bf16 and f8 in several layouts (CK's
`library/src/tensor_operation_instance/gpu/gemm_universal` and `gemm_multiply_multiply`), here for
`DeviceGemmMultiD_Xdl_CShuffle_V3`. A mutant differs from a good one in one parameter.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ckwatch.model.kernels import ParameterValue, is_integers

Arguments = dict[str, ParameterValue]

A_CLUSTER = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
B_CLUSTER = "BBlockTransferThreadClusterLengths_BK0_N_BK1"
C_CLUSTER = "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"
C_VECTORS = "CDEShuffleBlockTransferScalarPerVectors"


@dataclass(frozen=True, slots=True)
class Sample:
    """One instance on one architecture. `mutated` names the changed parameter, empty in a good one."""

    name: str
    arch: str
    arguments: Arguments
    mutated: str = ""


# block, M, N, K, AK1, BK1, XDL, waves' tiles, A cluster, A vector, B cluster, B vector, LDS padding,
# shuffle, C cluster, C vector, scheduler, pipeline
_ROW_COL = (
    "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Intrawave v4",
    "256 128 128 32 8 8 32 2x2 4x64 8 4x64 8 0 1x1 32x8 8 Intrawave v4",
    "256 256 256 32 8 8 32 4x4 4x64 8 4x64 8 0 1x1 32x8 8 Intrawave v3",
    "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Intrawave v3",
    "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Intrawave v5",
    "256 128 256 32 8 8 32 2x4 4x64 8 4x64 8 0 1x1 32x8 8 Interwave v1",
    "256 256 128 32 8 8 32 4x2 4x64 8 4x64 8 0 1x1 32x8 8 Interwave v2",
    "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Interwave v1",
    "128 32 16 64 8 8 16 1x1 8x16 8 8x16 8 1 1x1 16x8 2 Intrawave v1",
    "64 16 16 128 8 8 16 1x1 16x4 8 16x4 8 1 1x1 16x4 4 Interwave v1",
    "64 16 16 64 8 8 16 1x1 8x8 8 8x8 8 1 1x1 16x4 4 Intrawave v2",
    "256 256 32 64 8 8 32 2x1 8x32 8 8x32 8 1 1x1 32x8 4 Intrawave v2",
    "128 128 32 64 8 8 32 2x1 8x16 8 8x16 8 1 1x1 16x8 4 Interwave v2",
    "128 64 16 64 8 8 16 2x1 8x16 8 8x16 8 1 1x1 16x8 2 Intrawave v2",
    "128 32 64 64 8 8 32 1x1 8x16 8 8x16 8 1 1x1 16x8 8 Intrawave v2",
    "128 16 64 64 8 8 16 1x2 8x16 8 8x16 8 1 1x1 16x8 4 Interwave v2",
    "64 16 16 64 8 8 16 1x1 8x8 8 8x8 8 1 1x1 16x4 4 Interwave v1",
    "128 16 32 64 8 8 16 1x1 8x16 8 8x16 8 1 1x1 16x8 4 Intrawave v1",
    "256 16 256 64 8 8 16 1x4 8x16 8 8x16 8 1 1x1 16x16 4 Intrawave v2",
)
_ROW_ROW = (
    "256 128 128 64 8 4 32 2x2 8x32 8 16x16 8 0 1x1 32x8 8 Intrawave v4",
    "256 128 256 32 8 4 32 2x4 4x64 8 8x32 8 1 1x1 32x8 8 Interwave v1",
    "128 32 16 64 8 4 16 1x1 8x16 8 16x8 2 1 1x1 16x8 2 Intrawave v1",
    "256 256 32 64 8 2 32 2x1 8x32 8 32x8 4 1 1x1 32x8 4 Intrawave v2",
    "128 128 32 64 8 4 32 2x1 8x16 8 16x8 4 1 1x1 16x8 4 Intrawave v2",
    "64 16 16 64 8 4 16 1x1 8x8 8 16x4 4 1 1x1 16x4 4 Interwave v1",
    "128 16 32 64 8 4 16 1x1 8x16 8 16x8 4 1 1x1 16x8 4 Intrawave v1",
    "128 32 64 64 8 4 32 1x1 8x16 8 16x8 8 1 1x1 16x8 8 Interwave v2",
)
_COL_ROW = (
    "256 128 128 64 4 4 32 2x2 16x16 8 16x16 8 0 1x1 16x16 4 Intrawave v5",
    "256 128 128 64 2 2 32 2x2 8x32 4 16x16 4 0 1x1 16x16 4 Intrawave v4",
    "128 32 16 64 4 4 16 1x1 16x8 4 16x8 2 0 1x1 16x8 2 Interwave v1",
    "128 32 16 64 2 2 16 1x1 32x4 2 32x4 2 0 1x1 16x8 2 Intrawave v1",
    "64 16 16 64 4 4 16 1x1 16x4 4 16x4 4 0 1x1 16x4 4 Intrawave v1",
)
_COL_COL = (
    "256 128 128 64 4 8 32 2x2 16x16 8 8x32 8 0 1x1 16x16 4 Interwave v1",
    "256 128 128 64 4 4 32 2x2 16x16 4 16x16 4 0 1x1 16x16 4 Interwave v1",
)
_F8 = (
    "256 128 128 128 16 16 32 2x2 8x32 16 8x32 16 0 1x1 32x8 8 Intrawave v4",
    "256 128 64 128 16 16 32 2x1 8x32 16 8x32 16 0 1x1 32x8 8 Intrawave v3",
    "256 64 128 128 16 16 32 1x2 8x32 16 8x32 16 0 1x1 32x8 8 Intrawave v3",
    "256 128 128 128 16 16 32 2x2 8x32 16 8x32 16 0 1x1 32x8 8 Interwave v1",
)

_VECTORED_ALONG_K = ((1, 0, 2), (1, 0, 2), 2)
_VECTORED_ALONG_ROWS = ((0, 2, 1), (0, 2, 1), 1)


def instance(row: str, a_layout: str, b_layout: str, dtype: str, *, bias: bool = False) -> Arguments:
    """Arguments of all template parameters for a row of the tables above."""
    (block, m, n, k, ak1, bk1, xdl, per_wave, a_cluster, a_vector, b_cluster, b_vector, padding, shuffle, c_cluster,
     c_vector, scheduler, pipeline) = row.split()  # fmt: skip
    a_order, a_access, a_dim = _VECTORED_ALONG_K if a_layout == "Row" else _VECTORED_ALONG_ROWS
    b_order, b_access, b_dim = _VECTORED_ALONG_K if b_layout == "Col" else _VECTORED_ALONG_ROWS
    eight_bits = dtype == "F8"
    output = "BF16" if eight_bits else dtype
    extra = 2 if eight_bits else int(bias)
    epilogue = ("PassThrough", "Add", "MultiplyMultiply")[extra]
    m_per_wave, n_per_wave = _pair(per_wave)
    c_rows, c_columns = _pair(c_cluster)
    return {
        "ALayout": a_layout,
        "BLayout": b_layout,
        "DsLayout": ("Tuple<>", "Tuple<Row>", "Tuple<Row, Col>")[extra],
        "CLayout": "Row",
        "ADataType": dtype,
        "BDataType": dtype,
        "DsDataType": ("Tuple<>", f"Tuple<{output}>", "Tuple<F32, F32>")[extra],
        "CDataType": output,
        "GemmAccDataType": "F32",
        "CShuffleDataType": "F32" if eight_bits else dtype,
        "AElementwiseOperation": "PassThrough",
        "BElementwiseOperation": "PassThrough",
        "CElementwiseOperation": epilogue,
        "GemmSpec": "GemmSpecialization::MNKPadding",
        "BlockSize": int(block),
        "MPerBlock": int(m),
        "NPerBlock": int(n),
        "KPerBlock": int(k),
        "AK1": int(ak1),
        "BK1": int(bk1),
        "MPerXDL": int(xdl),
        "NPerXDL": int(xdl),
        "MXdlPerWave": m_per_wave,
        "NXdlPerWave": n_per_wave,
        A_CLUSTER: (*_pair(a_cluster), 1),
        "ABlockTransferThreadClusterArrangeOrder": a_order,
        "ABlockTransferSrcAccessOrder": a_access,
        "ABlockTransferSrcVectorDim": a_dim,
        "ABlockTransferSrcScalarPerVector": int(a_vector),
        "ABlockTransferDstScalarPerVector_AK1": int(ak1),
        "ABlockLdsExtraM": padding == "1",
        B_CLUSTER: (*_pair(b_cluster), 1),
        "BBlockTransferThreadClusterArrangeOrder": b_order,
        "BBlockTransferSrcAccessOrder": b_access,
        "BBlockTransferSrcVectorDim": b_dim,
        "BBlockTransferSrcScalarPerVector": int(b_vector),
        "BBlockTransferDstScalarPerVector_BK1": int(bk1),
        "BBlockLdsExtraN": padding == "1",
        "CShuffleMXdlPerWavePerShuffle": _pair(shuffle)[0],
        "CShuffleNXdlPerWavePerShuffle": _pair(shuffle)[1],
        C_CLUSTER: (1, c_rows, 1, c_columns),
        C_VECTORS: (int(c_vector),) * (extra + 1) if extra < 2 else (int(c_vector), int(c_vector), 1),
        "BlkGemmPipeSched": f"BlockGemmPipelineScheduler::{scheduler}",
        "BlkGemmPipelineVer": f"BlockGemmPipelineVersion::{pipeline}",
        "ComputeTypeA": dtype,
        "ComputeTypeB": dtype,
    }


def good_samples() -> list[Sample]:
    """Known-good instances, on gfx942 and some on gfx90a and gfx950."""
    rows = [
        *((row, "Row", "Col", "F16") for row in _ROW_COL),
        *((row, "Row", "Row", "F16") for row in _ROW_ROW),
        *((row, "Col", "Row", "BF16") for row in _COL_ROW),
        *((row, "Col", "Col", "BF16") for row in _COL_COL),
        *((row, "Row", "Col", "F8") for row in _F8),
        *((row, "Row", "Col", "BF16") for row in _ROW_COL[5:16:3]),
        *((row, "Col", "Row", "F16") for row in _COL_ROW[2:]),
    ]
    samples = []
    for index, (row, a_layout, b_layout, dtype) in enumerate(rows):
        # Code object size and matrix instructions differ by architecture; f8 is emulated on gfx90a.
        arch = (
            ("gfx90a" if index % 12 == 5 else "gfx950" if index % 12 == 9 else "gfx942") if dtype != "F8" else "gfx942"
        )
        arguments = instance(row, a_layout, b_layout, dtype, bias=index % 5 == 2)
        pipeline = str(arguments["BlkGemmPipelineVer"]).rpartition(":")[2]
        name = f"{dtype}_{a_layout}_{b_layout}_{row.split()[0]}_{'x'.join(row.split()[1:4])}_{pipeline}_{index}".lower()
        samples.append(Sample(name, arch, arguments))
    return samples


def mutants(count: int, seed: int) -> list[Sample]:
    """`count` instances that differ from a good one in one parameter, no two alike."""
    generator = random.Random(seed)  # noqa: S311  (a reproducible sample, no secret)
    good = good_samples()
    seen: set[tuple[str, str]] = set()
    found: list[Sample] = []
    while len(found) < count:
        base = generator.choice(good)
        name = generator.choice(sorted(_CHANGES))
        value = _changed(base.arguments, name, generator)
        key = (base.name, f"{name}={value}")
        if value == base.arguments[name] or key in seen:
            continue
        seen.add(key)
        changed = {**base.arguments, name: value}
        label = f"mutant_{seed}_{len(found)}_{base.name}"
        found.append(Sample(label, base.arch, changed, f"{name}: {base.arguments[name]} -> {value}"))
    return found


def targeted_samples() -> list[Sample]:
    """One instance for each rule that random mutants seldom break; all of them must fail.

    The last one compiles although it looks as if it could not: a rule once rejected it.
    """
    plain = "256 128 128 64 8 8 32 2x2 8x32 8 8x32 8 0 1x1 32x8 8 Intrawave v3"
    small = "64 16 16 64 8 8 16 1x1 8x8 8 8x8 8 1 1x1 16x4 4 Intrawave v3"
    columns = "128 32 16 64 4 4 16 1x1 16x8 4 16x8 2 0 1x1 16x8 2 Intrawave v1"
    changes: list[tuple[str, str, str, Arguments]] = [
        ("c-vector-atomic", plain, "Row Col", {"CDataType": "F32"}),
        ("c-vector-size", small, "Row Col", {C_VECTORS: (3,), C_CLUSTER: (1, 4, 1, 4), "NPerBlock": 48,
                                             "NXdlPerWave": 3, "CShuffleNXdlPerWavePerShuffle": 3,
                                             B_CLUSTER: (8, 8, 1)}),
        ("c-vectors", small, "Row Col", {"DsDataType": "Tuple<F16>", "DsLayout": "Tuple<Row>",
                                         "CElementwiseOperation": "Add"}),
        ("a-lds-fold", columns, "Col Row", {"BlockSize": 256, "MPerBlock": 128, "NPerBlock": 256, "MPerXDL": 64,
                                            "NPerXDL": 64, "NXdlPerWave": 2, A_CLUSTER: (16, 16, 1),
                                            B_CLUSTER: (16, 16, 1), C_CLUSTER: (1, 16, 1, 16)}),
        ("b-lds-permutation", columns, "Row Row", {"KPerBlock": 32, "BK1": 2, B_CLUSTER: (1, 16, 1),
                                                   A_CLUSTER: (8, 16, 1), "BBlockTransferSrcScalarPerVector": 1}),
        ("a-vector-dim", small, "Row Col", {"ABlockTransferSrcVectorDim": 4}),
        ("a-arrange-order", small, "Row Col", {"ABlockTransferThreadClusterArrangeOrder": (1, 1, 2)}),
        ("b-access-order", small, "Row Col", {"BBlockTransferSrcAccessOrder": (0, 0, 2)}),
        ("b-cluster-rank", small, "Row Col", {B_CLUSTER: (8, 8)}),
        ("c-cluster-rank", small, "Row Col", {C_CLUSTER: (16, 1, 4)}),
        ("a-vector-size", small, "Row Col", {"AK1": 32, "KPerBlock": 128, A_CLUSTER: (4, 16, 1),
                                             "ABlockTransferSrcScalarPerVector": 32}),
        ("k-pack-vector", small, "Row Col", {"AK1": 3, "KPerBlock": 96, "ABlockTransferSrcScalarPerVector": 3,
                                             "ABlockTransferDstScalarPerVector_AK1": 3, B_CLUSTER: (4, 16, 1)}),
        ("n-per-block", small, "Row Col", {"NPerBlock": 40}),
        ("waves", small, "Row Col", {"MXdlPerWave": 2}),
        ("block-size", small, "Row Col", {"MPerBlock": 48}),
        ("a-buffer-loads", small, "Row Col", {"BlockSize": 128, "NPerBlock": 32, B_CLUSTER: (4, 32, 1),
                                              "KPerBlock": 32, A_CLUSTER: (4, 16, 1), C_CLUSTER: (1, 16, 1, 8)}),
        ("compute-types", small, "Row Col", {"ComputeTypeB": "BF16"}),
        ("k-per-block", small, "Row Col", {"KPerBlock": 16}),
        ("scheduler", small, "Row Col", {"BlkGemmPipeSched": "BlockGemmPipelineScheduler::Interwave"}),
        ("c-cluster-n", small, "Row Col", {C_CLUSTER: (1, 16, 1, 3)}),
    ]  # fmt: skip
    samples = []
    for rule, row, layouts, change in changes:
        a_layout, b_layout = layouts.split()
        arguments = {**instance(row, a_layout, b_layout, "F16"), **change}
        samples.append(Sample(f"targeted_{rule}", "gfx942", arguments, f"for {rule}: {change}"))
    odd = {**instance(small, "Row", "Col", "F16"), "ABlockTransferSrcVectorDim": 3}
    return [*samples, Sample("compiles_a-vector-dim", "gfx942", odd, "{'ABlockTransferSrcVectorDim': 3}")]


_INTEGERS: dict[str, tuple[int, ...]] = {
    "BlockSize": (64, 128, 192, 256, 512),
    "MPerBlock": (16, 32, 48, 64, 96, 128, 160, 192, 256, 512),
    "NPerBlock": (16, 32, 48, 64, 96, 128, 160, 192, 256, 512),
    "KPerBlock": (8, 16, 32, 48, 64, 96, 128, 256),
    "AK1": (1, 2, 4, 8, 16, 32),
    "BK1": (1, 2, 4, 8, 16, 32),
    "MPerXDL": (4, 8, 16, 32, 64),
    "NPerXDL": (4, 16, 32, 64),
    "MXdlPerWave": (1, 2, 3, 4, 5, 8),
    "NXdlPerWave": (1, 2, 3, 4, 8),
    "ABlockTransferSrcVectorDim": (0, 1, 2, 3),
    "BBlockTransferSrcVectorDim": (0, 1, 2),
    "ABlockTransferSrcScalarPerVector": (1, 2, 3, 4, 8, 16, 32),
    "BBlockTransferSrcScalarPerVector": (1, 2, 3, 4, 8, 16, 32),
    "ABlockTransferDstScalarPerVector_AK1": (1, 2, 3, 4, 8, 16),
    "BBlockTransferDstScalarPerVector_BK1": (1, 2, 4, 8, 16),
    "CShuffleMXdlPerWavePerShuffle": (1, 2, 3, 4),
    "CShuffleNXdlPerWavePerShuffle": (1, 2, 3, 4),
}
_TEXTS: dict[str, tuple[str, ...]] = {
    "ALayout": ("Row", "Col"),
    "BLayout": ("Row", "Col"),
    "CDataType": ("F16", "BF16", "F32"),
    "ComputeTypeA": ("F16", "BF16", "F8", "F32"),
    "BlkGemmPipeSched": tuple(f"BlockGemmPipelineScheduler::{name}" for name in ("Intrawave", "Interwave")),
    "BlkGemmPipelineVer": tuple(f"BlockGemmPipelineVersion::v{number}" for number in range(1, 6)),
}
_FLAGS = ("ABlockLdsExtraM", "BBlockLdsExtraN")
_SEQUENCES = (
    A_CLUSTER,
    B_CLUSTER,
    C_CLUSTER,
    C_VECTORS,
    "ABlockTransferThreadClusterArrangeOrder",
    "BBlockTransferSrcAccessOrder",
)
_CHANGES = {*_INTEGERS, *_TEXTS, *_FLAGS, *_SEQUENCES}


def _changed(arguments: Arguments, name: str, generator: random.Random) -> ParameterValue:
    if name in _INTEGERS:
        return generator.choice(_INTEGERS[name])
    if name in _TEXTS:
        return generator.choice(_TEXTS[name])
    value = arguments[name]
    if isinstance(value, bool):
        return not value
    assert is_integers(value)
    at = generator.randrange(len(value))
    if "Order" in name:
        other = generator.randrange(len(value))
        swapped = list(value)
        swapped[at], swapped[other] = swapped[other], swapped[at]
        return tuple(swapped)
    factor = generator.choice((0.5, 2, 2, 4, 3))
    return (*value[:at], max(1, int(value[at] * factor)), *value[at + 1 :])


def _pair(text: str) -> tuple[int, int]:
    left, _, right = text.partition("x")
    return int(left), int(right)
