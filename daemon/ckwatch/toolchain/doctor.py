"""Examine the environment: what is there, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from ckwatch.errors import ToolchainError
from ckwatch.toolchain import places
from ckwatch.toolchain.devices import FoundDevice, find_devices, has_hip_python
from ckwatch.toolchain.discover import INSTALL_HINT, discover
from ckwatch.toolchain.host import examine_host_cxx
from ckwatch.toolchain.model import Headers, Toolchain, ToolchainChoice, ToolchainSource
from ckwatch.toolchain.nvcc_doctor import cuda_checks
from ckwatch.toolchain.process import run

# The archs with matrix cores that Composable Kernel's XDL instances run on.
XDL_ARCHS = ("gfx908", "gfx90a", "gfx942", "gfx950")


class State(StrEnum):
    """How a check ended; only `MISSING` stops work."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `mend` is a command or an instruction when something is to be done."""

    name: str
    state: State
    detail: str
    mend: str | None = None


Examine = Callable[[Toolchain], Awaitable[Check]]


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the environment. `archs` are those that can be compiled for."""

    checks: tuple[Check, ...]
    devices: tuple[FoundDevice, ...]
    archs: tuple[str, ...]
    toolchain: Toolchain | None

    @property
    def ok(self) -> bool:
        """Whether all that is needed is there."""
        return all(check.state is not State.MISSING for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values; new fields may be added, none changes its meaning."""
        found = self.toolchain
        return {
            "ok": self.ok,
            "toolchain": None if found is None else {
                "source": found.source.name.lower(),
                "root": str(found.root),
                "hipcc": str(found.hipcc),
                "clang": found.clang_version,
                "hip": found.hip_version,
                "rocm": found.rocm_version,
                "identity": found.identity,
                "ck": _headers_json(found.ck),
                "ck_tile": _headers_json(found.ck_tile),
                "openmp": found.openmp,
            },
            "archs": list(self.archs),
            "devices": [asdict(device) for device in self.devices],
            "checks": [asdict(check) for check in self.checks],
        }  # fmt: skip


async def examine(
    choice: ToolchainChoice | None,
    env: Mapping[str, str],
    *,
    archs: tuple[str, ...] = ("gfx942",),
    smoke: bool = False,
    more: Sequence[Examine] = (),
) -> Report:
    """Look at everything that a compile and a measurement need; `archs` must be possible targets. `more` are further
    looks at a compiler that was found.

    Missing things are in the report; nothing is raised for them.
    """
    devices = await anyio.to_thread.run_sync(find_devices, env)
    cuda = await anyio.to_thread.run_sync(_cuda_checks, env, devices, archs)
    try:
        toolchain = await anyio.to_thread.run_sync(discover, choice, env)
    except ToolchainError as error:
        state = State.NOTE if archs and all(arch.startswith("sm_") for arch in archs) else State.MISSING
        found = Check("compiler", state, error.message, error.hint or INSTALL_HINT)
        return Report((found, *cuda, *_device_checks(devices)), devices, (), None)
    checks = [_compiler_check(toolchain)]
    checks += [Check("passed over", State.NOTE, note) for note in toolchain.notes]
    supported = await supported_archs(toolchain)
    checks += [_arch_check(toolchain, supported, arch) for arch in archs if arch.startswith("gfx")]
    checks += [_headers_check("CK", toolchain.ck), _headers_check("ck_tile", toolchain.ck_tile)]
    checks.append(await _host_check(toolchain))
    checks.append(_openmp_check(toolchain))
    checks += [await look(toolchain) for look in more]
    if smoke:
        checks += [await check for check in _smoke_checks(toolchain, archs)]
    return Report((*checks, *cuda, *_device_checks(devices)), devices, supported, toolchain)


async def supported_archs(toolchain: Toolchain) -> tuple[str, ...]:
    """The archs that clang knows and device libraries are there for, XDL archs first."""
    command: list[str | Path] = [toolchain.clang, "--target=amdgcn-amd-amdhsa", "--print-supported-cpus"]
    done = await run(command, env=toolchain.environment, timeout_s=60)
    known = set(re.findall(r"^\s+(gfx[0-9a-f]+)$", done.output + done.errors, re.MULTILINE))
    files = toolchain.device_libraries.glob("oclc_isa_version_*.bc")
    present = {f"gfx{path.stem.removeprefix('oclc_isa_version_')}" for path in files}
    both = known & present
    others = sorted(both - set(XDL_ARCHS), key=lambda arch: (len(arch), arch))
    return (*(arch for arch in XDL_ARCHS if arch in both), *others)


def _compiler_check(toolchain: Toolchain) -> Check:
    rocm = f"ROCm {toolchain.rocm_version}, " if toolchain.rocm_version else ""
    detail = f"{rocm}HIP {toolchain.hip_version}, {toolchain.clang_version}, {toolchain.source}: {toolchain.root}"
    return Check("compiler", State.OK, detail)


def _arch_check(toolchain: Toolchain, supported: tuple[str, ...], arch: str) -> Check:
    name = arch.partition(":")[0]
    if name in supported:
        return Check(arch, State.OK, f"device libraries in {toolchain.device_libraries}")
    detail = f"this compiler has no target or no device libraries for {name}"
    return Check(arch, State.MISSING, detail, "Install a ROCm that supports it, or choose another arch.")


def _headers_check(name: str, headers: Headers | None) -> Check:
    if headers is None:
        hint = "ckwatch toolchain install, or install ROCm's composablekernel-dev package"
        return Check(name, State.MISSING, "no headers found", hint)
    version = f"{headers.version}, " if headers.version else ""
    return Check(name, State.OK, f"{version}{headers.origin}: {headers.folder}")


async def _host_check(toolchain: Toolchain) -> Check:
    found = await examine_host_cxx(
        toolchain.clangxx, toolchain.cpp_arguments, toolchain.link_arguments, toolchain.environment
    )
    if found.works:
        return Check("host C++", State.OK, f"headers and libraries of GCC {found.gcc or '(bundled)'}")
    if found.gcc is None:
        return Check("host C++", State.MISSING, "clang finds no GCC on this machine", "apt-get install g++")
    lacks = "its libraries cannot be linked" if found.headers else "its C++ headers are missing"
    package = f"libstdc++-{found.gcc.partition('.')[0]}-dev"
    mend = f"apt-get install g++ {package}"
    if toolchain.source is ToolchainSource.INSTALLED:
        mend += ", or without root: ckwatch toolchain install --force"
    return Check("host C++", State.MISSING, f"clang uses GCC {found.gcc}; {lacks}", mend)


def _openmp_check(toolchain: Toolchain) -> Check:
    if toolchain.openmp:
        return Check("OpenMP", State.OK, "clang's runtime can be linked")
    manifest = places.read_manifest(toolchain.root.parent)
    why = f" ({'; '.join(manifest.missing)})" if manifest is not None and manifest.missing else ""
    detail = f"no runtime for clang: host kernels run on one thread{why}"
    return Check("OpenMP", State.NOTE, detail, "ckwatch toolchain install --force")


def _smoke_checks(toolchain: Toolchain, archs: tuple[str, ...]) -> list[Awaitable[Check]]:
    kernel = "#include <hip/hip_runtime.h>\n__global__ void k(float* p) { p[threadIdx.x] = sqrtf(p[0]); }\n"
    library = "#include <ck/ck.hpp>\n#include <ck/utility/data_type.hpp>\n" if toolchain.ck is not None else ""
    checks: list[Callable[[], Awaitable[Check]]] = [
        partial(_compile, toolchain, f"compile for {arch}", library + kernel, arch)
        for arch in archs
        if arch.startswith("gfx")
    ]
    return [check() for check in checks]


async def _compile(toolchain: Toolchain, name: str, text: str, arch: str) -> Check:
    async with anyio.TemporaryDirectory(prefix="ckwatch-") as folder:
        source = Path(folder, "smoke.hip")
        await anyio.Path(source).write_text(text)
        includes = [part for include in toolchain.include_folders for part in ("-isystem", str(include))]
        command: list[str | Path] = [toolchain.hipcc, *toolchain.hip_arguments, *includes, f"--offload-arch={arch}"]
        command += ["-std=c++17", "-O1", "-fPIC", "-shared", source, "-o", source.with_suffix(".so")]
        command += toolchain.link_arguments
        done = await run(command, env=toolchain.environment, timeout_s=600)
    if done.status == 0:
        return Check(name, State.OK, "a small kernel was compiled and linked")
    said = [line for line in done.errors.splitlines() if "error" in line] or done.errors.splitlines()[-3:]
    return Check(name, State.MISSING, f"hipcc failed: {' / '.join(said[:3])}", "ckwatch toolchain install --force")


def _cuda_checks(env: Mapping[str, str], devices: tuple[FoundDevice, ...], archs: tuple[str, ...]) -> list[Check]:
    """Notes, unless an arch of NVIDIA is to be compiled for."""
    absent = State.MISSING if any(arch.startswith("sm_") for arch in archs) else State.NOTE
    checks = cuda_checks(env, devices)
    return [Check(one.name, State.OK if one.there else absent, one.detail, one.mend) for one in checks]


def _device_checks(devices: tuple[FoundDevice, ...]) -> list[Check]:
    if not any(device.name.startswith("hip:") for device in devices):
        where = "compiling works without one"
        if os.path.exists("/dev/kfd"):  # noqa: PTH110 - a device node
            where = "/dev/kfd is there, its topology has no GPU"
        return [Check("AMD GPU", State.NOTE, f"none in this machine; {where}")]
    if not os.access("/dev/kfd", os.R_OK | os.W_OK):
        mend = "sudo usermod -aG render,video $USER, then log in again"
        return [Check("AMD GPU", State.NOTE, "you may not open /dev/kfd", mend)]
    if not has_hip_python():
        return [Check("hip-python", State.NOTE, "not installed: kernels cannot be timed", "pip install hip-python")]
    return [Check("hip-python", State.OK, "importable")]


def _headers_json(headers: Headers | None) -> dict[str, str | None] | None:
    if headers is None:
        return None
    return {"folder": str(headers.folder), "version": headers.version, "origin": headers.origin}
