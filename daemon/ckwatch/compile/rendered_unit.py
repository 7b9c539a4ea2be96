"""Compiles of a rendered unit: the request, from the workspace's settings, and the diagnostics of its result.

Diagnostics stand at template and kernel-file positions, also while the compiler is still running.
"""

from __future__ import annotations

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.compiler_diagnostics import diagnose
from ckwatch.checks.nvcc_output import parse_nvcc_log
from ckwatch.checks.places import ReadLine
from ckwatch.checks.rebase import rebase
from ckwatch.compile.request import BuildOutcome, CompileRequest
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.targets import Language, language_of
from ckwatch.render.outcome import Rendered
from ckwatch.workspace.loading import Workspace


def compile_request(workspace: Workspace, unit: Unit, rendered: Rendered) -> CompileRequest:
    """The compile of one rendered unit."""
    settings = workspace.settings.compile
    return CompileRequest(
        source=rendered.text,
        symbol=rendered.symbol,
        language=language_of(unit.kernel.template),
        arch=unit.arch,
        flags=(*settings.flags, *unit.kernel.flags),
        defines=tuple(_define_flag(name, value) for name, value in settings.defines.items()),
        timeout_s=settings.timeout_s,
        nice=settings.nice,
        kernel=unit.kernel.name,
    )


def _define_flag(name: str, value: str | int | bool) -> str:
    if isinstance(value, bool):
        return name if value else f"{name}=0"
    return f"{name}={value}"


LOG_EXCERPT_CHARACTERS = 4000
"""Characters of a log that go with a fault of the host."""


def build_diagnostics(
    unit: Unit, rendered: Rendered, result: BuildOutcome, read_line: ReadLine, *, header_warnings: bool
) -> tuple[Diagnostic, ...]:
    """The messages of a build; at least one error where it failed.

    A log from the store may speak of a text that differs in blanks and comments: its places are moved.
    """
    found = live_diagnostics(
        unit, rendered, result.log, read_line, header_warnings=header_warnings, source=result.source_text
    )
    if result.fault is not None:
        return (*found, _host_fault(unit, result, result.fault.value))
    if result.ok or any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        return found
    return (*found, _unexplained_failure(unit, result))


def live_diagnostics(
    unit: Unit, rendered: Rendered, log: str, read_line: ReadLine, *, header_warnings: bool, source: str | None = None
) -> tuple[Diagnostic, ...]:
    """The messages in `log`, also while more may come; `source` is the text that it speaks of, if not the rendered."""
    language = language_of(unit.kernel.template)
    path = language.source_name
    messages = parse_nvcc_log(log) if language is Language.CU else parse_clang_log(log)
    if messages and source is not None and source != rendered.text:
        messages = rebase(messages, path=path, old=source, new=rendered.text)
    return diagnose(
        messages,
        unit=unit,
        source_path=path,
        source_map=rendered.source_map,
        read_line=read_line,
        header_warnings=header_warnings,
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
    last = next((line for line in reversed(result.log.splitlines()) if line.strip()), "it printed nothing")
    return Diagnostic(
        Severity.ERROR,
        Source.CLANG,
        "clang/unexplained",
        f"the compiler failed: {last}",
        unit.instance.span,
        detail=result.log,
    )
