"""Compare hipcc's errors in sampled GEMM instances with the rules' findings.

    python -m benchmarks.rules_against_hipcc --hipcc HIPCC [--rocm-path DIR]   compiles what has no result yet
    python -m benchmarks.rules_against_hipcc --from-results                    judges the stored results again

Each sample goes through the host pass and the device pass of the real compiler with `-fsyntax-only`. Some failures
come only from code generation (LDS beyond the limit): where the rules expect one, or the tile takes nearly all LDS,
the device pass is run in full. A result is stored as soon as it is there, so that an interrupted run goes on where it
stopped. The last lines are the numbers that count: false rejections, which must be 0, and the share of the failures
that the rules caught.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.gemm_samples import Sample, good_samples, mutants, targeted_samples
from ckwatch.checks.rules.checker import check_instance

OPERATION = "DeviceGemmMultiD_Xdl_CShuffle_V3"
RESULTS = Path(__file__).parent / "results" / "rules_against_hipcc.json"
SEEDS = {"first": (11, 48), "second": (29, 40)}
"""Mutants: seed and number. The second lot was compiled after the rules were written with the first one known."""

_STANDARD = (
    "array", "cmath", "cstdint", "iostream", "map", "memory", "optional", "regex", "sstream", "string", "vector",
)  # fmt: skip
_CK = (
    "utility/common_header.hpp",
    "utility/blkgemmpipe_scheduler.hpp",
    "tensor_description/tensor_descriptor.hpp",
    "tensor_description/tensor_descriptor_helper.hpp",
    "tensor_description/tensor_adaptor.hpp",
    "tensor_description/multi_index_transform_helper.hpp",
    "tensor_operation/gpu/device/tensor_layout.hpp",
    "tensor_operation/gpu/device/device_gemm_multiple_d.hpp",
    "tensor_operation/gpu/grid/block_to_ctile_map.hpp",
    "tensor_operation/gpu/block/thread_group_tensor_slice_transfer_v4r1.hpp",
    "tensor_operation/gpu/block/thread_group_tensor_slice_transfer_v7r3.hpp",
    "tensor_operation/gpu/thread/threadwise_tensor_slice_transfer.hpp",
    "tensor_operation/gpu/element/element_wise_operation.hpp",
    "host_utility/kernel_launch.hpp",
    "host_utility/flush_cache.hpp",
)
HEADERS = "".join(
    f"#include <{name}>\n" for name in ("hip/hip_runtime.h", *_STANDARD, "ck/ck.hpp", *(f"ck/{name}" for name in _CK))
)
"""Headers to precompile once per pass and architecture.

`xdlops_gemm.hpp` and what includes it must stay out: clang 22 writes the specialisations of the member template
`MfmaSelector::GetMfma` wrongly into a precompiled header, and then takes the f64 instruction for every type.
"""

SOURCE = """\
#include "ck/ck.hpp"
#include "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3.hpp"
#include "ck/tensor_operation/gpu/element/element_wise_operation.hpp"
template <ck::index_t... Is> using S = ck::Sequence<Is...>;
template <typename... Ts> using Tuple = ck::Tuple<Ts...>;
using F8 = ck::f8_t; using F16 = ck::half_t; using BF16 = ck::bhalf_t; using F32 = float;
using Row = ck::tensor_layout::gemm::RowMajor; using Col = ck::tensor_layout::gemm::ColumnMajor;
using ck::BlockGemmPipelineScheduler; using ck::BlockGemmPipelineVersion;
using ck::tensor_operation::device::GemmSpecialization;
using namespace ck::tensor_operation::element_wise;
using Gemm = ck::tensor_operation::device::%s<
    %s>;
extern "C" __attribute__((visibility("default"))) int gemm(
    const void* X, const void* W, const void* D, void* Y, int M, int N, int K, int LD, int kBatch, hipStream_t stream)
{
    auto gemm = Gemm{};
    constexpr ck::index_t count = Gemm::NumDTensor;
    std::array<const void*, count> ds; ds.fill(D);
    std::array<ck::index_t, count> strides; strides.fill(LD);
    auto argument = gemm.MakeArgument(X, W, ds, Y, M, N, K, LD, LD, strides, LD, kBatch,
        %s{}, %s{}, %s{});
    if(!gemm.IsSupportedArgument(argument)) return -23;
    gemm.MakeInvoker().Run(argument, StreamConfig{stream, false, 0});
    return 0;
}
"""
"""The operation as a kernel template uses it, without a template's other parts."""


def source(sample: Sample) -> str:
    """The C++ text of a sample."""
    arguments = sample.arguments
    lines = ",\n    ".join(f"/* {name} */ {_cpp(value)}" for name, value in arguments.items())
    operations = (arguments[f"{side}ElementwiseOperation"] for side in "ABC")
    return SOURCE % (OPERATION, lines, *operations)


def _cpp(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"S<{', '.join(map(str, value))}>" if isinstance(value, tuple) else str(value)


def samples() -> list[Sample]:
    """All samples, small ones first; good ones and mutants alternate, so that a run that is cut short has both."""
    good = sorted(good_samples(), key=_work)
    first, second = (sorted(mutants(count, seed), key=_work) for seed, count in SEEDS.values())
    mixed = [sample for pair in zip(good, first, strict=False) for sample in pair]
    return [*mixed, *good[len(first) :], *first[len(good) :], *targeted_samples(), *second]


def _work(sample: Sample) -> int:
    """Instructions in a wave's tile, which the compiler unrolls: an estimate of the time that it takes."""
    values = [sample.arguments[name] for name in ("MXdlPerWave", "NXdlPerWave", "KPerBlock")]
    tails = {"v2": 4, "v4": 2}.get(str(sample.arguments["BlkGemmPipelineVer"])[-2:], 1)
    return math.prod(value for value in values if isinstance(value, int)) * tails


class Hipcc:
    """The compiler, one process at a time, at low priority, with precompiled headers in `folder`."""

    def __init__(self, hipcc: str, rocm_path: str | None, folder: Path) -> None:
        self.command = [hipcc, *([f"--rocm-path={rocm_path}"] if rocm_path else [])]
        self.environment = {**os.environ, "HIP_PLATFORM": "amd"}
        self.folder = folder
        (folder / "headers.hip").write_text(HEADERS)

    def run(self, text: str, arch: str, side: str, *options: str) -> tuple[str, float]:
        """The first error line, shortened, empty when there is none; and the seconds it took."""
        headers = self._precompiled(arch, side)
        path = self.folder / "sample.hip"
        path.write_text(text)
        begin = time.monotonic()
        done = self._call(
            *self._options(arch, side), *options, "-Xclang", "-include-pch", "-Xclang", str(headers), str(path)
        )
        seconds = time.monotonic() - begin
        if done.returncode == 0:
            return "", seconds
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        return shortened(lines[0] if lines else f"exit status {done.returncode}"), seconds

    def _precompiled(self, arch: str, side: str) -> Path:
        """The precompiled headers of a pass. The driver refuses to make them, so its own cc1 line is changed."""
        path = self.folder / f"headers.{arch}.{side}.pch"
        if not path.exists():
            source = str(self.folder / "headers.hip")
            plan = self._call(*self._options(arch, side), "-###", "-fsyntax-only", source).stderr
            line = next(line for line in plan.splitlines() if '"-cc1"' in line)
            arguments = shlex.split(line)
            arguments[arguments.index("-fsyntax-only")] = "-emit-pch"
            subprocess.run([*arguments, "-o", str(path)], check=True)
        return path

    def _options(self, arch: str, side: str) -> list[str]:
        return [
            "-x", "hip", f"--offload-arch={arch}", f"--offload-{side}-only", "-O3", "-std=c++20", "-fPIC", "-w",
            "-Wfatal-errors", "-fno-caret-diagnostics",
        ]  # fmt: skip

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["nice", "-n", "10", *self.command, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)


def shortened(line: str) -> str:
    """An error line without the folders of this machine, at most 300 characters."""
    line = re.sub(r"\S*/include/(ck|ck_tile)/", r"\1/", line)
    line = re.sub(r"\S*/([\w.-]+\.hip)", r"\1", line)
    return line if len(line) <= 300 else f"{line[:200]} … {line[-96:]}"


def compile_sample(sample: Sample, hipcc: Hipcc) -> dict[str, Any]:
    """Both passes, and code generation where it matters."""
    text = source(sample)
    host, host_s = hipcc.run(text, sample.arch, "host", "-fsyntax-only")
    device, device_s = hipcc.run(text, sample.arch, "device", "-fsyntax-only")
    result: dict[str, Any] = {
        "host": host,
        "device": device,
        "host_s": round(host_s, 1),
        "device_s": round(device_s, 1),
    }
    expected = any(violation.rule == "lds" for violation in verdict(sample))
    if not host and not device and expected:
        error, seconds = hipcc.run(text, sample.arch, "device", "-o", str(hipcc.folder / "sample.o"))
        result |= {"codegen": error, "codegen_s": round(seconds, 1)}
    return result


def verdict(sample: Sample) -> tuple[Any, ...]:
    """The rules' violations for a sample, those that reject it."""
    found = check_instance(OPERATION, sample.arguments, sample.arch)
    return tuple(violation for violation in found if violation.severity == "error")


def collect(hipcc: Hipcc, limit: int | None) -> None:
    """Compile the samples that have no result yet."""
    stored = load()
    todo = [sample for sample in samples() if sample.name not in stored][:limit]
    for number, sample in enumerate(todo, 1):
        stored[sample.name] = {
            "arch": sample.arch,
            "mutated": sample.mutated,
            "arguments": sample.arguments,
            **compile_sample(sample, hipcc),
        }
        save(stored)
        result = stored[sample.name]
        print(f"{number}/{len(todo)} {sample.name} {sample.mutated} {failure(result) or 'compiles'}", flush=True)


def load() -> dict[str, Any]:
    """Stored results by sample name."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def save(results: dict[str, Any]) -> None:
    """Write the results, whole or not at all."""
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(RESULTS)


def failure(result: dict[str, Any]) -> str:
    """The pass that failed first and what it said; empty when the sample compiles."""
    for side in ("host", "device", "codegen"):
        if result.get(side):
            return f"{side}: {result[side]}"
    return ""


def sample_of(name: str, result: dict[str, Any]) -> Sample:
    """The sample behind a stored result."""
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in result["arguments"].items()}
    return Sample(name, result["arch"], arguments, result["mutated"])


def sampled(results: dict[str, Any]) -> dict[str, Any]:
    """Results without those of instances that were made to break one rule each: these say nothing of a share."""
    return {name: result for name, result in results.items() if name.startswith(("mutant_", "f", "bf"))}


def judge(results: dict[str, Any]) -> tuple[list[str], list[str], int]:
    """False rejections, failures that the rules missed, and the number of failures."""
    false_rejections, missed, failures = [], [], 0
    for name, result in results.items():
        rejected = verdict(sample_of(name, result))
        failed = failure(result)
        failures += bool(failed)
        if rejected and not failed:
            false_rejections.append(f"{name} {result['mutated']}: {rejected[0].rule}: {rejected[0].message}")
        if failed and not rejected:
            missed.append(f"{name} {result['mutated']}: {failed}")
    return false_rejections, missed, failures


def report(results: dict[str, Any]) -> int:
    """Print the table; the exit status is 1 when an instance that compiles was rejected."""
    rules: Counter[str] = Counter()
    for name, result in results.items():
        rejected = verdict(sample_of(name, result))
        rules.update(violation.rule for violation in rejected)
        says = f"rejects: {rejected[0].rule}: {rejected[0].message}" if rejected else "accepts"
        kind = result["mutated"] or "as in CK's list"
        print(f"{result['arch']:7} {kind}\n    hipcc {failure(result) or 'compiles'}\n    rules {says}")
    everything = results
    wrong, missed_at_all, all_failures = judge(everything)
    results = sampled(everything)
    false_rejections, missed, failures = judge(results)
    mutated = sum(bool(result["mutated"]) for result in results.values())
    device_only = sum(not result["host"] and bool(failure(result)) for result in results.values())
    print("\nrules at work:", ", ".join(f"{rule} {count}" for rule, count in rules.most_common()))
    print(
        f"samples: {len(results)}, {mutated} of them mutated; {failures} fail, {device_only} of them only on the device"
    )
    print(
        f"beside these, made on purpose: {len(everything) - len(results)}, {all_failures - failures} of them fail, "
        f"{len(missed_at_all) - len(missed)} missed, {len(wrong) - len(false_rejections)} wrongly rejected"
    )
    for title, lines in (("false rejections", false_rejections), ("missed failures", missed)):
        print(f"{title}: {len(lines)}", *lines, sep="\n    ")
    caught = failures - len(missed)
    print(f"caught: {caught} of {failures} = {caught / max(failures, 1):.1%}")
    return 1 if wrong else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from-results", action="store_true", help="compile nothing")
    parser.add_argument("--hipcc", default="hipcc")
    parser.add_argument("--rocm-path")
    parser.add_argument("--limit", type=int, help="compile at most this many samples")
    options = parser.parse_args()
    if not options.from_results:
        with tempfile.TemporaryDirectory() as folder:
            collect(Hipcc(options.hipcc, options.rocm_path, Path(folder)), options.limit)
    return report(load())


if __name__ == "__main__":
    sys.exit(main())
