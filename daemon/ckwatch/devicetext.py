"""What of a source the device pass can see, as far as the source says so itself.

Groups of lines under `#if !defined(__HIP_DEVICE_COMPILE__)` (or `#ifndef`), without any other condition, are the host's
alone. An edit in them leaves the device's code as it is.
"""

from __future__ import annotations

import re

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b(.*)$", re.MULTILINE)
_HOST_ONLY = re.compile(r"\s*!\s*defined\s*(?:\(\s*__HIP_DEVICE_COMPILE__\s*\)|__HIP_DEVICE_COMPILE__)\s*(?://.*)?")
_MACRO = re.compile(r"\s*__HIP_DEVICE_COMPILE__\s*(?://.*)?")
_RAW_STRING = re.compile(r'R"[^()\\\s]{0,16}\(')
_SPLICE = re.compile(r"\\[ \t]*$", re.MULTILINE)


def device_text(source: str) -> str:
    """`source` with blank lines for what is the host's alone; the text itself where that is in doubt."""
    if "__HIP_DEVICE_COMPILE__" not in source or _RAW_STRING.search(source) or _has_long_comment(source):
        return source
    kept: list[str] = []
    depth = 0
    hidden: int | None = None  # the depth at which a group of the host's began
    at = 0
    for match in _DIRECTIVE.finditer(source):
        word, rest = match[1], match[2]
        if _SPLICE.search(rest):
            return source
        if word in ("if", "ifdef", "ifndef"):
            depth += 1
            hosts = _HOST_ONLY.fullmatch(rest) if word == "if" else word == "ifndef" and _MACRO.fullmatch(rest)
            if hidden is None and hosts:
                hidden = depth
                kept.append(source[at : match.end()])
                at = match.end()
        elif hidden == depth:
            kept.append("\n" * source.count("\n", at, match.start()))
            at, hidden = match.start(), None
            if word.startswith("elif"):
                return source
        if word == "endif":
            depth -= 1
            if depth < 0:
                return source
    return source if depth else "".join((*kept, source[at:]))


def _has_long_comment(source: str) -> bool:
    return any(line.count("/*") != line.count("*/") for line in source.split("\n") if "/*" in line or "*/" in line)
