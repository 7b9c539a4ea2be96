"""How clang is made to print what `clang_text` reads."""

from __future__ import annotations

CLANG_DIAGNOSTIC_FLAGS: tuple[str, ...] = (
    "-fcaret-diagnostics-max-lines=1",
    "-fdiagnostics-print-source-range-info",
    "-fdiagnostics-absolute-paths",
    "-fdiagnostics-parseable-fixits",
    "-fdiagnostics-show-category=name",
    "-fno-color-diagnostics",
    "-ferror-limit=0",
    "-ftemplate-backtrace-limit=0",
)
"""Flags under which clang's text can be parsed. Carets stay on, as clang prints neither fix-its nor "expanded from
macro" without them. `-fdiagnostics-absolute-paths` prints paths without symbolic links."""
