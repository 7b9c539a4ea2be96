"""`ckwatch emulate`: runs a program whose AMD GPU is the emulator, and prints what that found in its kernels.

A source file is compiled before. Where device code has line tables, a finding is printed with its source line.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ckwatch.cli.command_words import dependency
from ckwatch.cli.diagnostic_text import diagnostic_text
from ckwatch.cli.output import SourceCache
from ckwatch.cli.trust import trusted_workspace
from ckwatch.codeobject.kernel_names import scoped_name
from ckwatch.codeobject.tools.llvm_tools import call_chains
from ckwatch.compile.store.artifacts import default_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import ToolchainChoice
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.verification import EmulatedFinding
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file
from ckwatch.verification.device import ARCH_VARIABLE, LIMIT_VARIABLE, OBJDUMP_VARIABLE
from ckwatch.verification.findings import MemoryRange, finding_of
from ckwatch.verification.library import FOLDER, build_library
from ckwatch.verification.places import place_in_program
from ckwatch.verification.program_build import FOLDER as PROGRAMS
from ckwatch.verification.program_build import build_program, hipcc_command, is_source
from ckwatch.verification.session import LIBRARIES_VARIABLE
from ckwatch.workspace.loading import load_workspace

if TYPE_CHECKING:
    from ckwatch.codeobject.source_lines import CallChain
    from ckwatch.compile.toolchain.model import Toolchain

REPORT_VARIABLE = "CKWATCH_EMULATOR_REPORT"
OBJECTS_VARIABLE = "CKWATCH_EMULATOR_OBJECTS"
_AMD_GPU = 224
"""`e_machine` of code objects."""


def run(options: argparse.Namespace) -> int:
    """Run the program: its exit status; 1 where that is 0 and a mistake was found, or where it does not compile."""
    source = is_source(options.program) and not os.access(options.program, os.X_OK)
    if problem := _why_no_source(options.program) if source else _why_no_program(options.program):
        raise CkwatchError(f"{options.program} cannot be {'compiled' if source else 'run'}: {problem}")
    if not source and (options.flags or options.print_command):
        given = "--print-command" if options.print_command else "--flags"
        raise CkwatchError(f"{given} is for a source file, and {options.program} is a program")
    choice: ToolchainChoice | None = None
    store = default_folder()
    root = trusted_workspace(options)
    if root is not None:
        settings = load_workspace(root).settings
        choice, store = settings.toolchain, settings.store.folder or store
    toolchain = dependency(options, "discover", discover)(choice)
    program = options.program
    if source:
        own = options.parser.own_options
        if mistaken := next((one for one in options.arguments if one.partition("=")[0] in own), None):
            _tell(f"note: the program gets {mistaken}: options of ckwatch stand before {options.program}")
        compiled = _compiled(options, toolchain, store)
        if compiled is None:
            return int(not options.print_command)
        program = str(compiled)
    build = dependency(options, "build_library", build_library)
    library = anyio.run(partial(build, store / FOLDER, toolchain.clang, on_build=_tell_of_build))
    folders = [str(library.parent), *filter(None, [os.environ.get(LIBRARIES_VARIABLE)])]
    with tempfile.TemporaryDirectory(prefix="ckwatch-findings-") as folder:
        report = Path(folder) / "report"
        report.touch()
        variables = {
            ARCH_VARIABLE: options.arch,
            OBJDUMP_VARIABLE: str(toolchain.objdump),
            LIMIT_VARIABLE: str(options.instruction_limit),
            REPORT_VARIABLE: str(report),
            OBJECTS_VARIABLE: folder,
            LIBRARIES_VARIABLE: os.pathsep.join(folders),
        }
        try:
            command = [program, *options.arguments]
            status = subprocess.run(command, env=os.environ | variables, check=False).returncode  # noqa: TID251  # the program has the command's terminal
        except OSError as error:
            raise CkwatchError(f"{options.program} cannot be run: {error.strerror}") from error
        found = [json.loads(line) for line in read_file(str(report)).splitlines()]
        chains = anyio.run(_chains, Path(folder), toolchain, found)
    # Not to standard output, which is the program's.
    sources = SourceCache()
    every = [_placed(options.arch, one, chain, sources) for one, chain in zip(found, chains, strict=True)]
    for one in folded([(one["kernel"], shown) for one, shown in zip(found, every, strict=True)]):
        text = one if isinstance(one, str) else diagnostic_text(one, sources.read_line, os.getcwd())  # noqa: PTH109
        sys.stderr.write(f"{text}\n")
    return 128 - status if status < 0 else status or int(bool(found))


def _compiled(options: argparse.Namespace, toolchain: Toolchain, store: Path) -> Path | None:
    """The program of the source file; None where there is none, for reasons that are printed, or only the command."""
    source = Path(options.program).absolute()
    try:
        flags = shlex.split(options.flags)
    except ValueError as error:
        raise CkwatchError(f"--flags cannot be split into words: {error}") from error
    if options.print_command:
        words = hipcc_command(source, options.arch, flags, toolchain, source.with_suffix(""))
        print(f"HIP_PLATFORM=amd {shlex.join(words)}")
        return None
    build = partial(build_program, source, options.arch, flags, toolchain, store / PROGRAMS)
    built = anyio.run(partial(build, on_build=lambda: _tell(f"Compiling {options.program} for {options.arch} …")))
    if built.messages:
        from ckwatch.checks.compiler.source_file import source_file_diagnostics

        sources = SourceCache()
        for one in source_file_diagnostics(built.messages, str(source), sources.read_line):
            _tell(str(diagnostic_text(one, sources.read_line, os.getcwd())))  # noqa: PTH109
    if built.program is None:
        _tell(f"ckwatch: {options.program} does not compile for {options.arch}")
    return built.program


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tell_of_build() -> None:
    _tell("Building the emulator (once) …")


def _why_no_source(name: str) -> str:
    """Return why the file cannot be read; empty if it can."""
    try:
        read_file(name)
    except OSError as error:
        return error.strerror or str(error)
    return ""


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


async def _chains(
    folder: Path, toolchain: Toolchain, found: Iterable[Mapping[str, Any]]
) -> list[tuple[CallChain, CallChain]]:
    """Per finding, the calls around its instruction and around the other one; empty where nothing says them."""
    known: dict[int, dict[int, CallChain]] = {}
    chains = []
    for one in found:
        number, both = one.get("code_object", 0), _addresses(one)
        if number and number not in known:
            wanted = {
                address for other in found if other.get("code_object") == number for address in _addresses(other)
            } - {None}
            try:
                known[number] = await call_chains(folder / f"{number}.hsaco", toolchain, sorted(filter(None, wanted)))
            except ToolchainError:
                known[number] = {}
        lines = known.get(number, {})
        at, other_at = (lines.get(address, ()) if address is not None else () for address in both)
        chains.append((at, other_at))
    return chains


def _addresses(message: Mapping[str, Any]) -> tuple[int | None, int | None]:
    at, other_at = (
        None if message[name] is None else int(message["text_address"]) + message[name] for name in ("pc", "other_pc")
    )
    return at, other_at


def folded(found: Iterable[tuple[str, Diagnostic | str]]) -> Iterator[Diagnostic | str]:
    """Yield of each kernel, place and kind the first finding, and how many others there are: an unrolled loop has many
    instructions."""
    groups: dict[object, list[Diagnostic | str]] = {}
    for kernel, one in found:
        key = one if isinstance(one, str) else (kernel, one.code, one.span)
        groups.setdefault(key, []).append(one)
    for first, *others in groups.values():
        if isinstance(first, str) or not others:
            yield first
        else:
            yield replace(
                first, message=f"{first.message}; also at {count(len(others), 'other instruction')} of this place"
            )


def _placed(
    arch: str, message: Mapping[str, Any], chains: tuple[CallChain, CallChain], sources: SourceCache
) -> Diagnostic | str:
    """A finding as a diagnostic, where its line is known; else as a line of text."""
    memory = []
    if message["region_base"] is not None:
        memory = [
            MemoryRange(name="an allocation", address=int(message["region_base"]), size_bytes=message["region_size"])
        ]
    finding = finding_of(message, "", memory)
    at, other_at = (place_in_program(chain, finding.note, sources.read_line) for chain in chains)
    sentence = _sentence(finding)
    if at is None:
        return f"{arch} (emulated): {sentence}"
    other = [Related(_other(finding), other_at.span)] if other_at is not None and other_at != at else []
    calls = [
        Related(f"called from {call.function}" if call.function else "called from here", call.span) for call in at.calls
    ]
    return Diagnostic(
        severity=Severity.ERROR,
        source=Source.VERIFY,
        code=f"verify/{finding.kind}",
        message=f"{sentence} on emulated {arch}",
        span=at.span,
        related=(*calls, *other),
    )


def _other(finding: EmulatedFinding) -> str:
    what = f"`{finding.other_instruction}`" if finding.other_instruction else "the other instruction"
    return what if finding.other_wave is None else f"{what}, wave {finding.other_wave}"


def _sentence(finding: EmulatedFinding) -> str:
    where = f" at `{finding.instruction}`" if finding.instruction else ""
    lane = "" if finding.lane is None else f", lane {finding.lane}"
    who = f"workgroup {', '.join(map(str, finding.workgroup))}, wave {finding.wave}{lane}" if finding.workgroup else ""
    return f"{scoped_name(finding.kernel)}: {finding.message}{where}{who and f' ({who})'}"
