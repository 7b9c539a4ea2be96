"""Compiles of a rendered unit: the request, from the workspace's settings, and the diagnostics of its result.

Diagnostics stand at template and kernel-file positions, also while the compiler is still running.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import ckwatch_templates
from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.compiler.diagnose import diagnose
from ckwatch.checks.compiler.sources import NO_INPUTS, CompilerInputs
from ckwatch.checks.line_directives import without_line_directives
from ckwatch.checks.line_table_places import with_line_table_places
from ckwatch.checks.nvcc_output import parse_nvcc_log
from ckwatch.checks.places import ReadLine
from ckwatch.checks.rebase import rebase
from ckwatch.compile.request import BuildOutcome, CompileFault, CompileRequest
from ckwatch.compile.toolchain.composable_kernel import CK_INSTALL_COMMAND
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.model.compiler_flags import absolute_flags, define_flag, flag_groups, folder_of, given_flags
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.targets import Language, language_of
from ckwatch.render.outcome import Rendered, folders_of
from ckwatch.workspace.loading import Workspace


def compile_request(
    workspace: Workspace, unit: Unit, rendered: Rendered, *, awaited: bool = False, lines: bool = False
) -> CompileRequest:
    """The compile of one rendered unit. One that somebody waits for (`awaited`) does not make way for others."""
    settings, root = workspace.settings.compile, str(workspace.root)
    return CompileRequest(
        source=rendered.text,
        symbol=rendered.symbol,
        language=language_of(unit.kernel.template),
        arch=unit.arch,
        flags=(*absolute_flags(settings.flags, root), *absolute_flags(unit.kernel.flags, root)),
        defines=tuple(define_flag(name, value) for name, value in settings.defines.items()),
        include_folders=own_include_folders(workspace, unit, rendered),
        timeout_s=settings.timeout_s,
        stalled_s=settings.stalled_s,
        nice=0 if awaited else settings.nice,
        kernel=unit.kernel.name,
        lines=lines,
    )


def has_all_headers(toolchain: Toolchain | NvccToolchain) -> bool:
    """Return True if no text can lack headers of AMD's libraries."""
    return not isinstance(toolchain, Toolchain) or (toolchain.ck is not None and toolchain.ck_tile is not None)


def lacking_headers(toolchain: Toolchain | NvccToolchain, workspace: Workspace, unit: Unit, rendered: Rendered) -> str:
    """The library of AMD's that the text includes and no folder of headers holds, and how to get it. Blocks; call from
    a worker thread.

    As of ROCm 7.14, Composable Kernel is a package of its own.
    """
    if not isinstance(toolchain, Toolchain) or language_of(unit.kernel.template) is not Language.HIP:
        return ""
    for name, found in (("ck", toolchain.ck), ("ck_tile", toolchain.ck_tile)):
        included = None if found is not None else re.search(_INCLUDE_OF.format(name), rendered.text, re.MULTILINE)
        if included is None:
            continue
        flags = [flag.text for flag in compiler_inputs(workspace, unit, rendered).flags]
        given = [folder_of(group) or "" for _, group in flag_groups(flags)]
        folders = [*map(str, own_include_folders(workspace, unit, rendered)), *filter(None, given), *_SYSTEM_FOLDERS]
        if not any(Path(folder, included[1]).is_file() for folder in folders):
            return (
                f"{toolchain.title} has no headers of Composable Kernel (`{name}/`): run `{CK_INSTALL_COMMAND}`, "
                f"or name a folder that has them with `{name}` in [toolchain] of ckwatch.toml"
            )
    return ""


_INCLUDE_OF = r'^[ \t]*#[ \t]*include[ \t]*[<"]({}/[^>"\n]+)[>"]'
_SYSTEM_FOLDERS = ("/usr/local/include", "/usr/include")


def own_include_folders(workspace: Workspace, unit: Unit, rendered: Rendered) -> tuple[Path, ...]:
    """Return the folders in which the workspace's headers are looked for: beside the templates that took part, in the
    folders of templates, beside the kernel file, and the workspace's folder."""
    return _own_folders(rendered.folders, workspace.template_folders, unit.kernel.path, workspace.root)


@lru_cache(maxsize=256)
def _own_folders(
    read: tuple[str, ...], template_folders: tuple[Path, ...], kernel_file: str, root: Path
) -> tuple[Path, ...]:
    named = (*read, *map(str, template_folders), *folders_of([kernel_file]))
    built_in = str(ckwatch_templates.ROOT)
    own = (folder for folder in named if folder != built_in and not folder.startswith(f"{built_in}/"))
    return tuple(map(Path, dict.fromkeys((*own, str(root)))))


LOG_EXCERPT_CHARACTERS = 4000
"""Characters of a log that go with a fault of the host."""


def compiler_inputs(
    workspace: Workspace,
    unit: Unit,
    rendered: Rendered,
    toolchain: Toolchain | NvccToolchain | None = None,
    worked: Mapping[str, ParameterValue] | None = None,
) -> CompilerInputs:
    """Return the inputs of a unit's compiler besides the rendered text, to place messages about it."""
    root = str(workspace.root)
    kernel = unit.kernel
    flags = (*workspace.flags, *given_flags(kernel.flags, kernel.flag_spans, root))
    given = (folder_of(group) for _, group in flag_groups([flag.text for flag in flags]) if group[0][:2] == "-I")
    folders = (*map(str, own_include_folders(workspace, unit, rendered)), *(folder for folder in given if folder))
    libraries = (toolchain.libraries, toolchain.hip_include) if isinstance(toolchain, Toolchain) else ()
    named = tuple(str(folder) for folder in libraries if folder is not None)
    return CompilerInputs(flags, folders, str(ckwatch_templates.ROOT), named, workspace.arch_spans, worked)


def build_diagnostics(
    unit: Unit,
    rendered: Rendered,
    result: BuildOutcome,
    read_line: ReadLine,
    *,
    header_warnings: bool,
    inputs: CompilerInputs = NO_INPUTS,
) -> tuple[Diagnostic, ...]:
    """The messages of a build; at least one error where it failed.

    A log from the store may speak of a text that differs in blanks and comments: its places are moved.
    """
    found = live_diagnostics(
        *(unit, rendered, result.log, read_line),
        header_warnings=header_warnings,
        source=result.source_text,
        inputs=inputs,
    )
    if result.fault is CompileFault.UNREADABLE_HEADER and found:
        return found
    if result.fault is not None:
        return (*found, _host_fault(unit, result, result.fault.value))
    if result.ok or any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        return found
    return (*found, _unexplained_failure(unit, result))


def live_diagnostics(
    unit: Unit,
    rendered: Rendered,
    log: str,
    read_line: ReadLine,
    *,
    header_warnings: bool,
    source: str | None = None,
    inputs: CompilerInputs = NO_INPUTS,
) -> tuple[Diagnostic, ...]:
    """The messages in `log`, also while more may come; `source` is the text that it speaks of, if not the rendered."""
    language = language_of(unit.kernel.template)
    path = language.source_name
    messages = parse_nvcc_log(log) if language is Language.CU else with_line_table_places(parse_clang_log(log))
    if messages:
        messages = without_line_directives(messages, path, rendered.text if source is None else source)
    if messages and source is not None and source != rendered.text:
        messages = rebase(messages, path=path, old=source, new=rendered.text)
    return diagnose(
        messages,
        unit=unit,
        source_path=path,
        source_map=rendered.source_map,
        read_line=read_line,
        header_warnings=header_warnings,
        inputs=inputs,
    )


def _host_fault(unit: Unit, result: BuildOutcome, fault: str) -> Diagnostic:
    return Diagnostic(
        Severity.ERROR,
        Source.HOST,
        f"host/{fault.replace(' ', '-')}",
        f"{result.message or fault}; this says nothing of the kernel and is tried again next time",
        unit.instance.span,
        detail=result.log[-LOG_EXCERPT_CHARACTERS:],
    )


def _unexplained_failure(unit: Unit, result: BuildOutcome) -> Diagnostic:
    """A failed compile must show something, whatever the compiler printed."""
    nvcc = language_of(unit.kernel.template) is Language.CU
    last = next((line for line in reversed(result.log.splitlines()) if line.strip()), "it printed nothing")
    return Diagnostic(
        Severity.ERROR,
        Source.NVCC if nvcc else Source.CLANG,
        f"{'nvcc' if nvcc else 'clang'}/unexplained",
        f"the compiler failed: {last}",
        unit.instance.span,
        detail=result.log,
    )
