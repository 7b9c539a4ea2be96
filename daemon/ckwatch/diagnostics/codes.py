"""Stable codes for clang's messages, whose text output carries no identifiers.

A warning has the name of its option; frequent errors have the names in `ERRORS`; the rest that of their category.
"""

from __future__ import annotations

import re

from ckwatch.diagnostics.clang_text import ClangMessage, MessageKind

ERRORS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), slug)
    for pattern, slug in (
        (r"use of undeclared", "undeclared-identifier"),
        (r"unknown type name", "unknown-type-name"),
        (r"no (?:member|type|template) named", "no-member"),
        (r"'.*' file not found", "file-not-found"),
        (r"expected '.*'|expected ", "expected-token"),
        (r"static (?:assertion|_assert) failed|static assertion", "static-assertion"),
        (r"no matching ", "no-matching-function"),
        (r"no viable ", "no-viable-conversion"),
        (r"call to .* is ambiguous|ambiguous", "ambiguous"),
        (r"too (?:few|many) template arguments", "template-argument-count"),
        (r"template argument for", "template-argument"),
        (r"too (?:few|many) arguments", "argument-count"),
        (r"implicit instantiation of undefined template", "undefined-template"),
        (r"redefinition of", "redefinition"),
        (r"incomplete type", "incomplete-type"),
        (r"constexpr variable .* must be initialized|not (?:an integral )?constant expression", "constant-expression"),
        (r"cannot initialize|assigning to", "conversion"),
        (r"invalid operands", "invalid-operands"),
        (r"reference to (?:__host__|__device__|__global__)", "host-device"),
        (r".*exceeds limit", "resource-limit"),
        (r"undefined (?:hidden |protected )?symbol|undefined reference", "undefined-symbol"),
        (r"duplicate symbol|multiple definition", "duplicate-symbol"),
        (r"unable to find library|cannot find -l", "library-not-found"),
        (r"cannot find ROCm|cannot find HIP|cannot find CUDA", "rocm-not-found"),
        (r"unsupported option|unknown argument", "unknown-option"),
        (r"invalid target ID|unsupported (?:HIP|CUDA) gpu", "unknown-arch"),
        (r"no such file or directory", "no-such-file"),
    )
)

_PREFIX = {
    MessageKind.LINKER: "linker",
    MessageKind.DRIVER: "driver",
    MessageKind.OUT_OF_MEMORY: "host",
    MessageKind.NO_SPACE: "host",
    MessageKind.KILLED: "host",
    MessageKind.CRASH: "host",
}


def code_of(message: ClangMessage) -> str:
    """The stable code of `message`: `clang/unused-variable`, `linker/undefined-symbol`, `host/crash`."""
    prefix = _PREFIX.get(message.kind, "clang")
    if prefix == "host":
        return f"host/{message.kind}"
    if message.option:
        return f"{prefix}/{slug(message.option)}"
    for pattern, name in ERRORS:
        if pattern.match(message.text) or (message.position is None and pattern.search(message.text)):
            return f"{prefix}/{name}"
    return f"{prefix}/{slug(message.category) or 'error'}"


def slug(text: str) -> str:
    """Lower case, words joined by hyphens."""
    return re.sub(r"[^a-z0-9+=]+", "-", text.lower()).strip("-")
