"""Finds the flag in `ckwatch.toml` or a kernel file that a message of a compiler, its driver or a linker is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ckwatch.checks.clang_output import ClangMessage, MessageKind
from ckwatch.model.compiler_flags import GivenFlag, flag_groups

COMMAND_LINE = ("<command line>", "<command-line>", "<built-in>")
"""Compilers' names for the text that `-D` and `-include` make."""

_SHORTEST = 2
_DEFINITION = re.compile(r"#\s*define\s+(?P<name>[^\s(]+)")
_INVALID_DEFINE = re.compile(r"macro name|macro parameter|in macro|macro definition")


def blamed_flag(message: ClangMessage, flags: Sequence[GivenFlag]) -> GivenFlag | None:
    """The element of `flags` that `message` names, None when it names none or speaks of the source.

    Of several the one of which most is named, and of equal ones the last, which wins for compilers too.
    """
    about_macro = message.path in COMMAND_LINE
    if message.path and not about_macro:
        expanded = [note for note in message.notes if note.path in COMMAND_LINE and "expanded from macro" in note.text]
        named = (found for note in expanded for found in re.findall(r"macro '([^']+)'", note.text))
        return next((flag for name in named for flag in _defining(name, flags)), None)
    if not about_macro and message.kind not in (MessageKind.DRIVER, MessageKind.LINKER, MessageKind.COMPILER):
        return None
    best: tuple[int, int] = (0, -1)
    for at, element in _spellings(flags):
        for spelling in element:
            whole_word = rf"(?<![\w.-]){re.escape(spelling)}(?![\w-]|\.\w)"
            if len(spelling) >= _SHORTEST and re.search(whole_word, message.text):
                best = max(best, (len(spelling), at))
    if best[1] >= 0:
        return flags[best[1]]
    if about_macro and _INVALID_DEFINE.search(message.text):
        return next((flag for flag in flags if _is_bad_define(flag.text)), None)
    return None


def _spellings(flags: Sequence[GivenFlag]) -> Iterator[tuple[int, list[str]]]:
    """For each element what messages may call it: itself, its value, the parts that it hands to the linker."""
    for first, group in flag_groups([flag.text for flag in flags]):
        for at, part in enumerate(group, first):
            spelled = [part, group[0] + part] if at > first else [part]
            if part.startswith("-Wl,"):
                spelled += part.split(",")[1:]
            elif part.startswith(("-l", "-L", "-D", "-I", "-O", "-U")) and not part.startswith("-lineinfo"):
                spelled.append(part[2:])
                spelled += [part[2:].partition("=")[0]] if part.startswith("-D") else []
            if part.startswith("-"):
                _, equals, value = part.partition("=")
                spelled += [value, *value.split(",")] if equals else []
                spelled += [part.lstrip("-").partition("=")[0]] if equals and part.startswith("--") else []
            yield at, list(dict.fromkeys(spelled))


def _defining(name: str, flags: Sequence[GivenFlag]) -> Iterator[GivenFlag]:
    for first, group in flag_groups([flag.text for flag in flags]):
        text = group[-1].removeprefix("-D") if group[0].startswith("-D") else ""
        if re.match(rf"{re.escape(name)}(?:[=(]|$)", text):
            yield flags[first + len(group) - 1]


def _is_bad_define(flag: str) -> bool:
    return flag.startswith("-D") and re.fullmatch(r"-D[A-Za-z_]\w*(?:\([\w, .]*\))?(?:=.*)?", flag) is None
