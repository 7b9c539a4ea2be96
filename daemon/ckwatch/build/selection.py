"""Which units a command means.

A word on the command line is a folder, a kernel file, or a pattern for a kernel's name (`gemm_f16`), an instance
(`gemm_f16/v3_*`) or a unit (`gemm_f16/v3_256x256@gfx942`).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ckwatch.errors import CkwatchError
from ckwatch.model.kernel import Kernel, Unit

HOST_ARCH = "host"
NATIVE_ARCH = "native"


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a command line, sorted by kind; folders and files are absolute."""

    folders: tuple[Path, ...]
    patterns: tuple[str, ...]

    @property
    def start(self) -> Path | None:
        """Where to look for the workspace; None for the working directory."""
        if not self.folders:
            return None
        first = self.folders[0]
        return first if first.is_dir() else first.parent


def sort_words(words: Sequence[str], working_folder: Path) -> Words:
    """Tell paths from patterns. A word with a path's look that does not exist is a pattern, and will match nothing."""
    paths: list[Path] = []
    patterns: list[str] = []
    for word in words:
        path = (working_folder / word).resolve()
        if path.exists() and (path.is_dir() or path.name.endswith(".kernel.toml")):
            paths.append(path)
        else:
            patterns.append(word)
    return Words(tuple(paths), tuple(patterns))


def units_of(kernel: Kernel, archs: Sequence[str] = ()) -> list[Unit]:
    """Every unit of `kernel`; `archs` replaces the kernel file's archs, except for host templates."""
    chosen = kernel.archs if not archs or kernel.archs == (HOST_ARCH,) else tuple(archs)
    return [Unit(kernel, instance, arch) for instance in kernel.instances for arch in chosen]


def with_native_arch(kernels: Sequence[Kernel], archs: Sequence[str], present: str | None) -> list[Kernel]:
    """`kernels` with `native` replaced by `present`, the arch of this machine's GPU; `archs` as in `units_of`.

    Raises CkwatchError when `native` is asked for and there is no GPU.
    """
    asked = NATIVE_ARCH in archs or (not archs and any(NATIVE_ARCH in kernel.archs for kernel in kernels))
    if asked and present is None:
        raise CkwatchError("`native` means this machine's AMD GPU, and there is none", "name an arch, such as gfx942")
    if present is None:
        return list(kernels)
    return [replace(kernel, archs=resolved(kernel.archs, present)) for kernel in kernels]


def resolved(archs: Sequence[str], present: str) -> tuple[str, ...]:
    """`archs` with `native` replaced by `present`, each once."""
    return tuple(dict.fromkeys(present if arch == NATIVE_ARCH else arch for arch in archs))


def select(kernels: Sequence[Kernel], words: Words, archs: Sequence[str] = ()) -> list[Unit]:
    """The units that the words mean, in the order of the kernel files. Raises CkwatchError for a word without units."""
    units = [unit for kernel in kernels for unit in units_of(kernel, archs)]
    for folder in words.folders:
        if not any(_lies_in(unit, folder) for unit in units):
            raise CkwatchError(f"no kernel in '{folder}'", "a kernel file is called NAME.kernel.toml")
    for pattern in words.patterns:
        if not any(matches(unit, pattern) for unit in units):
            raise CkwatchError(f"no kernel, instance or unit is called '{pattern}'", _suggestion(units, pattern))
    if not words.folders and not words.patterns:
        return units
    return [
        unit
        for unit in units
        if any(_lies_in(unit, folder) for folder in words.folders) or any(matches(unit, p) for p in words.patterns)
    ]


def matches(unit: Unit, pattern: str) -> bool:
    """Whether `pattern` names the unit's kernel, instance or the unit itself."""
    name = f"{unit.kernel.name}/{unit.instance.name}"
    return any(fnmatchcase(candidate, pattern) for candidate in (unit.kernel.name, name, unit.id))


def only_unit(kernels: Sequence[Kernel], word: str, working_folder: Path, archs: Sequence[str] = ()) -> Unit:
    """The one unit that `word` means. Raises CkwatchError when there are several or none."""
    units = select(kernels, sort_words([word], working_folder), archs)
    if len(units) > 1:
        shown = ", ".join(unit.id for unit in units[:5]) + (", …" if len(units) > 5 else "")
        raise CkwatchError(f"'{word}' means {len(units)} units", f"name one of them: {shown}")
    return units[0]


def _lies_in(unit: Unit, path: Path) -> bool:
    return Path(unit.kernel.path).resolve().is_relative_to(path)


def _suggestion(units: Sequence[Unit], pattern: str) -> str:
    names = dict.fromkeys(
        name for unit in units for name in (unit.kernel.name, f"{unit.kernel.name}/{unit.instance.name}", unit.id)
    )
    near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean '{near[0]}'?"
    kernels = ", ".join(dict.fromkeys(unit.kernel.name for unit in units)) or "none"
    return f"kernels of this workspace: {kernels}"
