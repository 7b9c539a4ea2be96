"""Each rule by an instance that breaks it: the change, the rule, the message and the blamed parameter."""

from __future__ import annotations

import pytest

from benchmarks.gemm_samples import (
    A_CLUSTER,
    B_CLUSTER,
    C_CLUSTER,
    C_VECTORS,
    Arguments,
    Sample,
    good_samples,
    instance,
)
from cases.rule_instances import COLUMNS, OPERATION, V4, row_col
from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.model.diagnostics import Severity
from helpers.each_row import each_row
from references.executed_lines import executed_lines

INTERWAVE = "BlockGemmPipelineScheduler::Interwave"


def broken(arguments: Arguments, arch: str = "gfx942") -> list[str]:
    return [violation.rule for violation in check_instance(OPERATION, arguments, arch)]


ROWS = [
    # change, rule that is broken first, its message, blamed parameter
    ({"MXdlPerWave": 3}, "m-per-block", "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32", "MXdlPerWave"),
    (
        {"MXdlPerWave": 8},
        "waves",
        "MPerBlock / (MPerXdl * MXdlPerWave) > 0 and NPerBlock / NPerXdl > 0: 128 / (32 * 8) > 0 and 128 / 32 > 0",
        "MXdlPerWave",
    ),
    ({"NPerXDL": 16}, "xdl-tile", "XdlShape in XdlShapes: XdlShape = 32x16, XdlShapes = (4x64, 8x64, ", "MPerXDL"),
    ({"KPerBlock": 24}, "k-per-block", "KPerThread % KPack == 0: 12 % 8 = 4", "KPerBlock"),
    ({"AK1": 64}, "k-per-block", "KPerThread % KPack == 0: 32 % 64 = 32", "KPerBlock"),
    (
        {"BlkGemmPipeSched": INTERWAVE},
        "scheduler",
        "BlkGemmPipelineVer in ('v1', 'v2'): BlkGemmPipelineVer = v3",
        "BlkGemmPipeSched",
    ),
    ({A_CLUSTER: (8, 32)}, "a-cluster-rank", f"size({A_CLUSTER}) == 3: size(S<8, 32>) = 2", A_CLUSTER),
    ({A_CLUSTER: (3, 32, 1)}, "a-cluster-k0", f"KPerBlock / AK1 % {A_CLUSTER}[0] == 0: 64 / 8 % 3 = 2", A_CLUSTER),
    ({"KPerBlock": 1}, "a-k0", "KPerBlock >= AK1: KPerBlock = 1, AK1 = 8", "KPerBlock"),
    (
        {"BBlockTransferDstScalarPerVector_BK1": 24},
        "b-store-size",
        "BBlockTransferDstScalarPerVector_BK1 in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 32, 64, 128, 256): ",
        "BBlockTransferDstScalarPerVector_BK1",
    ),
    ({B_CLUSTER: (4, 48, 1)}, "b-cluster-n", f"NPerBlock % {B_CLUSTER}[1] == 0: 128 % 48 = 32", B_CLUSTER),
    ({B_CLUSTER: (4, 16, 3)}, "b-cluster-k1", f"BK1 % {B_CLUSTER}[2] == 0: 8 % 3 = 2", B_CLUSTER),
    (
        {A_CLUSTER: (8, 64, 1)},
        "a-cluster-threads",
        f"product({A_CLUSTER}) <= BlockSize: product(S<8, 64, 1>) = 512, BlockSize = 256",
        A_CLUSTER,
    ),
    (
        {"ABlockTransferThreadClusterArrangeOrder": (1, 1, 2)},
        "a-arrange-order",
        "size(ABlockTransferThreadClusterArrangeOrder) == 3 and ",
        "ABlockTransferThreadClusterArrangeOrder",
    ),
    (
        {"ABlockTransferSrcVectorDim": 4},
        "a-vector-dim",
        "ABlockTransferSrcVectorDim in (0, 1, 2, 3): ABlockTransferSrcVectorDim = 4",
        "ABlockTransferSrcVectorDim",
    ),
    (
        {"BBlockTransferSrcScalarPerVector": 16},
        "b-vector",
        "BThreadSlice[BBlockTransferSrcVectorDim] % BBlockTransferSrcScalarPerVector == 0: 8 % 16 = 8",
        "BBlockTransferSrcScalarPerVector",
    ),
    (
        {"CShuffleMXdlPerWavePerShuffle": 3},
        "c-shuffle-m",
        "MXdlPerWave % CShuffleMXdlPerWavePerShuffle == 0: 2 % 3 = 2",
        "CShuffleMXdlPerWavePerShuffle",
    ),
    ({C_CLUSTER: (1, 48, 1, 4)}, "c-cluster-m", f"CShuffleM % {C_CLUSTER}[1] == 0: 64 % 48 = 16", C_CLUSTER),
    ({C_CLUSTER: (1, 4, 1, 48)}, "c-cluster-n", f"CShuffleN % {C_CLUSTER}[3] == 0: 64 % 48 = 16", C_CLUSTER),
    ({C_CLUSTER: (2, 16, 1, 8)}, "c-cluster-blocks", f"{C_CLUSTER}[0] == 1 and ", C_CLUSTER),
    ({C_CLUSTER: (1, 64, 1, 8)}, "c-cluster-threads", f"product({C_CLUSTER}) <= BlockSize: product(", C_CLUSTER),
    ({C_VECTORS: (16,)}, "c-vector", f"CShuffleN / {C_CLUSTER}[3] % {C_VECTORS}[0] == 0: 64 / 8 % 16 = 8", C_VECTORS),
    ({C_VECTORS: (), "DsDataType": "Tuple<>"}, "c-vectors", f"size({C_VECTORS}) > NumDTensor: ", C_VECTORS),
    ({"DsDataType": "ck::Tuple<F16, F32>"}, "c-vectors", f"size({C_VECTORS}) > NumDTensor: size(S<8>) = 1", C_VECTORS),
    (
        {"CDataType": "float"},
        "c-vector-atomic",
        f"{C_VECTORS}[0] <= AtomicVector: {C_VECTORS}[0] = 8, AtomicVector = 4",
        C_VECTORS,
    ),
    (
        {"KPerBlock": 256},
        "lds",
        "LdsBuffers * max(ABBytes, CBytes) <= LdsLimit: 1 * max(131072, 8192) = 131072, LdsLimit = 65536",
        "KPerBlock",
    ),
    ({"ComputeTypeB": "BF16"}, "compute-types", "ComputeTypeA == ComputeTypeB or ", "ComputeTypeB"),
    ({"BlockSize": 512}, "block-threads", "BlockSize <= 256: BlockSize = 512", "BlockSize"),
    ({"BlockSize": 64}, "no-kernel", "NXdlPerWave64 > 0 and WaveSize == 64: 0 > 0 and 8 == 64", "BlockSize"),
    (
        {"ALayout": "Col"},
        "a-vector-layout",
        "ABlockTransferSrcScalarPerVector == 1 or ABlockTransferSrcVectorDim == AContiguousDim: 8 == 1 or 2 == 1",
        "ABlockTransferSrcVectorDim",
    ),
    (
        {"CLayout": "Col"},
        "c-vector-layout",
        f"{C_VECTORS}[0] == 1 or CLayout == 'Row': 8 == 1 or Col == 'Row'",
        C_VECTORS,
    ),
    ({"NXdlPerWave": 4}, "n-xdl-per-wave", "NXdlPerWave == NXdlPerWave64: NXdlPerWave = 4, ", "NXdlPerWave"),
    (
        {"CShuffleNXdlPerWavePerShuffle": 3, "NPerBlock": 256, B_CLUSTER: (8, 32, 1), "NXdlPerWave": 4},
        "c-shuffle-n",
        "NXdlPerWave64 % CShuffleNXdl == 0: 4 % 3 = 1",
        "CShuffleNXdlPerWavePerShuffle",
    ),
]


@each_row(("change", "rule", "message", "blame"), ROWS)
def test_a_change_and_the_rule_that_it_breaks(change: Arguments, rule: str, message: str, blame: str) -> None:
    violation = check_instance(OPERATION, row_col(**change), "gfx942")[0]
    assert violation.rule == rule
    assert message in violation.message
    assert violation.blame == blame
    assert blame in violation.parameters
    assert violation.source.startswith("ck/")


V16 = "64 16 16 128 8 8 16 1x1 16x4 8 16x4 8 0 1x1 16x4 4 Intrawave v1"
"""Tiles of one 16x16 instruction, which WMMA has too; one wave of 64 lanes."""

V16_32 = V16.replace("64 16 16", "32 16 16", 1).replace("16x4", "8x4")
F8 = "256 128 128 128 16 16 32 2x2 8x32 16 8x32 16 0 1x1 32x8 8 Intrawave v3"
LAUNCH = "Gridwise::Run<true, Full>(a, b);"
INVOKER = "gemm.MakeInvoker().Run(argument);"

ARCH_ROWS = [
    # arguments, arch, source, the only rule that is broken ("": none), severity, first words, blamed parameter
    (row_col(), "gfx1100", LAUNCH, "matrix-arch", "error", "gfx1100 has no MFMA", ""),
    (row_col(), "gfx1201", LAUNCH, "matrix-arch", "error", "gfx1201 has no MFMA", ""),
    (row_col(), "gfx906:xnack-", LAUNCH, "matrix-arch", "error", "gfx906 has no MFMA", ""),
    (row_col(MXdlPerWave=3), "gfx1100", LAUNCH, "matrix-arch", "error", "gfx1100 has no MFMA", ""),
    (row_col(), "gfx1100", INVOKER, "matrix-arch-empty", "warning", "gfx1100 has no MFMA", "MPerXDL"),
    (row_col(), "gfx906", INVOKER, "matrix-arch-empty", "warning", "gfx906 has no MFMA", "MPerXDL"),
    (instance(V16_32, "Row", "Col", "F16"), "gfx1100", INVOKER, "", "", "", ""),
    (row_col(), "gfx908", LAUNCH, "", "", "", ""),
    (row_col(), "gfx9-4-generic", LAUNCH, "", "", "", ""),
    (instance(F8, "Row", "Col", "F8"), "gfx90a", LAUNCH, "f8-arch", "warning", "gfx90a has no matrix", "ComputeTypeA"),
    (instance(F8, "Row", "Col", "F8"), "gfx942", LAUNCH, "", "", "", ""),
    ({**instance(F8, "Row", "Col", "F8"), "ADataType": "BF8", "ComputeTypeA": "BF8"}, "gfx942", LAUNCH,
     "compute-types-8-bit", "error", "CK cannot multiply BF8 with F8", "ComputeTypeB"),
    ({**instance(F8, "Row", "Col", "F8"), "BDataType": "BF8"}, "gfx942", LAUNCH,
     "b-conversion", "error", "CK's PassThrough cannot convert BF8 to F8", "BDataType"),
    (row_col(ADataType="BF16"), "gfx942", LAUNCH,
     "a-conversion", "error", "CK's PassThrough cannot convert BF16 to F16", "ADataType"),
    (row_col(ADataType="BF16", AElementwiseOperation="MyConvert"), "gfx942", LAUNCH, "", "", "", ""),
    (row_col(ADataType="F8"), "gfx942", LAUNCH, "", "", "", ""),
    (row_col(ComputeTypeA="F64", ComputeTypeB="F64", ADataType="F64", BDataType="F64", MPerXDL=16, NPerXDL=16,
             MXdlPerWave=4, NXdlPerWave=4, CShuffleMXdlPerWavePerShuffle=2, KPerBlock=32, **{A_CLUSTER: (4, 64, 1), B_CLUSTER: (4, 64, 1), C_VECTORS: (1,)}), "gfx908", LAUNCH,
     "f64-arch", "warning", "gfx908 has no matrix instruction for f64", "ComputeTypeA"),
]  # fmt: skip


@each_row(("arguments", "arch", "source", "rule", "severity", "words", "blame"), ARCH_ROWS)
def test_what_an_arch_has_and_what_can_be_multiplied(
    arguments: Arguments, arch: str, source: str, rule: str, severity: str, words: str, blame: str
) -> None:
    found = check_instance(OPERATION, arguments, arch, source=source)
    assert [(one.rule, one.severity.value, one.blame) for one in found] == ([(rule, severity, blame)] if rule else [])
    assert all(one.message.startswith(words) for one in found)


WARNINGS = {
    "matrix-arch-empty", "f8-arch", "f64-arch", "no-kernel", "n-xdl-per-wave", "c-shuffle-n", "block-threads", "a-vector-layout", "b-vector-layout", "c-vector-layout",
}  # fmt: skip


def test_every_rule_has_a_row_or_says_why_not() -> None:
    elsewhere = {
        "n-per-block",
        "block-size",
        "k-pack",
        "k-pack-vector",
        "xdl-cycles",
        "c-vector-size",
        "a-lds-fold",
        "b-lds-fold",
        "c-cluster-rank",
        "a-lds-permutation",
        "b-lds-permutation",
    }  # fmt: skip  (below)
    slugs = {rule.slug for rule in OPERATIONS[OPERATION].rules}
    tried = {row[1] for row in ROWS} | {row[3] for row in ARCH_ROWS if row[3]} | elsewhere
    other_operand = {
        ("b" if slug[0] == "a" else "a") + slug[1:].replace("-n", "-m") for slug in tried if slug[1] == "-"
    }
    assert slugs - tried - other_operand <= {"a-k1-vector", "b-k1-vector", "a-vector-size", "a-buffer-loads"} | {
        f"{side}-{rest}" for side in "ab" for rest in ("vector-size", "buffer-loads", "access-order", "vector-dim")
    }
    assert {rule.slug for rule in OPERATIONS[OPERATION].rules if rule.severity == Severity.WARNING} == WARNINGS


@each_row(
    ("arguments", "arch", "expected"),
    [
        (row_col(NPerBlock=80, NPerXDL=32), "gfx942", ["n-per-block"]),
        (row_col(MPerBlock=192, MXdlPerWave=2), "gfx942", ["block-size"]),
        (row_col(AK1=6, KPerBlock=96), "gfx942", ["a-vector", "b-cluster-k0", "k-pack-vector"]),
        (row_col(ABlockTransferSrcScalarPerVector=32), "gfx942", ["a-vector", "a-vector-size"]),
        (row_col(**{C_VECTORS: (3,), C_CLUSTER: (1, 32, 1, 4), "CShuffleNXdlPerWavePerShuffle": 2}), "gfx942",
         ["c-vector", "c-vector-size"]),
        (row_col(KPerBlock=128), "gfx942", []),
        (row_col(KPerBlock=256), "gfx950", []),
        (row_col(KPerBlock=512), "gfx950", ["lds"]),
        ({**instance(V4, "Row", "Col", "F16"), "KPerBlock": 128}, "gfx942", ["lds"]),
        ({**instance(V4, "Row", "Col", "F16"), "KPerBlock": 128}, "gfx950", []),
        ({**instance(COLUMNS, "Col", "Row", "F16"), "AK1": 64, "KPerBlock": 128}, "gfx942", ["a-cluster-k0"]),
        (row_col(BlkGemmPipeSched="Interwave", BlkGemmPipelineVer="v1"), "gfx90a", []),
        (row_col(KPerBlock=24), "gfx1100", ["matrix-arch-empty"]),
        (row_col(MXdlPerWave=3), "gfx1100", ["m-per-block"]),
        (row_col(MXdlPerWave=3), "gfx942:sramecc+:xnack-", ["m-per-block"]),
        (row_col(), "gfx1234", ["matrix-arch-empty"]),
    ],
)  # fmt: skip
def test_archs_and_combinations(arguments: Arguments, arch: str, expected: list[str]) -> None:
    assert broken(arguments, arch) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"MXdlPerWave": "kWaves"},
        {"MPerBlock": "2 * 64", "MXdlPerWave": 5},
        {A_CLUSTER: "ClusterLengths"},
        {"ComputeTypeA": "MyType", "ComputeTypeB": "MyOther"},
        {"BlkGemmPipelineVer": "kVersion()", "BlkGemmPipeSched": INTERWAVE},
        {"GemmSpec": "anything"},
        {"DsDataType": "Ds", C_VECTORS: "S<8>{}"},
    ],
)
def test_what_cannot_be_read_breaks_no_rule(change: Arguments) -> None:
    assert not [rule for rule in broken(row_col(**change)) if rule not in {"block-size", "waves"}]


LAUNCHED = "Gridwise::Run<true, Full>(a, b);"
ASSERTED = 'static_assert(is_valid<Gridwise>(), "CK would run an empty kernel: (waves)");\n' + LAUNCHED


@pytest.mark.parametrize(
    ("change", "source", "expected"),
    [
        ({"CDataType": "F32"}, None, [("c-vector-atomic", "error")]),
        ({"CDataType": "F32"}, "gemm.MakeInvoker().Run(argument);", [("c-vector-atomic", "error")]),
        ({"CDataType": "F32"}, LAUNCHED, []),
        ({"BlockSize": 64}, None, [("no-kernel", "warning")]),
        ({"BlockSize": 64}, LAUNCHED, [("no-kernel", "warning")]),
        ({"BlockSize": 64}, ASSERTED, [("no-kernel", "error")]),
        ({"BlockSize": 64}, "// CK would run an empty kernel", [("no-kernel", "warning")]),
        ({"MXdlPerWave": 3}, LAUNCHED, [("m-per-block", "error")]),
    ],
)
def test_what_the_source_around_an_instance_changes(
    change: Arguments, source: str | None, expected: list[tuple[str, str]]
) -> None:
    violations = check_instance(OPERATION, row_col(**change), "gfx942", source=source)
    assert [(violation.rule, violation.severity) for violation in violations] == expected


def test_missing_arguments_follow_their_defaults() -> None:
    arguments = row_col(BlkGemmPipeSched=INTERWAVE)
    del arguments["BlkGemmPipelineVer"]
    assert broken(arguments) == []
    del arguments["BlkGemmPipeSched"], arguments["ComputeTypeA"], arguments["ComputeTypeB"]
    assert broken(arguments) == []
    assert check_instance(OPERATION, {}, "gfx942") == ()


@each_row("sample", good_samples())
@each_row("arch", ["gfx90a", "gfx942", "gfx950"])
def test_known_good_instances_are_accepted_quietly(sample: Sample, arch: str) -> None:
    slow = ["f8-arch"] if arch == "gfx90a" and sample.arguments["ComputeTypeA"] == "F8" else []
    assert broken(sample.arguments, arch) == slow


def test_other_operations_have_no_rules() -> None:
    assert check_instance("DeviceConvNd", {"MPerBlock": 7}, "gfx942") == ()


def test_a_check_is_little_work() -> None:
    """A few milliseconds on a common machine."""
    arguments = row_col(MXdlPerWave=3)
    check_instance(OPERATION, arguments, "gfx942")
    assert executed_lines(lambda: check_instance(OPERATION, arguments, "gfx942")) < 100_000
