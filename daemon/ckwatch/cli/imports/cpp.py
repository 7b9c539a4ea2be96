"""`ckwatch import cpp FILE`: a kernel file and a template from a program of Composable Kernel."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ckwatch.cli.command_words import dependency
from ckwatch.cli.imports.ck_convolutions import convolution_text
from ckwatch.cli.imports.ck_gemms import OperationText, gemm_text
from ckwatch.cli.imports.ck_headers import CkHeaders
from ckwatch.cli.imports.ck_open import open_text
from ckwatch.cli.imports.ck_operations import ProgramOperation, device_operation, instantiations
from ckwatch.cli.imports.ck_rows import rows_text
from ckwatch.cli.imports.ck_tile_gemm import tile_gemm
from ckwatch.cli.imports.ck_workspace import headers_needed, imported_operation, kernel_names
from ckwatch.cli.imports.cpp_program import CppProgram, read_program
from ckwatch.cli.imports.files import read_source, without_kernels, write_files
from ckwatch.cli.imports.hip import report_open, workspace_root
from ckwatch.cli.imports.hip_workspace import Imported
from ckwatch.cli.output import Output
from ckwatch.cli.templates import own_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.headers.masked_text import masked
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.problems import did_you_mean, join_names
from ckwatch.workspace.starters import starters

_LIBRARIES = ("ck/", "ck_tile/", "hip/")
_WITHOUT_OPERATION = (
    "names no device operation of Composable Kernel (`using NAME = ck::tensor_operation::device::Device…<…>;`)"
)


def run(options: argparse.Namespace) -> int:
    """Write the files of each device operation, and say what they leave open."""
    folders = _folders(options)
    macros = {name: value or "1" for name, _, value in (one.partition("=") for one in options.define)}
    program = read_program(options.file, read_source, folders, macros)
    tiles = _tile_files(options, program)
    if tiles is not None:
        return _write(options, tiles)
    headers = _headers(options, folders)
    for header in program.includes:
        if header.quoted and not header.name.startswith(_LIBRARIES) and not headers.has(header.name):
            where = f"{header.file}:{header.line}"
            raise CkwatchError(f"{where}: there is no {header.name}", "-I gives the folder that it is in")
    operations, notes = _operations(options, program, headers)
    for one in operations:
        _refuse_missing(program, headers, one)
    made = _imported(program, headers, operations, [f"-D{one}" for one in options.define])
    made[0].notes.extend(notes)
    return _write(options, made)


def _tile_files(options: argparse.Namespace, program: CppProgram) -> list[Imported] | None:
    """The files for a program of CK Tile; None for another."""
    if not re.search(r"\bck_tile::", program.code) or re.search(r"\btensor_operation::device::", program.code):
        return None
    if options.operation:
        raise CkwatchError("--operation is for programs of Composable Kernel's device operations, not of CK Tile")
    made = tile_gemm(program, kernel_names(program.path, [[]])[0], [f"-D{one}" for one in options.define])
    return None if made is None else [made]


def _write(options: argparse.Namespace, made: Sequence[Imported]) -> int:
    root = workspace_root(options)
    workspace = without_kernels(root) if (root / FILE_NAME).is_file() else None
    templates = root / "templates" if workspace is None else own_folder(workspace)
    files = {} if workspace else {root / FILE_NAME: starters()[0].folder.joinpath(FILE_NAME).read_text("utf-8")}
    for kernel in made:
        files[templates / f"{kernel.name}.hip.j2"] = kernel.template
        files[root / "kernels" / f"{kernel.name}.kernel.toml"] = kernel.kernel_file
        if kernel.reference is not None:
            files[root / "kernels" / f"{kernel.name}_reference.py"] = kernel.reference
    write_files(files, force=options.force)
    _report(Output(options, root), files, made)
    return 0


def _folders(options: argparse.Namespace) -> list[Path]:
    for folder in options.include:
        if not folder.is_dir():
            raise CkwatchError(f"-I {folder}: there is no such folder")
    return [Path(os.path.abspath(folder)) for folder in options.include]  # noqa: PTH100


def _headers(options: argparse.Namespace, folders: Sequence[Path]) -> CkHeaders:
    """CK's headers, of a folder that is given or of the toolchain."""
    for folder in folders:
        if (folder / "ck/ck.hpp").is_file():
            return CkHeaders(folder, f"in {folder}")
    try:
        toolchain = dependency(options, "discover", discover)()
    except ToolchainError as error:
        raise CkwatchError(f"Composable Kernel's headers are needed: {error}", "-I gives their folder") from None
    if toolchain.ck is None:
        raise CkwatchError(
            "Composable Kernel's headers are needed", "`ckwatch toolchain install`, or -I with their folder"
        )
    return CkHeaders(toolchain.ck.folder, toolchain.ck.version or f"in {toolchain.ck.folder}")


def _operations(
    options: argparse.Namespace, program: CppProgram, headers: CkHeaders
) -> tuple[list[ProgramOperation], list[str]]:
    """The operations that are named; else those that the program uses, and a note on the others."""
    known = instantiations(program, headers)
    names = list(dict.fromkeys(name for one in known for name in one.names))
    for name in options.operation:
        if name not in names:
            shown = f"{did_you_mean(name, names)}there are {join_names(names)}" if names else _advice(program)
            raise CkwatchError(f"{options.file} has no device operation `{name}`", shown)
    wanted = [(one, name) for one in known for name in one.names if name in options.operation]
    notes = []
    if not wanted:
        wanted = [(one, one.name) for one in known if one.used] or [(one, one.name) for one in known]
        if others := [one.name for one in known if one not in [chosen for chosen, _ in wanted]]:
            notes.append(f"not used by the program: {join_names(others)}; --operation NAME takes another")
    found = [device_operation(program, headers, one, name) for one, name in wanted]
    operations = [one for one in found if one is not None]
    if not operations:
        raise CkwatchError(f"{options.file} {_WITHOUT_OPERATION}", _advice(program))
    return operations, notes


def _advice(program: CppProgram) -> str | None:
    if re.search(r"\bDeviceOperationInstanceFactory\b", program.code):
        return "it takes instances from CK's library: `ckwatch import ck4inductor` writes kernel files of those"
    if re.search(r"\b__global__\b", program.code):
        return f"it has `__global__` functions: `ckwatch import hip {program.path}` takes those"
    if re.search(r"\bDevice\w+\s*<|=\s*(?:\w+::)*Device\w+", masked(read_source(program.path))):
        return "one stands in a branch of `#if` that does not count: -D NAME gives the macros that it is compiled with"
    return None


def _refuse_missing(program: CppProgram, headers: CkHeaders, operation: ProgramOperation) -> None:
    needed = headers_needed(program.includes, operation)
    for one in program.includes:
        if one.name in needed and not headers.has(one.name):
            raise CkwatchError(f"{one.file}:{one.line}: Composable Kernel {headers.version} has no header {one.name}")


def _imported(
    program: CppProgram, headers: CkHeaders, operations: Sequence[ProgramOperation], flags: Sequence[str]
) -> list[Imported]:
    texts = [_text(program, one, headers) for one in operations]
    groups: list[list[ProgramOperation]] = []
    by_text: dict[str, list[ProgramOperation]] = {}
    first: list[OperationText] = []
    for one, text in zip(operations, texts, strict=True):
        key = repr((one.called, text, [(a.parameter, a.scope, a.value is None and a.text) for a in one.arguments]))
        if key not in by_text:
            groups.append(by_text.setdefault(key, []))
            first.append(text)
        by_text[key].append(one)
    names = kernel_names(program.path, groups)
    return [
        imported_operation(program, name, group, text, flags)
        for name, group, text in zip(names, groups, first, strict=True)
    ]


def _text(program: CppProgram, operation: ProgramOperation, headers: CkHeaders) -> OperationText:
    for kind in (gemm_text, convolution_text, rows_text, open_text):
        text = kind(program, operation, headers.element_operation)
        if text is not None:
            return text
    raise CkwatchError(
        f"{operation.place}: {operation.template.name} takes lists that a C function cannot pass on",
        "write the template by hand: `ckwatch init --custom`",
    )


def _report(output: Output, files: Mapping[Path, str], made: Sequence[Imported]) -> None:
    open_ones = {one.name: {question.key: question.text for question in one.open} for one in made}
    output.answer(files=list(files), open=open_ones, stand_ins=[], missing_headers=[])
    for path in files:
        output.text(f"wrote {path}")
    for one in made:
        for note in one.notes:
            output.text(f"{one.name}: {note}", "dim")
        report_open(output.text, one, answers=False)
