"""The emulator on plain HIP kernels, without matrix instructions: how much of them one core executes in a second.

`emulated_kernels.hip` is compiled for gfx942, and each kernel launched with all checks and without, by turns; times are
processor time of one thread. A GEMM's figure is its multiply-adds, another kernel's its elements. The least time of a
run of launches counts: what else the machine does only adds to it. Compare checkouts with
`python -m benchmarks.against ../before emulated_kernels`; the other one needs this program.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import anyio
import numpy as np
import numpy.typing as npt

from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import Row, row
from ckwatch.compile.toolchain.discover import discover
from ckwatch.verification.device import EmulatedDevice
from ckwatch.verification.library import build_library

MEASURED_CODE = ("daemon/ckwatch/verification",)

SOURCE = Path(__file__).with_suffix(".hip")
ARCH = "gfx942"
LEVELS = ("-O3", "-O1")
LAUNCHES = 5
"""Of which the fastest is a run."""

INSTRUCTION_LIMIT = 1 << 40

Argument = ctypes.c_void_p | ctypes.c_float | ctypes.c_int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A launch: `inputs` and `outputs` are words of its arrays, which come first; `amount` is what a second counts."""

    name: str
    level: str
    grid: tuple[int, int]
    block: tuple[int, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scalars: tuple[int | float, ...]
    amount: int
    counted: str = "elements"

    @property
    def label(self) -> str:
        return f"{self.counted} of `{self.name}` ({self.level}), one core, emulated with all checks"


SIDE = 256
KERNELS = (
    *(
        Kernel(name, level, (SIDE // tile,) * 2, block, (SIDE**2,) * 2, (SIDE**2,), (SIDE,), SIDE**3, "multiply-adds")
        for name, tile, block in (("gemm", 16, (16, 16)), ("gemm_blocked", 64, (256, 1)))
        for level in LEVELS
    ),
    Kernel("elementwise", "-O3", (256, 1), (256, 1), (1 << 20, 1 << 20), (), (0.5, 1 << 20), 1 << 20),
    Kernel("reduction", "-O3", (64, 1), (256, 1), (1 << 20,), (64,), (1 << 20,), 1 << 20),
    Kernel("stencil", "-O3", (32, 32), (16, 16), (512**2,), (512**2,), (512,), 512**2),
    Kernel("softmax", "-O3", (512, 1), (256, 1), (1 << 19,), (1 << 19,), (1024,), 1 << 19),
    Kernel("transposition", "-O3", (32, 32), (32, 8), (1 << 20,), (1 << 20,), (1024,), 1 << 20),
    Kernel("scan", "-O3", (1024, 1), (256, 1), (1 << 18,), (1 << 18,), (), 1 << 18),
    Kernel("branches", "-O1", (64, 1), (256, 1), (), (1 << 14,), (1 << 14,), 1 << 14),
    Kernel("scalars", "-O1", (4, 1), (256, 1), (), (1024,), (12345, 1 << 13), 16 << 13, "rounds by waves"),
)


def code_object(folder: Path, level: str) -> Path:
    """The kernels compiled with an optimisation level."""
    toolchain, made = discover(), folder / f"kernels{level}.o"
    options = ("-x", "hip", f"--offload-arch={ARCH}", "--offload-device-only", "--no-gpu-bundle-output", level)
    command = [str(toolchain.clangxx), *toolchain.hip_arguments, *options, "-c", str(SOURCE), "-o", str(made)]
    subprocess.run(command, check=True, env=os.environ | {"HIP_PLATFORM": "amd"})
    return made


class Launcher:
    """Launches kernels of a code object on the emulator that is loaded into this process."""

    def __init__(self, library: str, objdump: str) -> None:
        self.device = EmulatedDevice(library, objdump, ARCH, INSTRUCTION_LIMIT)
        self._hip = ctypes.CDLL(library)
        self._modules: dict[Path, ctypes.c_void_p] = {}
        self._kept: list[list[Argument]] = []

    def _call(self, function: str, *arguments: object) -> None:
        if error := getattr(self._hip, function)(*arguments):
            raise RuntimeError(f"{function} returned {error}: {self.device.problem()}")

    def prepared(self, path: Path, kernel: Kernel) -> Callable[[], None]:
        """A launch of the kernel, with its memory allocated and filled."""
        if path not in self._modules:
            self._modules[path] = ctypes.c_void_p()
            self._call("hipModuleLoad", ctypes.byref(self._modules[path]), str(path).encode())
        function = ctypes.c_void_p()
        self._call("hipModuleGetFunction", ctypes.byref(function), self._modules[path], kernel.name.encode())
        generator = np.random.default_rng(0)
        arrays = [self._uploaded(generator.standard_normal(words, np.float32)) for words in kernel.inputs]
        arrays += [self._undefined(words) for words in kernel.outputs]
        values: list[Argument] = [ctypes.c_void_p(array) for array in arrays]
        values += [ctypes.c_float(x) if isinstance(x, float) else ctypes.c_int(x) for x in kernel.scalars]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self._kept.append(values)
        shape = (*kernel.grid, 1, *kernel.block, 1)

        def launch() -> None:
            self._call("hipModuleLaunchKernel", function, *shape, 0, None, pointers, None)
            self.device.synchronize()

        return launch

    def _uploaded(self, data: npt.NDArray[np.float32]) -> int:
        address = self.device.allocate(data.nbytes)
        self.device.upload(address, data.view(np.uint8))
        return address

    def _undefined(self, words: int) -> int:
        address = self.device.allocate(4 * words)
        self.device.mark_undefined(address, 4 * words)
        return address


def seconds(launcher: Launcher, launch: Callable[[], None], *, checked: bool) -> float:
    launcher.device.configure(checked=checked, traced=False, workgroups=None, seed=0)
    times = []
    for _ in range(LAUNCHES):
        start = time.process_time()
        launch()
        times.append(time.process_time() - start)
    return min(times)


def launches(library: str, objdump: str, paths: Mapping[str, Path], runs: int) -> dict[str, tuple[list[float], ...]]:
    """By label, amounts in billions a second with all checks and without; in a process of its own, since the emulator
    stays loaded."""
    launcher = Launcher(library, objdump)
    found: dict[str, tuple[list[float], ...]] = {}
    for kernel in KERNELS:
        launch = launcher.prepared(paths[kernel.level], kernel)
        speeds: tuple[list[float], ...] = ([], [])
        for number in range(runs):
            for checked in (True, False) if number % 2 == 0 else (False, True):
                taken = seconds(launcher, launch, checked=checked)
                speeds[0 if checked else 1].append(kernel.amount / taken / 1e9)
        if findings := launcher.device.findings():
            raise RuntimeError(f"{kernel.name} is right, but was reported: {findings[0]}")
        found[kernel.label] = speeds
    return found


def measure() -> list[Row]:
    """A row for each kernel: with all checks, against the same without."""
    toolchain = discover()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = anyio.run(build_library, folder, toolchain.clang)
        paths = {level: code_object(folder, level) for level in LEVELS}
        os.environ |= {"CKWATCH_EMULATOR_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found = pool.submit(launches, str(library), str(toolchain.objdump), paths, asked_runs()).result()
    return [
        row(label, checked, unchecked, reference_name="without checks", unit="G/s", goal="reported")
        for label, (checked, unchecked) in found.items()
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
