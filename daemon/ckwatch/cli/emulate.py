"""`ckwatch emulate`: runs a program whose AMD GPU is the emulator, and prints what that found in its kernels."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from ckwatch.cli.command_words import dependency
from ckwatch.cli.toolchain import trusted_workspace
from ckwatch.codeobject.kernel_names import readable_names
from ckwatch.compile.store.artifacts import default_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import ToolchainChoice
from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file
from ckwatch.verification.device import ARCH_VARIABLE, LIMIT_VARIABLE, OBJDUMP_VARIABLE
from ckwatch.verification.findings import MemoryRange, finding_of
from ckwatch.verification.library import FOLDER, build_library
from ckwatch.workspace.loading import load_workspace

REPORT_VARIABLE = "CKWATCH_EMULATOR_REPORT"
LIBRARIES_VARIABLE = "LD_LIBRARY_PATH"
_AMD_GPU = 224
"""`e_machine` of code objects."""


def run(options: argparse.Namespace) -> int:
    """Run the program: its exit status; 1 where that is 0 and a mistake was found."""
    if problem := _why_no_program(options.program):
        raise CkwatchError(f"{options.program} cannot be run: {problem}")
    choice: ToolchainChoice | None = None
    store = default_folder()
    root = trusted_workspace(options)
    if root is not None:
        settings = load_workspace(root).settings
        choice, store = settings.toolchain, settings.store.folder or store
    toolchain = dependency(options, "discover", discover)(choice)
    build = dependency(options, "build_library", build_library)
    library = anyio.run(partial(build, store / FOLDER, toolchain.clang, on_build=_tell_of_build))
    folders = [str(library.parent), *filter(None, [os.environ.get(LIBRARIES_VARIABLE)])]
    with tempfile.NamedTemporaryFile(prefix="ckwatch-findings-") as report:
        told = {
            ARCH_VARIABLE: options.arch,
            OBJDUMP_VARIABLE: str(toolchain.objdump),
            LIMIT_VARIABLE: str(options.instruction_limit),
            REPORT_VARIABLE: report.name,
            LIBRARIES_VARIABLE: os.pathsep.join(folders),
        }
        try:
            command = [options.program, *options.arguments]
            status = subprocess.run(command, env=os.environ | told, check=False).returncode  # noqa: TID251  # the program has the command's terminal
        except OSError as error:
            raise CkwatchError(f"{options.program} cannot be run: {error.strerror}") from error
        found = [_sentence(json.loads(line)) for line in read_file(report.name).splitlines()]
    # Not to standard output, which is the program's.
    sys.stderr.writelines(f"{options.arch} (emulated): {sentence}\n" for sentence in found)
    return 128 - status if status < 0 else status or int(bool(found))


def _tell_of_build() -> None:
    print("Building the emulator (once) …", file=sys.stderr, flush=True)


def _why_no_program(name: str) -> str:
    """Why the system would not execute it; empty if it may."""
    path = name if os.sep in name else shutil.which(name)
    if path is None:
        return "no such program on PATH"
    if os.path.isdir(path):  # noqa: PTH112
        return "it is a folder"
    try:
        head = read_file(path, BINARY_LIMIT_BYTES)[:20]
    except OSError as error:  # a program need not be readable
        return "" if os.access(path, os.X_OK) else error.strerror or str(error)
    if not os.access(path, os.X_OK):
        return "it is not executable; see `chmod +x`"
    if head[:4] != b"\x7fELF":
        return "" if head[:2] == b"#!" else "it is neither a program (ELF) nor a script that begins with #!"
    kind, machine = head[16:18], int.from_bytes(head[18:20], "little")
    if kind not in (b"\2\0", b"\3\0"):
        return "it is an object file, not a program"
    return "it is device code of an AMD GPU, not a program of this machine" if machine == _AMD_GPU else ""


def _sentence(told: Mapping[str, Any]) -> str:
    memory = []
    if told["region_base"] is not None:
        memory = [MemoryRange(name="an allocation", address=int(told["region_base"]), size_bytes=told["region_size"])]
    finding = finding_of(told, "", memory)
    where = f" at `{finding.instruction}`" if finding.instruction else ""
    lane = "" if finding.lane is None else f", lane {finding.lane}"
    place = f"workgroup {', '.join(map(str, finding.workgroup))}, wave {finding.wave}{lane}"
    kernel = readable_names([finding.kernel])[finding.kernel]
    return f"{kernel}: {finding.message}{where} ({place})"
