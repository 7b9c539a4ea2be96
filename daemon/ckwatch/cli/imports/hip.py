"""`ckwatch import hip FILE [KERNEL…]`: a kernel file and a template around kernels that stay in their file."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ckwatch.checks.known_headers import header_advice
from ckwatch.cli.command_words import dependency
from ckwatch.cli.imports.compile_commands import flags_for, nearest_database
from ckwatch.cli.imports.files import read_source, without_kernels, write_files
from ckwatch.cli.imports.hip_kernels import HipKernel, hip_kernels
from ckwatch.cli.imports.hip_workspace import AnswerError, Imported, KernelSource, OpenQuestion, imported, questions
from ckwatch.cli.imports.launches import KernelLaunch, kernel_launches
from ckwatch.cli.imports.missing_headers import FOLDER, missing_headers, stand_ins
from ckwatch.cli.imports.source_text import Constants
from ckwatch.cli.output import Output
from ckwatch.cli.templates import own_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.headers.masked_text import masked
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.system.user_files import is_there
from ckwatch.workspace.discovery import FILE_NAME, find_workspace, in_workspace, working_folder
from ckwatch.workspace.operations.custom import CustomOutputTable
from ckwatch.workspace.problems import did_you_mean, join_names
from ckwatch.workspace.starters import starters

LISTED = 20
_MAIN = re.compile(r"\bint\s+main\s*\(")
_UNUSED_HOST_CODE = ("-ffunction-sections", "-Wl,--gc-sections")
"""Host functions of the file are left out of the artifact, and with them what they would have to be linked to."""


class _Read(NamedTuple):
    """A kernel, and how its file launches it, complete launches first."""

    kernel: HipKernel
    launches: list[KernelLaunch]


def run(options: argparse.Namespace) -> int:
    """Write the files of each kernel, and say what they leave open."""
    text = read_source(options.file)
    constants = Constants.of(masked(text))
    chosen = _chosen(options, text)
    answers = _answers(options.set)
    root = workspace_root(options)
    workspace = without_kernels(root) if (root / FILE_NAME).is_file() else None
    templates = root / "templates" if workspace is None else own_folder(workspace)
    output = Output(options, root)
    flags = _flags(options, text)
    include = os.path.relpath(options.file.absolute(), templates)
    missing, check = _missing(options, include, [*flags], [templates, root])
    texts = stand_ins([*missing])
    if texts:
        flags.append("-idirafter" + str(root / FOLDER))
        missing = _missing(options, include, flags, [templates, root], texts)[0]
    source = KernelSource(include, os.path.relpath(options.file.absolute(), root), _relative(flags, root))
    if not options.json and sys.stdin.isatty() and sys.stderr.isatty():
        _ask(chosen, constants, answers)
    try:
        made = [_imported(one, constants, source, answers) for one in chosen]
    except AnswerError as error:
        raise CkwatchError(f"--set {error}") from None
    _refuse_unused(answers, chosen, constants)
    files = _files(root, templates, made, new=workspace is None)
    files |= {path: text for name, text in texts.items() if not is_there(path := root / FOLDER / name)}
    write_files(files, force=options.force)
    _report(output, files, made, tuple(texts), missing, check)
    return 0


def _chosen(options: argparse.Namespace, text: str) -> list[_Read]:
    """The kernels that are named: by name, by a pattern, or by NAME:LINE."""
    code = masked(text)
    found = hip_kernels(text)
    if not found:
        raise CkwatchError(f"{options.file} defines no `__global__` function")
    listed = ", ".join(f"{one.name} (line {one.line})" for one in found[:LISTED])
    if len(found) > LISTED:
        listed += f" and {len(found) - LISTED} more"
    if not options.kernels and len({one.name for one in found}) > 1:
        raise CkwatchError(f"{options.file} has several kernels", f"name some, or '*' for all: {listed}")
    chosen: dict[str, HipKernel] = {}
    for pattern in options.kernels or ["*"]:
        named = [one for one in found if _is_named(one, pattern)]
        if not named:
            near = did_you_mean(pattern, [one.name for one in found])
            raise CkwatchError(f"{options.file} has no kernel `{pattern}`", f"{near}there are: {listed}")
        for one in named:
            earlier = chosen.setdefault(one.name, one)
            if _shape_of(earlier) != _shape_of(one):
                lines = f"{one.name}:{earlier.line}, {one.name}:{one.line}"
                raise CkwatchError(f"{options.file} has several kernels called `{one.name}`", f"name one: {lines}")
    return [_Read(one, kernel_launches(text, code, one)) for one in chosen.values()]


def _is_named(kernel: HipKernel, pattern: str) -> bool:
    whole = "::".join((*kernel.scope, kernel.name))
    return any(fnmatchcase(name, pattern) for name in (kernel.name, whole, f"{kernel.name}:{kernel.line}"))


def _shape_of(kernel: HipKernel) -> object:
    return [(one.type, one.pointers) for one in kernel.parameters], [one.name for one in kernel.templates], kernel.scope


def _answers(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise CkwatchError(
                f"--set {one} is not NAME=VALUE", "as in --set scalar_t=__half or --set input=rows,columns"
            )
        found[key.strip()] = value.strip()
    return found


def workspace_root(options: argparse.Namespace) -> Path:
    """The folder of the workspace to add to, or to make."""
    if options.out is not None:
        return Path(os.path.abspath(options.out))  # noqa: PTH100
    start = options.workspace or working_folder()
    return find_workspace(start) if in_workspace(Path(os.path.abspath(start))) else Path(os.path.abspath(start))  # noqa: PTH100


def _flags(options: argparse.Namespace, text: str) -> list[str]:
    """Flags with absolute folders."""
    found: list[str] = []
    database = options.database or nearest_database(options.file)
    if database is not None:
        if database.is_dir():
            database /= "compile_commands.json"
        known = flags_for(database, options.file)
        if known is None and options.database is not None:
            raise CkwatchError(f"{database} has no entry for {options.file}")
        found += known or []
    for folder in options.include:
        if not folder.is_dir():
            raise CkwatchError(f"-I {folder}: there is no such folder")
        found.append(f"-I{os.path.abspath(folder)}")  # noqa: PTH100
    found += [f"-D{define}" for define in options.define]
    if _MAIN.search(masked(text)):
        found.append("-Dmain=main_of_the_file")
    return [*found, *_UNUSED_HOST_CODE]


def _relative(flags: Sequence[str], root: Path) -> list[str]:
    """The flags with folders as seen from the workspace, which may move with what is around it."""
    found = []
    for flag in flags:
        option = next((one for one in ("-idirafter", "-I") if flag.startswith(f"{one}/")), "")
        path = flag.removeprefix(option)
        if option or flag.startswith("/"):
            found += [*([option] if option == "-idirafter" else []), *_joined(option, os.path.relpath(path, root))]
        else:
            found.append(flag)
    return found


def _joined(option: str, path: str) -> list[str]:
    return [f"-I{path}"] if option == "-I" else [path]


def _missing(
    options: argparse.Namespace,
    include: str,
    flags: Sequence[str],
    folders: Sequence[Path],
    texts: Mapping[str, str] | None = None,
) -> tuple[dict[str, str], str]:
    """The headers that are not there, each with advice, and why that is not known. `texts` are headers that will be
    there."""
    import tempfile

    folder = Path(folders[0])
    with tempfile.TemporaryDirectory(prefix="ckwatch-stand-ins-") as work:
        for name, text in (texts or {}).items():
            path = Path(work) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        used = [flag for flag in flags if not flag.startswith(("-Wl,", "-idirafter"))]
        try:
            toolchain = dependency(options, "discover", discover)()
            line = f'#include "{os.path.normpath(folder / include)}"\n'
            names = missing_headers(line, [*used, "-idirafter", work], folders, toolchain)
            libraries = [folder for folder in (toolchain.libraries, toolchain.hip_include) if folder is not None]
            return {name: advice_on(name, libraries) for name in names}, ""
        except ToolchainError:
            return {}, "there is no toolchain, so the headers that it includes were not looked for"
        except (OSError, CkwatchError, TimeoutError) as error:
            return {}, f"the headers that it includes could not be looked for: {error}"


def _ask(chosen: Sequence[_Read], constants: Constants, answers: dict[str, str]) -> None:
    """Ask on the terminal for what the source does not say; an empty answer leaves it open."""
    asked: set[str] = set()
    while (one := _next_question(chosen, constants, answers, asked)) is not None:
        asked.add(one.key)
        sys.stderr.write(f"{one.key}: {one.text}\n  {one.key} [leave open] = ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if not (given := line.strip()):
            continue
        try:
            for read in chosen:
                questions(read.kernel, read.launches, constants, {**answers, one.key: given})
        except AnswerError as error:
            sys.stderr.write(f"  {error}\n")
            asked.discard(one.key)
            continue
        answers[one.key] = given


def _next_question(
    chosen: Sequence[_Read], constants: Constants, answers: Mapping[str, str], asked: set[str]
) -> OpenQuestion | None:
    for read in chosen:
        try:
            for one in questions(read.kernel, read.launches, constants, answers):
                if one.key not in answers and one.key not in asked:
                    return one
        except AnswerError as error:
            raise CkwatchError(f"--set {error}") from None
    return None


def _imported(read: _Read, constants: Constants, source: KernelSource, answers: Mapping[str, str]) -> Imported:
    known = CustomOutputTable.model_fields
    return imported(read.kernel, read.launches, constants, source, read.kernel.name, answers, known)


def _refuse_unused(answers: Mapping[str, str], chosen: Sequence[_Read], constants: Constants) -> None:
    known: dict[str, None] = {}
    for read in chosen:
        known |= dict.fromkeys(one.key for one in questions(read.kernel, read.launches, constants, {}))
        known |= dict.fromkeys(one.name for one in read.kernel.templates)
        known |= dict.fromkeys(one.name for one in read.kernel.parameters)
        known |= dict.fromkeys(f"{one.name}.in_out" for one in read.kernel.parameters if one.pointers and not one.const)
        known |= dict.fromkeys(f"{one.name}.strides" for one in read.kernel.parameters if one.pointers)
        known |= dict.fromkeys(f"{one.name}.dtype" for one in read.kernel.parameters if one.pointers)
        known |= dict.fromkeys(f"{one.name}.dtype" for one in read.kernel.templates if one.is_type)
        known |= dict.fromkeys(("Grid", "Block", "SharedBytes"))
        known |= dict.fromkeys(size for one in read.launches for size in one.sizes)
    sizes = {word for value in answers.values() for word in re.findall(r"[A-Za-z_]\w*", value)}
    for key in answers:
        if key not in known and key not in sizes:
            raise CkwatchError(
                f"--set {key}: nothing is called so", f"{did_you_mean(key, known)}there are {join_names(known)}"
            )


def _files(root: Path, templates: Path, made: Sequence[Imported], *, new: bool) -> dict[Path, str]:
    files = {root / FILE_NAME: starters()[0].folder.joinpath(FILE_NAME).read_text("utf-8")} if new else {}
    for one in made:
        files[templates / f"{one.name}.hip.j2"] = one.template
        files[root / "kernels" / f"{one.name}.kernel.toml"] = one.kernel_file
    return files


def _report(
    output: Output,
    files: Mapping[Path, str],
    made: Sequence[Imported],
    written_for: Sequence[str],
    missing: Mapping[str, str],
    check: str,
) -> None:
    open_ones = {one.name: {question.key: question.text for question in one.open} for one in made}
    output.answer(files=list(files), open=open_ones, stand_ins=list(written_for), missing_headers=list(missing))
    for path in files:
        if FOLDER not in path.parts:
            output.text(f"wrote {path}")
    if written_for:
        names = ", ".join(name for name in written_for if not name.startswith("torch_stand"))
        output.text(f"wrote {FOLDER}/ for headers that are not there: {names}", "yellow")
    for name, advice in missing.items():
        output.text(f"not found: {name}; {advice}", "yellow")
    if check:
        output.text(check, "yellow")
    for one in made:
        for note in one.notes:
            output.text(f"{one.name}: {note}", "dim")
        report_open(output.text, one)


def advice_on(header: str, libraries: Sequence[Path]) -> str:
    """Say what to do about a header that is not there; `libraries` are folders in which those of ROCm lie."""
    known = header_advice(header, lambda name: any((folder / name).is_file() for folder in libraries))
    return known or "give the folder that has it with -I, or a define with -D under which it is not included"


def report_open(write: Callable[..., None], one: Imported, *, answers: bool = True) -> None:
    """Say what a kernel leaves open, and what to do next."""
    if not one.open:
        write(f"{one.name}: nothing is open; next: `ckwatch check {one.name}`")
        return
    write(
        f"{one.name}: {count(len(one.open), 'line')} open, each marked `# ckwatch: say …` in its kernel file:", "yellow"
    )
    for question in one.open:
        write(f"  {question.key}: {question.text.removeprefix('say ')}")
    given = f", or give them here: --set {one.open[0].key}=…" if answers else ""
    write(f"fill them in there{given}; then `ckwatch check {one.name}`")
