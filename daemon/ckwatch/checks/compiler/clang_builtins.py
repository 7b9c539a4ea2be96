"""Words errors of headers that were written for another clang: its builtins for AMD GPUs come, and change their types,
and what it makes of the operands of inline assembly is no instruction.

Up to clang 22 these take and return vectors of GCC's kind, to which any of the same size converts; since clang 23 they
are OpenCL's, which convert to no others. Composable Kernel 1.2.0 counts on the former.
"""

from __future__ import annotations

import re

from ckwatch.checks.clang_output import ClangMessage
from ckwatch.checks.compiler.sources import Sources

_BUILTIN = re.compile(r"\b__builtin_amdgcn_\w+")
_UNKNOWN = re.compile(r"use of undeclared identifier '(__builtin_amdgcn_\w+)'")
_OTHER_VECTOR = re.compile(r"cannot initialize an? .*\(vector of \d+ ")
_ASSEMBLED = re.compile(r"instantiated into assembly here\W*([a-z]\w+)")
_LINES_OF_CALL = 4


def of_other_clang(message: ClangMessage, sources: Sources) -> str | None:
    """The sentence for an error of a header, not the user's, that this clang's builtins do not fit; else None."""
    if not message.is_error or message.position is None or sources.is_users(message.path):
        return None
    unknown = _UNKNOWN.match(message.text)
    if unknown is not None:
        return f"this clang has no `{unknown[1]}`, which {message.path} calls: a newer one does"
    made = next((found for note in message.notes if (found := _ASSEMBLED.match(note.text))), None)
    if made is not None and "GPU" not in message.text:
        what = f"`{made[1]}` of {message.path} ({message.text})"
        return f"this clang cannot assemble {what}; clang 21 and 22 assemble Composable Kernel 1.2.0"
    builtin = _called_at(message, sources) if _OTHER_VECTOR.match(message.text) else None
    if builtin is None:
        return None
    return f"`{builtin}` of this clang has other vectors than {message.path} gives it; those of clang up to 22 convert"


def _called_at(message: ClangMessage, sources: Sources) -> str | None:
    """The builtin that is called in the lines around a message, if there is one."""
    if message.position is None:
        return None
    at = message.position.line - 1
    for number in (at, *range(at - 1, at - _LINES_OF_CALL, -1), at + 1):
        found = _BUILTIN.search(sources.line_at(message.path, number) or "") if number >= 0 else None
        if found is not None:
            return found[0]
    return None
