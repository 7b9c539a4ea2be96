"""What a compiler said, at template and kernel-file positions."""

from __future__ import annotations

from ckwatch.compile.request import BuildResult
from ckwatch.diagnostics.clang_text import parse_log
from ckwatch.diagnostics.mapping import diagnose
from ckwatch.diagnostics.nvcc_text import parse_nvcc_log
from ckwatch.diagnostics.places import ReadLine
from ckwatch.diagnostics.rebase import AnchoredText, rebase
from ckwatch.fingerprint import TokenIndex
from ckwatch.model.diagnostic import Diagnostic, Severity, Source
from ckwatch.model.kernel import Unit
from ckwatch.model.language import Language, language_of
from ckwatch.render.outcome import Rendered

LOG_SHOWN = 4000
"""Characters of a log that go with a fault of the host."""


def placed(
    unit: Unit, rendered: Rendered, result: BuildResult, read_line: ReadLine, *, header_warnings: bool
) -> tuple[Diagnostic, ...]:
    """The messages of a build; at least one error where it failed.

    A log from the store may speak of a text that differs in blanks and comments: its places are moved.
    """
    found = heard(unit, rendered, result.log, read_line, header_warnings=header_warnings, source=result.source_text)
    if result.fault is not None:
        return (*found, _fault(unit, result, result.fault.value))
    if result.ok or any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        return found
    return (*found, _unexplained(unit, result))


def heard(
    unit: Unit, rendered: Rendered, log: str, read_line: ReadLine, *, header_warnings: bool, source: str | None = None
) -> tuple[Diagnostic, ...]:
    """The messages in `log`, also while more may come; `source` is the text that it speaks of, if not the rendered."""
    language = language_of(unit.kernel.template)
    path = language.source_name
    messages = parse_nvcc_log(log) if language is Language.CU else parse_log(log)
    if messages and source is not None and source != rendered.text:
        messages = rebase(messages, path=path, old=_anchored(source), new=_anchored(rendered.text))
    return diagnose(
        messages,
        unit=unit,
        source_path=path,
        source_map=rendered.source_map,
        read_line=read_line,
        header_warnings=header_warnings,
    )


def _anchored(text: str) -> AnchoredText:
    return AnchoredText(text, TokenIndex(text))


def _fault(unit: Unit, result: BuildResult, fault: str) -> Diagnostic:
    return Diagnostic(
        Severity.ERROR,
        Source.HOST,
        f"host/{fault.replace(' ', '-')}",
        f"{result.message or fault}; this says nothing of the kernel and is tried again next time",
        unit.instance.span,
        detail=result.log[-LOG_SHOWN:],
    )


def _unexplained(unit: Unit, result: BuildResult) -> Diagnostic:
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
