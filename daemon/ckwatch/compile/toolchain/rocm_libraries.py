"""Headers of ROCm's libraries beside the private toolchain: which there are, and where they lie.

<tree>/libraries/include/rocprim/…           searched behind Composable Kernel's headers
<tree>/libraries/doc/librocprim-dev/copyright
<tree>/libraries/ckwatch-libraries.json      what is there, written last

Headers alone: templates, device functions and declarations. Nothing here can be linked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from ckwatch.compile.toolchain.debian import upstream
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.rocm_libraries import LIBRARIES, RocmLibrary
from ckwatch.system.user_files import read_file
from ckwatch.workspace.problems import did_you_mean

MANIFEST = "ckwatch-libraries.json"
ALL = "all"
_LAYOUT = 1


_NOT_IN_DEBIAN = frozenset(
    {
        *("half", "hipcomp", "hipdnn", "hiptensor", "libhipcxx", "migraphx", "mivisionx", "rocal", "rocdecode"),
        *("rocjpeg", "rocprofiler-sdk", "rocshmem", "rpp"),
    }
)
_CALLED = {
    **dict.fromkeys(("cub", "nvidia-cub"), "hipcub"),
    "thrust": "rocthrust",
    **dict.fromkeys(("wmma", "nvcuda"), "rocwmma"),
    **{f"cu{name}": f"hip{name}" for name in ("blas", "blaslt", "rand", "fft", "sparse", "sparselt", "solver")},
    "cudnn": "miopen",
    "nccl": "rccl",
    **dict.fromkeys(("roctracer", "nvtx"), "roctx"),
}
"""Other names of a library."""


def chosen_libraries(words: Iterable[str]) -> tuple[RocmLibrary, ...]:
    """The libraries that are named, with commas between them, and those that they need, in the order of the table.

    Raises `ToolchainError` for a name that is none of them.
    """
    names = [name for word in words for name in re.split(r"[,\s]+", word.strip().lower()) if name]
    if not names:
        raise ToolchainError("--with names no library", f"There are: {', '.join((*LIBRARIES, ALL))}.")
    waiting = [known for name in names for known in ([*LIBRARIES] if name == ALL else [_known(name)])]
    chosen: set[str] = set()
    while waiting:
        name = waiting.pop()
        chosen.add(name)
        waiting += LIBRARIES[name].needs
    return tuple(library for library in LIBRARIES.values() if library.name in chosen)


def _known(name: str) -> str:
    if name in LIBRARIES:
        return name
    listed = f"There are: {', '.join((*LIBRARIES, ALL))}."
    if name in ("ck", "ck_tile", "composable_kernel", "composable-kernel", "composablekernel"):
        raise ToolchainError(f"--with {name}: Composable Kernel comes with `ckwatch toolchain install ck`", listed)
    if name in _NOT_IN_DEBIAN:
        raise ToolchainError(
            f"--with {name}: Debian has no headers of it",
            f"Get it from AMD, and give the folder of its headers with -I in `[compile] flags`. {listed}",
        )
    called = _CALLED.get(name) or _CALLED.get(name.removeprefix("lib").removesuffix("-dev"))
    near = f"did you mean `{called}`? " if called else did_you_mean(name, (*LIBRARIES, ALL))
    raise ToolchainError(f"--with {name}: no library of ROCm that can be fetched is called so", f"{near}{listed}")


@dataclass(frozen=True, slots=True)
class LibraryPackage:
    """One package whose headers are there; `library` is the one that it was fetched for."""

    library: str
    name: str
    version: str
    sha256: str


def libraries_folder(tree: Path) -> Path:
    """The folder of libraries in a private toolchain."""
    return tree / "libraries"


def include_folder(tree: Path) -> Path:
    """The folder of headers in a private toolchain, which need not be there."""
    return libraries_folder(tree) / "include"


def installed_packages(tree: Path) -> tuple[LibraryPackage, ...]:
    """The packages whose headers are there; a damaged list counts as none."""
    try:
        value = json.loads(read_file(libraries_folder(tree) / MANIFEST))
        if value["layout"] != _LAYOUT:
            return ()
        return tuple(LibraryPackage(**package) for package in value["packages"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def packages_to_json(packages: Sequence[LibraryPackage]) -> str:
    """The list of packages as it stands in the tree."""
    return json.dumps({"layout": _LAYOUT, "packages": [asdict(one) for one in packages]}, indent=2) + "\n"


def installed_libraries(tree: Path) -> dict[str, str]:
    """The version of each library whose headers are there, in the order of the table."""
    first = {one.library: upstream(one.version) for one in reversed(installed_packages(tree))}
    return {name: first[name] for name in LIBRARIES if name in first}


def libraries_in(include: Path) -> tuple[str, ...]:
    """The libraries whose headers lie in a folder that a ROCm or a distribution has filled. Looks at the folder."""
    return tuple(name for name, one in LIBRARIES.items() if (include / one.header).is_file())
