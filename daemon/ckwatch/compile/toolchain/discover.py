"""Finds a ROCm compiler: `ckwatch.toml`, then ROCM_PATH, `/opt/rocm*`, hipcc on PATH, and one that ckwatch installed.

Composable Kernel's headers come from where the workspace says, from the ROCm tree, or from what ckwatch installed. A
folder that the workspace names must work, or the search ends with an error; what is found by itself and does not work
is passed over with a note. Nothing here starts a process when the answers are known (`probe`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from ckwatch.compile.toolchain import composable_kernel, installations, relocate, rocm_libraries
from ckwatch.compile.toolchain.installations import ToolchainManifest
from ckwatch.compile.toolchain.layouts import (
    WHEEL_HINT,
    bitcode_folders,
    hip_version,
    llvm_folders,
    rocm_version,
    tree_in,
    wheel_trees,
)
from ckwatch.compile.toolchain.model import (
    FixedToolchainChoice,
    HeaderLibrary,
    Toolchain,
    ToolchainChoice,
    ToolchainSource,
    without_hidden_inputs,
)
from ckwatch.compile.toolchain.named import find_ck, find_rocm, version_rank
from ckwatch.compile.toolchain.probe import ProbeCache, ask_program, content_hash
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file

CONFIGURED = "[toolchain] rocm = "
CK_PROBE = "ck/ck.hpp"
CK_TILE_PROBE = "ck_tile/core.hpp"


def _find_headers(
    name: str,
    configured: Path | None,
    rocm: Path,
    installed: ToolchainManifest | None,
    sources: composable_kernel.ComposableKernelSources | None,
    env: Mapping[str, str],
) -> HeaderLibrary | None:
    """The folder that holds `ck/` or `ck_tile/`, or None when there is none.

    Raises `ToolchainError` when the folder that the workspace names does not hold it.
    """
    probe = CK_PROBE if name == "ck" else CK_TILE_PROBE
    if configured is not None and not configured.is_absolute():
        return _of_sources(name, find_ck(str(configured), env))
    if configured is not None:
        found = next((folder for folder in _include_folders(configured) if (folder / probe).is_file()), None)
        if found is None:
            raise ToolchainError(
                f"[toolchain] {name} = {configured}: no {probe} there",
                f"Name a folder that holds {probe} or include/{probe}.",
            )
        if name == "ck" and not (found / "ck/config.h").is_file():
            raise ToolchainError(
                f"[toolchain] ck = {configured}: a source tree without its generated ck/config.h",
                "Configure it with CMake and install its headers, then name the folder they are installed in.",
            )
        return HeaderLibrary(found, _ck_version(found), "ckwatch.toml")
    if (rocm / "include" / probe).is_file() and (installed is None or rocm != installed.root / "usr"):
        return HeaderLibrary(rocm / "include", _ck_version(rocm / "include"), "ROCm")
    # A tree that ckwatch installed keeps CK in a folder of its own, so that it can serve another ROCm too. Its ck_tile,
    # if it is of a time when there was one, does not fit its ck.
    if name == "ck" and installed is not None and (installed.root / "ck/include" / probe).is_file():
        folder = installed.root / "ck/include"
        return HeaderLibrary(folder, _ck_version(folder), "installed by ckwatch")
    if sources is not None:
        return _of_sources(name, sources)
    return None


def _of_sources(name: str, sources: composable_kernel.ComposableKernelSources) -> HeaderLibrary:
    folder = sources.ck if name == "ck" else sources.ck_tile
    return HeaderLibrary(folder, sources.release.ck_version, sources.release.origin)


def _include_folders(folder: Path) -> tuple[Path, ...]:
    """How a user may mean a header folder: itself, its `include`, or the library's own folder in it."""
    return folder, folder / "include", folder.parent


def _ck_version(folder: Path) -> str | None:
    try:
        text = read_file(folder / "ck/version.h").decode(errors="replace")
    except OSError:
        return None
    found = re.search(r"#define CK_VERSION +\"?([0-9][\w.+-]*)", text)
    return found[1] if found else None


ROCM_INSTALL_HINT = "Run `ckwatch toolchain install`, or set ROCM_PATH, or `rocm` in [toolchain] of ckwatch.toml."


_SINCE_CLANG = {"--no-offload-compress": 18, "-fcaret-diagnostics-max-lines=1": 16}
"""Flags of ours, and the first clang that knows them. Older ones never compress."""
_NEW_DRIVER = 23
"""The first clang that runs other programs by default than those that `driver_plan` understands."""


@dataclass(frozen=True, slots=True)
class _RocmFiles:
    """The files of one ROCm tree."""

    root: Path
    hipcc: Path
    llvm: Path  # the folder of clang and its tools
    device_libraries: Path


def discover(
    choice: ToolchainChoice | None = None,
    env: Mapping[str, str] | None = None,
    *,
    opt: Path = Path("/opt"),
    python: str = sys.prefix,
) -> Toolchain:
    """The toolchain that this workspace and environment lead to.

    Raises `ToolchainError` when there is none, with the places that were searched and the command that fixes it; and
    when the workspace names a folder that does not hold what it should.
    """
    choice = choice if choice is not None else FixedToolchainChoice()
    env = env if env is not None else os.environ
    cache = ProbeCache(installations.cache_folder(env) / "probes.json")
    notes: list[str] = []
    looked: list[str] = []
    try:
        for source, root, hipcc in _candidates(choice, env, opt, Path(python), looked):
            try:
                root = tree_in(root) if hipcc is None else root
                # However it is reached, a tree that ckwatch installed is used as such.
                manifest = installations.read_manifest(root.resolve().parent) if root.resolve().name == "usr" else None
                if manifest is not None:
                    root, hipcc = manifest.root / "usr", None
                    try:
                        relocate.settle(manifest.root, installations.MANIFEST)
                    except ToolchainError as error:
                        raise _UnusableError(error.message) from error
                return _assemble(source, _find_parts(root, hipcc, env), choice, env, cache, manifest, tuple(notes))
            except (_UnusableError, OSError) as error:  # a folder may not be readable
                why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
                looked.append(f"{source}: {why}")
                if source is ToolchainSource.CONFIG:
                    raise ToolchainError(f"{CONFIGURED}{choice.rocm}: {why}", ROCM_INSTALL_HINT) from None
                notes.append(f"{source}: {why}")
    finally:
        cache.save()
    raise ToolchainError("no HIP compiler found\n" + "\n".join(f"  {line}" for line in looked), ROCM_INSTALL_HINT)


class _UnusableError(Exception):
    """A candidate lacks something; says what."""


def _candidates(
    choice: ToolchainChoice, env: Mapping[str, str], opt: Path, python: Path, looked: list[str]
) -> Iterator[tuple[ToolchainSource, Path, Path | None]]:
    if choice.rocm is not None:
        named = not choice.rocm.is_absolute()
        yield ToolchainSource.CONFIG, find_rocm(str(choice.rocm), env, opt) if named else choice.rocm, None
    for source in (ToolchainSource.ENVIRONMENT, ToolchainSource.ROCM_HOME, ToolchainSource.HIP_PATH):
        if env.get(source.value):
            yield source, Path(env[source.value]).absolute(), None
        else:
            looked.append(f"{source}: not set")
    systems = sorted((*opt.glob("rocm*"), *opt.glob("rocm/core*")), key=_system_rank, reverse=True)
    for root in systems:
        if root.is_dir() and not (root.name == "rocm" and any(root.glob("core*"))):  # which it has but links to
            yield ToolchainSource.SYSTEM, root, None
    if not systems:
        looked.append(f"{opt}/rocm*: nothing there")
    on_path = shutil.which("hipcc", path=env.get("PATH", os.defpath))
    if on_path is not None:
        hipcc = Path(on_path).resolve()
        if not wheel_trees(hipcc.parent.parent):  # whose hipcc is a script of Python's
            yield ToolchainSource.PATH, hipcc.parent.parent, hipcc
    else:
        looked.append("PATH: no hipcc")
    prefixes = [Path(on_path).parent.parent] if on_path is not None else []
    prefixes += [Path(env["VIRTUAL_ENV"])] if env.get("VIRTUAL_ENV") else []
    for tree in dict.fromkeys(tree for prefix in (*prefixes, python) for tree in wheel_trees(prefix)):
        yield ToolchainSource.WHEELS, tree, None
    folder = installations.toolchains_folder(env)
    manifest = installations.current(folder)
    if manifest is not None:
        yield ToolchainSource.INSTALLED, manifest.root / "usr", None
    else:
        looked.append(f"{folder}: none installed by ckwatch")


def _system_rank(root: Path) -> tuple[tuple[int, ...], bool, str]:
    """Newest first; the plain `/opt/rocm` wins over the versioned folder that it usually links to."""
    return version_rank(rocm_version(root) or root.name), root.name == "rocm", root.name


def _find_parts(root: Path, hipcc: Path | None, env: Mapping[str, str]) -> _RocmFiles:
    if not root.is_dir():
        raise _UnusableError(f"{root} is not a folder")
    hipcc = hipcc or root / "bin" / "hipcc"
    if not os.access(hipcc, os.X_OK):
        raise _UnusableError(f"{root} has no bin/hipcc")
    llvm = next((folder for folder in llvm_folders(root, env) if os.access(folder / "clang++", os.X_OK)), None)
    if llvm is None:
        raise _UnusableError(f"{root} has hipcc and no clang++ (looked in lib/llvm/bin and llvm/bin)")
    bitcode = next((folder for folder in bitcode_folders(root, llvm) if (folder / "ocml.bc").is_file()), None)
    if bitcode is None:
        raise _UnusableError(f"{root} has no device libraries (ocml.bc)")
    if not (root / "include/hip/hip_runtime.h").is_file():
        hint = f": {WHEEL_HINT}" if root.name.startswith("_rocm_sdk_") else ""
        raise _UnusableError(f"{root} has no HIP headers (include/hip/hip_runtime.h){hint}")
    for tool in ("clang", "clang-offload-bundler", "llvm-objdump"):
        if not (llvm / tool).is_file():
            raise _UnusableError(f"{llvm} has no {tool}")
    return _RocmFiles(root, hipcc, llvm, bitcode)


def _assemble(
    source: ToolchainSource,
    parts: _RocmFiles,
    choice: ToolchainChoice,
    env: Mapping[str, str],
    cache: ProbeCache,
    manifest: installations.ToolchainManifest | None,
    notes: tuple[str, ...],
) -> Toolchain:
    root, llvm = parts.root, parts.llvm
    environment = without_hidden_inputs(env) | {
        "HIP_PLATFORM": "amd",  # else hipcc takes nvcc when one is on PATH
        "ROCM_PATH": str(root),
        "HIP_PATH": str(root),
        "HIP_CLANG_PATH": str(llvm),
    }
    clang_files = _compiler_files(llvm)
    clang = (llvm / "clang").resolve()
    command = [str(clang), "--version"]
    version_text = cache.ask("clang --version", clang_files, lambda: ask_program(command, environment))
    first_line = version_text.strip().splitlines()[0] if version_text.strip() else "unknown"
    hip = hip_version(root)
    name = "libamdhip64.so"
    libraries = (root / "lib" / name, *root.glob(f"lib/*-linux-gnu/{name}"), root / "lib64" / name)
    library = next((path for path in libraries if path.exists()), None)
    if library is not None:  # else Debian's hipcc makes the relative folder `lib` a search path of the linker
        environment["HIP_LIB_PATH"] = str(library.parent)
    installed = installations.current(installations.toolchains_folder(env))
    sources = composable_kernel.find_sources(installations.cache_folder(env))
    ck_tile = choice.ck_tile
    if ck_tile is None and choice.ck is not None:  # a checkout brings its own, and so does one that has a name
        places = _include_folders(choice.ck) if choice.ck.is_absolute() else ()
        ck_tile = next((one for one in places if (one / CK_TILE_PROBE).is_file()), None if places else choice.ck)
    hip_arguments = [f"--rocm-path={root}", f"--rocm-device-lib-path={parts.device_libraries}"]
    if not any((root / file).is_file() for file in ("share/hip/version", "bin/.hipVersion")):  # which clang reads
        hip_arguments += [f"--hip-version={hip}"] if hip != "unknown" else []
    cpp_arguments: list[str] = []
    link_arguments = [f"-L{library.parent}"] if library is not None else []
    number = re.search(r"version (\d+)\.", first_line)
    major = int(number[1]) if number else None
    if major is not None and major >= _NEW_DRIVER:
        hip_arguments.append("--no-offload-new-driver")
    openmp = (llvm.parent / "lib/libomp.so").exists()
    if manifest is not None:
        host = installations.host_extras(manifest)
        hip_arguments += host.header_arguments
        cpp_arguments += [*host.header_arguments, *host.openmp_arguments]
        # libamdhip64 here was built for a newer C library than the host's, which only a link would complain of.
        link_arguments += ["-Wl,--allow-shlib-undefined", *host.link_arguments]
        openmp = host.openmp
    return Toolchain(
        source=source,
        root=root,
        hipcc=parts.hipcc,
        clang=llvm / "clang",
        clangxx=llvm / "clang++",
        lld=next((llvm / name for name in ("ld.lld", "lld") if (llvm / name).exists()), llvm / "lld"),
        readelf=llvm / "llvm-readelf",
        objdump=llvm / "llvm-objdump",
        mca=llvm / "llvm-mca" if (llvm / "llvm-mca").is_file() else None,
        device_libraries=parts.device_libraries,
        hip_include=root / "include",
        hip_library=library,
        ck=_find_headers("ck", choice.ck, root, installed, sources, env),
        ck_tile=_find_headers("ck_tile", ck_tile, root, installed, sources, env),
        hip_arguments=tuple(hip_arguments),
        cpp_arguments=tuple(cpp_arguments),
        link_arguments=tuple(link_arguments),
        openmp=openmp,
        hip_version=hip,
        clang_version=first_line,
        rocm_version=manifest.rocm_version if manifest is not None else rocm_version(root),
        identity=_identity(manifest, parts, clang_files, version_text, hip, cache),
        environment=MappingProxyType(environment),
        notes=notes,
        unknown_flags=tuple(flag for flag, since in _SINCE_CLANG.items() if major is not None and major < since),
        libraries=None if manifest is None else rocm_libraries.include_folder(manifest.root),
    )


def _compiler_files(llvm: Path) -> list[Path]:
    """The files that decide what clang and its linker do: the programs and LLVM's own shared libraries."""
    programs = {(llvm / name).resolve() for name in ("clang", "lld") if (llvm / name).exists()}
    found = (*(llvm.parent / "lib").glob("lib*.so*"), *llvm.parents[1].glob("*-linux-gnu/lib*.so*"))
    return sorted(programs | {path.resolve() for path in found if path.name.startswith(("libLLVM", "libclang-cpp"))})


def _identity(
    manifest: installations.ToolchainManifest | None,
    parts: _RocmFiles,
    files: list[Path],
    version: str,
    hip: str,
    cache: ProbeCache,
) -> str:
    if manifest is not None:  # relocation writes paths into the programs: the packages tell what they are
        content = ";".join(sorted(f"{package.name}={package.sha256}" for package in manifest.packages))
    else:
        content = content_hash([*files, *sorted(parts.device_libraries.glob("*.bc"))], cache)
        version = re.sub(r"^InstalledDir: .*$", "", version, flags=re.MULTILINE)
        content += version + hip
    return hashlib.sha256(content.encode()).hexdigest()[:32]
