"""Shipped kernels, compiled by the real hipcc, on the emulator as it is built from its sources."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.bench.job import VerifyJob
from ckwatch.cli import main
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.verification import ProblemOutcome, VerificationOutcome
from ckwatch.verification.problems import trials_of
from ckwatch.verification.session import verify
from ckwatch.workspace.loading import load_workspace

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]


def built(capsys: pytest.CaptureFixture[str], example: str, unit: str, arch: str) -> dict[str, Any]:
    assert main(["build", unit, "-C", str(ROOT / "examples" / example), "--arch", arch, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (found,) = [line for line in lines if line["event"] == "unit"]
    assert found["outcome"] == "built"
    return dict(found)


@pytest.mark.parametrize(
    ("example", "name", "arch"),
    [
        ("gemm", "gemm_f16/v3_128x128x64_intrawave", "gfx942"),
        ("gemm", "gemm_bf16_bias/v1_64x64x32_any_size", "gfx942"),
        ("gemm", "gemm_f16_split_k/v1_128x128x64_intrawave", "gfx950"),
        ("gemm", "gemm_f8_scaled/v3_128x128x128_intrawave", "gfx950"),
        ("hip", "gemm_bf16_bias_silu/128x128x16", "gfx90a"),
        ("hip", "gemm_f8_row_scales/tiles_128_128_8_8", "gfx1100"),
        ("hip", "gemm_f8_row_scales/tiles_128_128_8_8", "gfx1201"),
    ],
)
def test_a_shipped_kernel_is_right(
    library: Path, capsys: pytest.CaptureFixture[str], example: str, name: str, arch: str
) -> None:
    fact = built(capsys, example, name, arch)
    units = load_workspace(ROOT / "examples" / example).units
    unit = next(unit for unit in units if f"{unit.kernel.name}/{unit.instance.name}" == name)
    unit = type(unit)(unit.kernel, unit.instance, arch)
    trials = trials_of(unit)
    job = VerifyJob(
        arch=arch,
        symbol=fact["symbol"],
        trials=trials,
        library=str(library),
        objdump=str(discover().objdump),
    )
    artifact = Path(fact["products"]["shared-object"]).read_bytes()
    found = anyio.run(partial(verify, job, artifact, time_limit_s=600))
    assert found.outcome is VerificationOutcome.VERIFIED, found.summary
    for trial, problem in zip(trials, found.problems, strict=True):
        expected = ProblemOutcome.REFUSED if trial.refusal else ProblemOutcome.RIGHT
        assert problem.outcome is expected or trial.name.startswith("misaligned"), problem
    sampled = [problem for problem in found.problems if problem.share not in (0, 1)]
    assert all(0 < problem.share < 1 for problem in sampled)


def emulated(*program: str | Path) -> int:
    return main(["emulate", *map(str, program)])


def test_the_standalone_runner_and_the_python_module_run_on_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    unit = ("gemm_f16/v3_128x128x64_intrawave@gfx942", "-C", str(ROOT / "examples/gemm"))
    assert main(["build", *unit, "--out", str(tmp_path), "--runner"]) == 0
    assert main(["export", *unit, "--out", str(tmp_path), "--name", "exported"]) == 0
    capfd.readouterr()
    (runner,) = tmp_path.rglob("*.run")
    assert emulated(runner, "--M", "100", "--N", "72", "--K", "136") == 0
    said = capfd.readouterr()
    assert "on emulated gfx942" in said.out
    assert "seed 2: right; 7200 of 7200 elements compared" in said.out
    assert said.out.endswith("\ntime: none, the device is emulated\nPASSED\n")
    assert said.err in ("", "Building the emulator (once) …\n")
    caller = tmp_path / "caller.py"
    caller.write_text(CALLER)
    assert emulated(sys.executable, caller) == 0
    assert capfd.readouterr() == ("right\n", "")


def test_the_standalone_runner_of_a_reference_in_python(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unit = ("transpose_f16/tile32@gfx942", "-C", str(ROOT / "examples/transpose"))
    assert main(["build", *unit, "--out", str(tmp_path), "--runner"]) == 0
    said = capfd.readouterr().out
    (runner,) = tmp_path.rglob("*.run")
    assert f"wrote {runner}.data\n" in said
    assert emulated(runner, "--shape", "333x77") == 0
    said = capfd.readouterr().out
    assert "shape '333x77': M 333, N 77, on emulated gfx942" in said
    assert "verify after timing: right; 25641 of 25641 elements compared, worst error 0\n" in said
    assert said.endswith("\ntime: none, the device is emulated\nPASSED\n")
    data = Path(f"{runner}.data/1.expected.0")
    data.write_bytes(b"\0" * 8 + data.read_bytes()[8:])
    assert emulated(runner, "--shape", "333x77") == 1
    assert capfd.readouterr().out.endswith("\nFAILED\n")
    assert emulated(runner, "--shape", "77x333") == 2
    assert "was not exported; there are '4096x4096', '333x77'" in capfd.readouterr().err


CALLER = """
import ctypes
import numpy as np
import exported

hip = ctypes.CDLL("libamdhip64.so.7")
hip.hipMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

class OnDevice:
    def __init__(self, array):
        self.address = ctypes.c_void_p()
        assert hip.hipMalloc(ctypes.byref(self.address), ctypes.c_size_t(array.nbytes)) == 0
        assert hip.hipMemcpy(self.address, array.ctypes.data, array.nbytes, 1) == 0
        self.__cuda_array_interface__ = dict(
            shape=array.shape, typestr="<f2", data=(self.address.value, False), version=3,
            strides=None if array.flags.c_contiguous else array.strides,
        )

x, w = (np.random.default_rng(1).integers(-3, 4, shape).astype(np.float16) for shape in ((64, 136), (40, 136)))
y = np.zeros((64, 40), np.float16)
Y = OnDevice(y)
exported.gemm_f16(OnDevice(x), OnDevice(w.T), out=Y)
assert hip.hipMemcpy(y.ctypes.data, Y.address, y.nbytes, 2) == 0
print("right" if (y == x.astype(np.float32) @ w.T.astype(np.float32)).all() else y)
"""


def test_a_program_with_a_mistake(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    toolchain, source, program = discover(), tmp_path / "program.hip", tmp_path / "program"
    source.write_text(PROGRAM)
    command = [str(toolchain.hipcc), *toolchain.hip_arguments, "--offload-arch=gfx950", str(source), "-o", str(program)]
    subprocess.run([*command, *toolchain.link_arguments], env=dict(toolchain.environment), check=True)
    capfd.readouterr()
    assert emulated("--arch", "gfx950", program) == 1
    said = capfd.readouterr()
    assert said.out == "emulated gfx950\nhipSuccess nan\n"
    assert said.err.startswith("gfx950 (emulated): shift: writes 4 bytes beyond the end of an allocation (256 ")
    assert said.err.count("\n") == 2
    assert "copy: uses what a load has not brought yet on a path that no launch has taken" in said.err
    capfd.readouterr()
    assert emulated("--arch", "gfx90a", program) == 3
    said = capfd.readouterr()
    assert "gfx950" in said.err  # what the program is for


PROGRAM = """
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void shift(float* y) { y[threadIdx.x + 1] = 1.0f; }

__global__ void copy(float* y, int rare) {
    float value;
    asm volatile("global_load_dword %0, %1, off\\n\\ts_cmp_eq_u32 %2, 0\\n\\ts_cbranch_scc0 skip%=\\n\\ts_waitcnt vmcnt(0)\\nskip%=:"
                 : "=&v"(value) : "v"(y + threadIdx.x), "s"(rare) : "memory", "scc");
    y[threadIdx.x] = value + 1.0f;
}

int main() {
    hipDeviceProp_t properties;
    hipEvent_t begin, end;
    float *y, elapsed = 1.0f;
    if (hipGetDeviceProperties(&properties, 0) || hipMalloc(&y, 256) || hipEventCreate(&begin) || hipEventCreate(&end)) return 2;
    if (hipEventRecord(begin)) return 2;
    shift<<<1, 64>>>(y);
    if (hipGetLastError()) return 3;
    copy<<<1, 32>>>(y + 16, 0);
    if (hipEventRecord(end) || hipEventSynchronize(end)) return 2;
    std::printf("%s\\n", properties.name);
    const hipError_t error = hipEventElapsedTime(&elapsed, begin, end);
    std::printf("%s %g\\n", hipGetErrorName(error), elapsed);
}
"""
