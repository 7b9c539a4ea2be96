"""Compiles random programs for the device and the host, runs both, and makes a difference small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.verification.device import ARCH_VARIABLE, LIMIT_VARIABLE, OBJDUMP_VARIABLE
from random_programs.programs import (
    COUNTERS,
    GROUPS,
    STRIPE_BYTES,
    STRIPE_SLOTS,
    THREADS,
    Kernel,
    Statement,
    input_bytes,
    text_of,
)

HERE = Path(__file__).parent
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1100/64", "gfx1201", "gfx1201/64")
"""`/64`: compiled for waves of 64 lanes."""
LEVELS = ("-O0", "-O1", "-O2", "-O3")

_BOTH = ("-std=c++20", "-ffp-contract=off", "-w", f"-I{HERE}")
_DEVICE = ("-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib")
# -O0: from -O1 on, clang 22 reads an i16 through the register of a bf16 at the same place, which quiets a NaN
_HOST = ("-x", "c++", "-O0", "-march=x86-64-v3", "-fPIC", "-shared", "-Xclang", "-ffloat16-excess-precision=none")
_HOST_HALVES = ("-Xclang", "-fbfloat16-excess-precision=none")


@dataclass(frozen=True)
class Difference:
    """A kernel whose result is not the host's, in which something was found, or that did not run."""

    seed: int
    arch: str
    level: str
    kernel: str
    places: tuple[str, ...]
    findings: tuple[str, ...]
    error: str = ""

    def __str__(self) -> str:
        told = [f"{self.kernel} of seed {self.seed}, {self.arch} {self.level}: {self.error}".rstrip(": ")]
        told += [f"  {one}" for one in (*self.places[:6], *self.findings[:6])]
        return "\n".join(told)


class Programs:
    """Compiles into a folder and launches; one emulator for each arch, until it is closed."""

    def __init__(self, toolchain: Toolchain, library: Path, folder: Path) -> None:
        self._clang, self._objdump = str(toolchain.clang), str(toolchain.objdump)
        self._library, self._folder = library, folder
        self._emulators: dict[str, subprocess.Popen[str]] = {}

    def differences(
        self, kernels: Sequence[Kernel], seed: int, archs: Sequence[str], levels: Sequence[str]
    ) -> list[Difference]:
        """Return what differs between the emulator and the host. Raises ValueError if a side does not compile."""
        device, host = self._folder / "device.cpp", self._folder / "host.cpp"
        device.write_text(text_of(list(kernels), "device"))
        host.write_text(text_of(list(kernels), "host"))
        source = self._folder / "input"
        source.write_bytes(input_bytes(seed))
        library = self._folder / f"host-{os.urandom(4).hex()}.so"  # a name of its own: the loader keeps those it has
        self._compile(*_HOST, *_HOST_HALVES, *_BOTH, str(host), "-o", str(library))
        found = []
        for arch in archs:
            target, _, wide = arch.partition("/")
            objects = {level: str(self._folder / f"{target}{wide}{level}.o") for level in levels}
            wave = ["-mwavefrontsize64", "-DWAVES_OF_64"] if wide else []
            for level, path in objects.items():
                self._compile(*_DEVICE, *_BOTH, level, f"--offload-arch={target}", *wave, str(device), "-o", path)
            asked = {
                "host": str(library),
                "objects": objects,
                "kernels": [one.name for one in kernels],
                "input": str(source),
                "lanes": 64 if wide or target.startswith("gfx9") else 32,
                "groups": GROUPS,
                "threads": THREADS,
                "output_bytes": GROUPS * THREADS * STRIPE_BYTES,
                "counter_bytes": COUNTERS * 4,
            }
            named = {one.name: one for one in kernels}
            found += [_difference(told, named.get(told["kernel"]), seed, arch) for told in self._ask(arch, asked)]
        library.unlink()
        return found

    def close(self) -> None:
        """End the emulators."""
        for process in self._emulators.values():
            process.communicate()
        self._emulators.clear()

    def _compile(self, *arguments: str) -> None:
        done = subprocess.run([self._clang, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"does not compile: {done.stderr[:2000]}")

    def _ask(self, arch: str, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        process = self._emulators.get(arch)
        if process is None:
            environment = os.environ | {
                ARCH_VARIABLE: arch.partition("/")[0],
                OBJDUMP_VARIABLE: self._objdump,
                LIMIT_VARIABLE: "2e7",
            }
            process = subprocess.Popen(
                [sys.executable, str(HERE / "launches.py"), str(self._library)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            self._emulators[arch] = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line:
            return list(json.loads(line))
        del self._emulators[arch]
        process.communicate()
        status = process.returncode
        kernel, level = (asked["kernels"][0] if len(asked["kernels"]) == 1 else "a kernel"), ", ".join(asked["objects"])
        error = f"the process ended with status {status}"
        return [{"kernel": kernel, "level": level, "places": [], "findings": [], "error": error}]


def _who(finding: Mapping[str, Any]) -> str:
    if finding["workgroup"] is None:
        return f"on a path that is not executed: {finding['note']}"
    return f"workgroup {finding['workgroup'][0]}, wave {finding['wave']}, lane {finding['lane']}"


def _difference(told: Mapping[str, Any], kernel: Kernel | None, seed: int, arch: str) -> Difference:
    findings = tuple(f"{one['kind']}: {one['instruction']}, {_who(one)}" for one in told["findings"])
    places = tuple(_place(kernel, *one) for one in told["places"])
    return Difference(seed, arch, told["level"], told["kernel"], places, findings, told["error"])


def _place(kernel: Kernel | None, part: int, at: int, expected: str, actual: str) -> str:
    """A place of the output in words; values are bytes from the lowest address on."""
    if part:
        where = f"counter {at // 4}"
    else:
        thread, offset = divmod(at, STRIPE_BYTES)
        starts = [start for start in (kernel.stored if kernel else {}) if start <= offset]
        name = kernel.stored[max(starts)] if kernel and starts else f"slot {offset // 16} of {STRIPE_SLOTS}"
        where = f"group {thread // THREADS} thread {thread % THREADS} {name}, byte {offset}"
    return f"{where}: {expected} on the host, {actual} on the device"


def reduced(kernel: Kernel, differs: Callable[[Kernel], bool]) -> Kernel:
    """Return the kernel without the statements that it still `differs` without, and with plain ones."""
    without: frozenset[Statement] = frozenset()
    plain: frozenset[Statement] = frozenset()

    def shown(left_out: frozenset[Statement], made_plain: frozenset[Statement]) -> Kernel:
        return Kernel(kernel.name, [], Statement(kernel.text(left_out, made_plain)), kernel.stored)

    chunk = max(1, len(kernel.statements()) // 2)
    while chunk:
        left = [one for one in kernel.statements() if one not in without]
        for start in range(0, len(left), chunk):
            tried = without | set(left[start : start + chunk])
            if tried != without and differs(shown(tried, plain)):
                without = tried
        chunk //= 2
    for one in [one for one in kernel.statements() if one.plain and one not in without]:
        if differs(shown(without, plain | {one})):
            plain |= {one}
    return shown(without, plain)
