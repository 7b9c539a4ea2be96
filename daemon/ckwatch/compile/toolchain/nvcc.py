"""Find nvcc and CUTLASS's headers: CUDA_HOME, nvcc on PATH, /usr/local/cuda, then the packages in this Python.

NVIDIA's wheels (nvidia-cuda-nvcc and what it needs) lay their programs out as a CUDA of their own, under `nvidia/cu13/`
or `nvidia/cuda_nvcc/` of the site's packages. The headers of the package `nvidia-cutlass` lie in `cutlass_library`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType

from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.model import HeaderLibrary, without_hidden_inputs
from ckwatch.compile.toolchain.probe import ProbeCache, ask_program
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.installation import command_for_packages
from ckwatch.system.user_files import read_file

CUDA_PACKAGES = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


def cuda_install_hint() -> str:
    """Ways to get nvcc."""
    return f"Install the CUDA toolkit, or set CUDA_HOME, or run `{command_for_packages(*CUDA_PACKAGES)}`."


@dataclass(frozen=True, slots=True)
class NvccToolchain:
    """nvcc, with all that it takes to run it: a compiler for `*.cu.j2` alone, otherwise like `Toolchain`.

    `clangxx` is the host compiler that nvcc calls. `identity` is that of nvcc and the host compiler. Only the paths of
    the workspace are shortened in the store: artifacts of CUDA are not handed from machine to machine.
    """

    source: str
    nvcc: Path
    clangxx: Path
    version: str
    host_version: str
    cutlass: HeaderLibrary | None
    identity: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    hip_arguments: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    cpp_arguments: tuple[str, ...] = ()
    link_arguments: tuple[str, ...] = ()
    openmp: bool = False
    workspace: Path | None = None

    @property
    def hipcc(self) -> Path:
        """The compiler of device code."""
        return self.nvcc

    @property
    def clang_version(self) -> str:
        """The name of this compiler for readers."""
        return f"nvcc {self.version}"

    @property
    def include_folders(self) -> tuple[Path, ...]:
        """CUTLASS's headers; nvcc knows its own."""
        return () if self.cutlass is None else (self.cutlass.folder,)

    feature_folders = include_folders

    @property
    def roots(self) -> Mapping[str, Path]:
        """The workspace's folder, where there is one."""
        return {} if self.workspace is None else {"workspace": self.workspace}


def _package_folders(name: str) -> list[Path]:
    """Return the folders of a package of this Python, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec is not None else []


def find_nvcc(
    env: Mapping[str, str] | None = None,
    *,
    usual: Path = Path("/usr/local/cuda"),
    packages: Callable[[str], list[Path]] = _package_folders,
) -> NvccToolchain:
    """The nvcc that this environment leads to, or the folders of Python's `packages`.

    Raises `ToolchainError` when there is none, with the places that were searched, when it does not run, and when it
    has no host compiler.
    """
    env = os.environ if env is None else env
    looked: list[str] = []
    for source, nvcc in _candidates(env, usual, packages):
        if nvcc is not None and os.access(nvcc, os.X_OK) and nvcc.is_file():
            return _assemble(source, nvcc, env, packages)
        looked.append(f"{source}: {'not set' if nvcc is None else f'no {nvcc}'}")
    raise ToolchainError("no CUDA compiler found\n" + "\n".join(f"  {line}" for line in looked), cuda_install_hint())


def find_cutlass(packages: Callable[[str], list[Path]] = _package_folders) -> HeaderLibrary | None:
    """The headers of the package `nvidia-cutlass` in this Python, None where it is not installed."""
    for folder in packages("cutlass_library"):
        include = folder / "source/include"
        if (include / "cutlass/cutlass.h").is_file():
            return HeaderLibrary(include, _cutlass_version(include), "the package nvidia-cutlass")
    return None


def _candidates(
    env: Mapping[str, str], usual: Path, packages: Callable[[str], list[Path]]
) -> Iterator[tuple[str, Path | None]]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        root = env.get(variable)
        yield variable, Path(root).absolute() / "bin/nvcc" if root else None
    on_path = shutil.which("nvcc", path=env.get("PATH", os.defpath))
    yield "nvcc on PATH", Path(on_path).absolute() if on_path else None
    yield str(usual), usual / "bin/nvcc"
    found = [nvcc for folder in packages("nvidia") for nvcc in sorted(folder.glob("cu*/bin/nvcc"), reverse=True)]
    yield "the package nvidia-cuda-nvcc", found[0] if found else None


def _assemble(source: str, nvcc: Path, env: Mapping[str, str], packages: Callable[[str], list[Path]]) -> NvccToolchain:
    environment = without_hidden_inputs(env)
    chosen = environment.pop("NVCC_CCBIN", "")
    named = shutil.which(chosen or "g++", path=env.get("PATH", os.defpath))
    if named is None:
        fix = "Set NVCC_CCBIN to an installed C++ compiler." if chosen else "apt-get install g++"
        raise ToolchainError(f"nvcc needs a C++ compiler for the host, and there is no {chosen or 'g++'}", fix)
    host = Path(named)
    cache = ProbeCache(installations.cache_folder(env) / "probes.json")
    try:
        printed = _asked(cache, nvcc, environment)
        host_printed = _asked(cache, host, environment)
    finally:
        cache.save()
    version = re.search(r"release [\d.]+, V([\d.]+)", printed)
    content = f"{printed}\n{host_printed}"
    return NvccToolchain(
        source=source,
        nvcc=nvcc,
        clangxx=host,
        version=version[1] if version else "of an unknown version",
        host_version=host_printed.splitlines()[0] if host_printed else "unknown",
        cutlass=find_cutlass(packages),
        identity="nvcc-" + hashlib.sha256(content.encode()).hexdigest()[:27],
        arguments=("-ccbin", str(host)) if chosen else (),
        environment=MappingProxyType(environment),
    )


def _asked(cache: ProbeCache, program: Path, environment: Mapping[str, str]) -> str:
    """Return a program's version; a wrapper may start another program, so that program is asked too."""
    beside = program.resolve().with_name("ptxas")
    return cache.ask(
        f"{program.name} --version",
        [program.resolve(), beside],
        lambda: ask_program([str(program), "--version"], environment),
    )


def _cutlass_version(include: Path) -> str | None:
    try:
        text = read_file(include / "cutlass/version.h").decode(errors="replace")
    except OSError:
        return None
    found = dict(re.findall(r"#define CUTLASS_(MAJOR|MINOR|PATCH) +(\d+)", text))
    return ".".join(found[name] for name in ("MAJOR", "MINOR", "PATCH")) if len(found) == 3 else None
