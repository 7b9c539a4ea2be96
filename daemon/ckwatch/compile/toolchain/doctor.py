"""Examines the environment: what is there, what is missing, and the command that fixes it."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import anyio

from ckwatch.compile.toolchain import installations, rocm_libraries
from ckwatch.compile.toolchain.clang_headers import (
    CLANG_HEADERS_INSTALL_COMMAND,
    can_fetch_headers,
    find_clang_headers,
)
from ckwatch.compile.toolchain.clangd import (
    CLANGD_INSTALL_COMMAND,
    find_clangd,
    major_to_fetch,
    require_clangd_can_be_fetched,
)
from ckwatch.compile.toolchain.composable_kernel import CK_INSTALL_COMMAND
from ckwatch.compile.toolchain.devices import DetectedDevice, find_devices, is_importable
from ckwatch.compile.toolchain.discover import ROCM_INSTALL_HINT, discover
from ckwatch.compile.toolchain.host_distribution import examine_host_cxx
from ckwatch.compile.toolchain.layouts import layout_of
from ckwatch.compile.toolchain.model import HeaderLibrary, Toolchain, ToolchainChoice, ToolchainSource
from ckwatch.compile.toolchain.named import find_ck4inductor
from ckwatch.compile.toolchain.nvcc import NvccToolchain, cuda_install_hint, find_nvcc
from ckwatch.compile.toolchain.probe import run_tool
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.rocm_libraries import LIBRARIES, install_command
from ckwatch.system.installation import command_for_packages

# The archs with matrix cores that Composable Kernel's XDL instances run on.
XDL_ARCHS = ("gfx908", "gfx90a", "gfx942", "gfx950")


class CheckState(StrEnum):
    """How a check ended; only `MISSING` stops work."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that was checked; `fix` is a command or an instruction when something is to be done."""

    name: str
    state: CheckState
    detail: str
    fix: str | None = None


ExtraCheck = Callable[[Toolchain], Awaitable[DoctorCheck]]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The state of the environment. `archs` are those that can be compiled for."""

    checks: tuple[DoctorCheck, ...]
    devices: tuple[DetectedDevice, ...]
    archs: tuple[str, ...]
    toolchain: Toolchain | None
    ck4inductor: HeaderLibrary | None = None

    @property
    def ok(self) -> bool:
        """Return True if all requirements are met."""
        return all(check.state is not CheckState.MISSING for check in self.checks)


async def examine(
    choice: ToolchainChoice | None,
    env: Mapping[str, str],
    *,
    archs: tuple[str, ...] = ("gfx942",),
    smoke: bool = False,
    more: Sequence[ExtraCheck] = (),
) -> DoctorReport:
    """Look at everything that a compile and a measurement need; `archs` must be possible targets. `more` are further
    looks at a compiler that was found.

    Missing things are in the report; nothing is raised for them.
    """
    devices = await anyio.to_thread.run_sync(find_devices, env)
    # Notes, unless an arch of NVIDIA is to be compiled for.
    absent = CheckState.MISSING if any(arch.startswith("sm_") for arch in archs) else CheckState.NOTE
    cuda = await anyio.to_thread.run_sync(cuda_checks, env, devices, absent)
    named_clangd = None if choice is None else choice.clangd
    try:
        toolchain = await anyio.to_thread.run_sync(discover, choice, env)
    except ToolchainError as error:
        state = CheckState.NOTE if archs and all(arch.startswith("sm_") for arch in archs) else CheckState.MISSING
        found = DoctorCheck("compiler", state, error.message, error.hint or ROCM_INSTALL_HINT)
        clangd = await anyio.to_thread.run_sync(_clangd_check_for_cuda, env, named_clangd)
        return DoctorReport((found, *clangd, *cuda, *_device_checks(devices)), devices, (), None)
    rocm = f"ROCm {toolchain.rocm_version}, " if toolchain.rocm_version else ""
    detail = f"{rocm}HIP {toolchain.hip_version}, {toolchain.clang_version}, {toolchain.source}: {toolchain.root}"
    checks = [DoctorCheck("compiler", CheckState.OK, detail)]
    if toolchain.libraries is None:  # another one than ckwatch's own
        checks.append(DoctorCheck("layout", CheckState.OK, layout_of(toolchain.root).title))
    checks += [DoctorCheck("passed over", CheckState.NOTE, note) for note in toolchain.notes]
    supported = await supported_archs(toolchain)
    checks += [_arch_check(toolchain, supported, arch) for arch in archs if arch.startswith("gfx")]
    checks += [_headers_check("CK", toolchain.ck, toolchain), _headers_check("ck_tile", toolchain.ck_tile, toolchain)]
    lists = find_ck4inductor(choice, env)
    checks.append(_instance_lists_check(lists))
    checks.append(await anyio.to_thread.run_sync(_libraries_check, toolchain))
    checks.append(await _host_check(toolchain))
    checks.append(_openmp_check(toolchain))
    checks.append(await anyio.to_thread.run_sync(_clangd_check, toolchain, env, named_clangd))
    checks.append(await anyio.to_thread.run_sync(_clang_headers_check, toolchain, env))
    checks += [await look(toolchain) for look in more]
    if smoke:
        checks += [await check for check in _smoke_checks(toolchain, archs)]
    return DoctorReport((*checks, *cuda, *_device_checks(devices)), devices, supported, toolchain, lists)


async def supported_archs(toolchain: Toolchain) -> tuple[str, ...]:
    """The archs that clang knows and device libraries are there for, XDL archs first."""
    command: list[str | Path] = [toolchain.clang, "--target=amdgcn-amd-amdhsa", "--print-supported-cpus"]
    done = await run_tool(command, environment=toolchain.environment, timeout_s=60)
    known = set(re.findall(r"^\s+(gfx[\w-]+)$", done.stdout + done.stderr, re.MULTILINE))
    files = toolchain.device_libraries.glob("oclc_isa_version_*.bc")
    present = {f"gfx{path.stem.removeprefix('oclc_isa_version_')}" for path in files}
    both = known & present
    others = sorted(both - set(XDL_ARCHS), key=lambda arch: (len(arch), arch))
    return (*(arch for arch in XDL_ARCHS if arch in both), *others)


def _arch_check(toolchain: Toolchain, supported: tuple[str, ...], arch: str) -> DoctorCheck:
    name = arch.partition(":")[0]
    if name in supported:
        return DoctorCheck(arch, CheckState.OK, f"device libraries in {toolchain.device_libraries}")
    detail = f"this compiler has no target or no device libraries for {name}"
    return DoctorCheck(arch, CheckState.MISSING, detail, "Install a ROCm that supports it, or choose another arch.")


def _headers_check(name: str, headers: HeaderLibrary | None, toolchain: Toolchain) -> DoctorCheck:
    if headers is None:
        setting = "ck" if name == "CK" else name
        ways = dict.fromkeys((layout_of(toolchain.root).brings_ck, CK_INSTALL_COMMAND))
        hint = f"{', or '.join(ways)}, or name a folder that has them: `{setting}` in [toolchain] of ckwatch.toml"
        return DoctorCheck(name, CheckState.MISSING, f"no headers in {toolchain.title}", hint)
    version = f"{headers.version}, " if headers.version else ""
    return DoctorCheck(name, CheckState.OK, f"{version}{headers.origin}: {headers.folder}")


def _instance_lists_check(found: HeaderLibrary | None) -> DoctorCheck:
    if found is None:
        return DoctorCheck("ck4inductor", CheckState.NOTE, "no instance lists found", CK_INSTALL_COMMAND)
    version = f"{found.version}, " if found.version else ""
    detail = f"{version}{found.origin}: {found.folder}"
    return DoctorCheck("ck4inductor", CheckState.OK, detail)


def _libraries_check(toolchain: Toolchain) -> DoctorCheck:
    """Check which headers of ROCm's libraries are there. Looks at folders."""
    own = rocm_libraries.libraries_in(toolchain.hip_include)
    if toolchain.libraries is None:
        if own:
            return DoctorCheck("libraries", CheckState.OK, f"{', '.join(own)}: {toolchain.hip_include}")
        hint = "Install them from where this ROCm comes from: AMD's packages are called rocprim-dev, hipcub-dev, …"
        return DoctorCheck("libraries", CheckState.NOTE, f"no headers of rocPRIM, hipCUB, … in {toolchain.title}", hint)
    there = rocm_libraries.installed_libraries(toolchain.libraries.parents[1])
    others = [name for name in LIBRARIES if name not in there]
    fix = f"{install_command([rocm_libraries.ALL])}, or any of {','.join(others)}" if others else None
    if not there:
        return DoctorCheck("libraries", CheckState.NOTE, "no headers of rocPRIM, hipCUB, … are installed", fix)
    by_version: dict[str, list[str]] = {}
    for name, version in there.items():
        by_version.setdefault(version, []).append(name)
    listed = "; ".join(f"{', '.join(names)} {version}" for version, names in by_version.items())
    return DoctorCheck("libraries", CheckState.OK, f"{listed}: {toolchain.libraries}", fix)


async def _host_check(toolchain: Toolchain) -> DoctorCheck:
    found = await examine_host_cxx(
        toolchain.clangxx, toolchain.cpp_arguments, toolchain.link_arguments, toolchain.environment
    )
    if found.works:
        return DoctorCheck("host C++", CheckState.OK, f"headers and libraries of GCC {found.gcc or '(bundled)'}")
    if found.gcc is None:
        return DoctorCheck("host C++", CheckState.MISSING, "clang finds no GCC on this machine", "apt-get install g++")
    lacks = "its libraries cannot be linked" if found.headers else "its C++ headers are missing"
    package = f"libstdc++-{found.gcc.partition('.')[0]}-dev"
    fix = f"apt-get install g++ {package}"
    if toolchain.source is ToolchainSource.INSTALLED:
        fix += ", or without root: ckwatch toolchain install --force"
    return DoctorCheck("host C++", CheckState.MISSING, f"clang uses GCC {found.gcc}; {lacks}", fix)


def _openmp_check(toolchain: Toolchain) -> DoctorCheck:
    if toolchain.openmp:
        return DoctorCheck("OpenMP", CheckState.OK, "clang's runtime can be linked")
    manifest = installations.read_manifest(toolchain.root.parent)
    why = f" ({'; '.join(manifest.missing)})" if manifest is not None and manifest.missing else ""
    detail = f"no runtime for clang: host kernels run on one thread{why}"
    return DoctorCheck("OpenMP", CheckState.NOTE, detail, "ckwatch toolchain install --force")


def _clangd_check(toolchain: Toolchain | NvccToolchain, env: Mapping[str, str], configured: Path | None) -> DoctorCheck:
    """Check the program that answers questions about C++ in templates. Starts processes."""
    try:
        found = find_clangd(toolchain, env, configured)
        if found is not None:
            return DoctorCheck("clangd", CheckState.OK, f"{found.version}: {found.path}")
        major = major_to_fetch(toolchain)
        require_clangd_can_be_fetched(major)
    except ToolchainError as error:
        return DoctorCheck("clangd", CheckState.NOTE, error.message, error.hint)
    detail = f"no clangd {major} here; it is fetched when first needed"
    return DoctorCheck("clangd", CheckState.NOTE, detail, CLANGD_INSTALL_COMMAND)


def _clang_headers_check(toolchain: Toolchain, env: Mapping[str, str]) -> DoctorCheck:
    """Check the headers with which a clang that has parsed an instance is kept. Looks at folders."""
    name, found = "clang headers", find_clang_headers(toolchain, env)
    if found is not None:
        return DoctorCheck(name, CheckState.OK, f"edits of an instance are compiled by a clang that is kept: {found}")
    detail = "no C++ headers of this clang: edits of an instance compile with precompiled headers alone"
    fetched = CLANG_HEADERS_INSTALL_COMMAND if can_fetch_headers(toolchain) else None
    return DoctorCheck(name, CheckState.NOTE, detail, fetched or "Install LLVM's development files of this ROCm.")


def _clangd_check_for_cuda(env: Mapping[str, str], configured: Path | None) -> tuple[DoctorCheck, ...]:
    """Nothing without nvcc."""
    try:
        return (_clangd_check(find_nvcc(env), env, configured),)
    except ToolchainError:
        return ()


def _smoke_checks(toolchain: Toolchain, archs: tuple[str, ...]) -> list[Awaitable[DoctorCheck]]:
    kernel = "#include <hip/hip_runtime.h>\n__global__ void k(float* p) { p[threadIdx.x] = sqrtf(p[0]); }\n"
    library = "#include <ck/ck.hpp>\n#include <ck/utility/data_type.hpp>\n" if toolchain.ck is not None else ""
    return [_compile(toolchain, arch, library + kernel) for arch in archs if arch.startswith("gfx")]


async def _compile(toolchain: Toolchain, arch: str, text: str) -> DoctorCheck:
    name = f"compile for {arch}"
    async with anyio.TemporaryDirectory(prefix="ckwatch-") as folder:
        source = Path(folder, "smoke.hip")
        await anyio.Path(source).write_text(text)
        includes = [part for include in toolchain.include_folders for part in ("-isystem", str(include))]
        command: list[str | Path] = [toolchain.hipcc, *toolchain.hip_arguments, *includes, f"--offload-arch={arch}"]
        command += ["-std=c++17", "-O1", "-fPIC", "-shared", source, "-o", source.with_suffix(".so")]
        command += toolchain.link_arguments
        done = await run_tool(command, environment=toolchain.environment, timeout_s=600)
    if done.exit_status == 0:
        return DoctorCheck(name, CheckState.OK, "a small kernel was compiled and linked")
    printed = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-3:]
    return DoctorCheck(
        name, CheckState.MISSING, f"hipcc failed: {' / '.join(printed[:3])}", "ckwatch toolchain install --force"
    )


def cuda_checks(
    env: Mapping[str, str], devices: Sequence[DetectedDevice], absent: CheckState = CheckState.NOTE
) -> tuple[DoctorCheck, ...]:
    """nvcc first; then what matters only with it, or with an NVIDIA GPU. `absent` is the state of what is not there.

    Starts processes.
    """
    try:
        found = find_nvcc(env)
    except ToolchainError as error:
        checks = [DoctorCheck("CUDA", absent, " ".join(error.message.split()), error.hint or cuda_install_hint())]
    else:
        detail = f"nvcc {found.version}, {found.source}: {found.nvcc}; host compiler {found.host_version}"
        checks = [DoctorCheck("CUDA", CheckState.OK, detail)]
        if found.cutlass is None:
            fix = command_for_packages("nvidia-cutlass")
            checks.append(DoctorCheck("CUTLASS", absent, "no headers found", fix))
        else:
            headers = found.cutlass
            checks.append(
                DoctorCheck("CUTLASS", CheckState.OK, f"{headers.version}, {headers.origin}: {headers.folder}")
            )
    if any(device.name.startswith("cuda:") for device in devices):
        if is_importable("cuda.bindings"):
            checks.append(DoctorCheck("cuda-bindings", CheckState.OK, "importable"))
        else:
            fix = command_for_packages("cuda-bindings", "nvidia-ml-py")
            checks.append(DoctorCheck("cuda-bindings", absent, "not installed: kernels cannot be timed", fix))
    return tuple(checks)


def _device_checks(devices: tuple[DetectedDevice, ...]) -> list[DoctorCheck]:
    if not any(device.name.startswith("hip:") for device in devices):
        where = "compiling works without one"
        if os.path.exists("/dev/kfd"):  # noqa: PTH110 - a device node
            where = "/dev/kfd is there, its topology has no GPU"
        return [DoctorCheck("AMD GPU", CheckState.NOTE, f"none in this machine; {where}")]
    if not os.access("/dev/kfd", os.R_OK | os.W_OK):
        fix = "sudo usermod -aG render,video $USER, then log in again"
        return [DoctorCheck("AMD GPU", CheckState.NOTE, "you may not open /dev/kfd", fix)]
    if not is_importable("rocm.bindings.hip", "hip"):
        fix = command_for_packages("hip-python")
        return [DoctorCheck("hip-python", CheckState.NOTE, "not installed: kernels cannot be timed", fix)]
    return [DoctorCheck("hip-python", CheckState.OK, "importable")]
