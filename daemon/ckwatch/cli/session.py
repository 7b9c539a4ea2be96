"""What commands share: the workspace they are about, the toolchain, and how many compilers fit the machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ckwatch.build.selection import (
    NATIVE_ARCH,
    Words,
    only_unit,
    resolved,
    select,
    sort_words,
    with_native_arch,
)
from ckwatch.config.archs import ARCHS, why_unknown
from ckwatch.config.workspace import Workspace, find_workspace, load_workspace
from ckwatch.errors import CkwatchError
from ckwatch.model.kernel import Kernel, Unit

COMPILER_MEMORY_BYTES = 2_500_000_000
"""Peak of one hipcc on a CK GEMM instance, measured at 1.5 to 2.2 GB, rounded up."""


@dataclass(frozen=True, slots=True)
class Session:
    """A command's workspace and the units it means."""

    workspace: Workspace
    units: tuple[Unit, ...]


def open_session(options: argparse.Namespace, words: Sequence[str]) -> Session:
    """Load the workspace of `-C`, else of the first path among `words`, else of the working directory.

    Raises CkwatchError when there is none, or for a word that means no unit.
    """
    here = Path.cwd()
    sorted_words = sort_words(words, here)
    start = options.workspace or sorted_words.start or here
    root = find_workspace(start)
    workspace = load_workspace(root)
    if not workspace.kernels and workspace.errors:
        return Session(workspace, ())
    # The workspace's own folder means everything in it, also when it has no kernel yet.
    folders = tuple(folder for folder in sorted_words.folders if folder != root.resolve())
    whole = len(folders) < len(sorted_words.folders)
    chosen = Words((), ()) if whole else Words(folders, sorted_words.patterns)
    kernels, archs = known_archs(workspace, options.arch)
    try:
        return Session(workspace, tuple(select(kernels, chosen, archs)))
    except CkwatchError:
        if workspace.errors:  # the word may mean a kernel that was left out because of them
            return Session(workspace, ())
        raise


def one_unit(options: argparse.Namespace, workspace: Workspace) -> Unit:
    """The unit that `options.unit` names. Raises CkwatchError when there are several or none."""
    kernels, archs = known_archs(workspace, options.arch)
    return only_unit(kernels, options.unit, Path.cwd(), archs)


def known_archs(workspace: Workspace, archs: Sequence[str]) -> tuple[list[Kernel], tuple[str, ...]]:
    """The workspace's kernels and `--arch`, with `native` resolved. Raises CkwatchError for an arch not known."""
    for arch in archs:
        why = why_unknown(arch)
        if why is not None:
            raise CkwatchError(why[0], f"known archs: {', '.join(ARCHS)}, native")
    if NATIVE_ARCH not in archs and not any(NATIVE_ARCH in kernel.archs for kernel in workspace.kernels):
        return list(workspace.kernels), tuple(archs)
    from ckwatch.toolchain.devices import amd_devices

    present = next((device.arch for device in amd_devices()), None)
    return with_native_arch(workspace.kernels, archs, present), resolved(archs, present or NATIVE_ARCH)


def default_jobs() -> int:
    """Compilers at a time: one per core, as far as memory goes."""
    cores = len(os.sched_getaffinity(0))
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return cores
    return max(1, min(cores, available // COMPILER_MEMORY_BYTES))
