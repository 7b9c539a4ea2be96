"""Reads what nvcc, its front end (EDG's) and its assembler print, as messages in clang's form.

The front end prints per message, and an empty line after it:

    FILE(LINE): SEVERITY #NUMBER-D: TEXT
                more of the text, indented
      the source line after preprocessing
           ^
              detected during instantiation of class "A<N> [with N=1]" at line LINE of FILE

`of FILE` is missing where it is the message's own; several instantiations stand one a line below `detected during:`.
The assembler and the others print `ptxas FILE, line N; error   : TEXT` or `nvcc fatal   : TEXT`. What the host's own
compiler says (a missing header, `#error`) is in clang's form already.

Lines count from one. The column is the caret's, 0 where there is none, with the spelling of CUDA's own keywords undone
(`__global__` is printed as `__attribute__((global))`); where another macro stands before it, it is off by the
difference.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangSeverity, ClangTextParser, MessageKind

_SEVERITIES = {
    "catastrophic error": ClangSeverity.FATAL,
    "internal error": ClangSeverity.FATAL,
    "fatal": ClangSeverity.FATAL,
    "error": ClangSeverity.ERROR,
    "warning": ClangSeverity.WARNING,
    "remark": ClangSeverity.REMARK,
    "note": ClangSeverity.NOTE,
}
_NAMES = "|".join(_SEVERITIES)
_HEAD = re.compile(
    rf"(?:(?P<path>\S.*?)\((?P<line>\d+)\)|At end of source|Command-line|Internal): ?"
    rf"(?P<severity>{_NAMES})(?: #(?P<number>\d+(?:-\w+)?))?: (?P<text>.*)"
)
_TOOL = re.compile(
    r"(?P<tool>nvcc|ptxas|nvlink|fatbinary|cicc|cudafe\+\+)(?: (?P<place>\S.*, line \d+);)? "
    rf"(?P<severity>{_NAMES})\s*: (?P<text>.*)"
)
_CARET = re.compile(r"\s*\^\s*")
_DURING = re.compile(r"\s+detected during:?(?P<rest>.*)")
_CONTEXT = re.compile(r"\s*(?P<what>\S.*?) at line (?P<line>\d+)(?: of (?P<path>.+))?\s*")
_ASSERTION = re.compile(r'static assertion failed with "(?P<why>.*)"')
_KEYWORD = re.compile(r"__attribute__\(\((?P<word>global|device|host|shared|constant|managed)\)\)")
_BOUNDS = re.compile(r"__attribute__\(\(launch_bounds\((?P<bounds>[^()]*)\)\)\)")
_SUMMARY = re.compile(r"\d+ (?:catastrophic )?(?:errors?|warnings?) .*detected in |Remark: |compilation terminated\.")
_MISSING = re.compile(r"fatal error: (?P<name>[^\n]+): No such file or directory")
_KINDS = {"ptxas": MessageKind.BACKEND, "cicc": MessageKind.BACKEND, "nvlink": MessageKind.LINKER}
_FAULTS = (
    (re.compile(r"[Mm]emory allocation failure|out of memory|std::bad_alloc"), MessageKind.OUT_OF_MEMORY),
    (re.compile(r"No space left on device|Disk quota exceeded"), MessageKind.NO_SPACE),
    (re.compile(r"died due to signal (?:9|15)\b"), MessageKind.KILLED),
    (re.compile(r"died due to signal|died with status|internal error"), MessageKind.CRASH),
)


def parse_nvcc_log(text: str) -> list[ClangMessage]:
    """All messages of a log, in order; the last may be unfinished when the log is."""
    lines = text.split("\n")
    found: list[ClangMessage] = []
    others = ClangTextParser()
    at = 0
    while at < len(lines):
        head = _HEAD.match(lines[at])
        if head is not None:
            end = _end_of_block(lines, at + 1)
            _take(found, _front_end_message(head, lines[at + 1 : end]))
            at = end
            continue
        tool = _TOOL.match(lines[at])
        if tool is not None:
            found += others.close()
            found.append(_tool_message(tool))
        elif not _SUMMARY.match(lines[at]):
            found += others.feed(lines[at])
        at += 1
    return found + others.close()


def missing_headers(log: str) -> list[str]:
    """The names of headers that a compile asked for and did not find."""
    return list(dict.fromkeys(match["name"] for match in _MISSING.finditer(log)))


def _end_of_block(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at].strip() and not _HEAD.match(lines[at]) and not _TOOL.match(lines[at]):
        at += 1
    return at


def _take(found: list[ClangMessage], message: ClangMessage) -> None:
    """A note belongs to the message before it."""
    if message.severity is ClangSeverity.NOTE and found:
        found[-1] = replace(found[-1], notes=(*found[-1].notes, message))
    else:
        found.append(message)


def _front_end_message(head: re.Match[str], block: list[str]) -> ClangMessage:
    caret = next((index for index, line in enumerate(block) if _CARET.fullmatch(line)), None)
    excerpt = "" if caret is None or caret == 0 else block[caret - 1]
    during = next((index for index, line in enumerate(block) if _DURING.match(line)), len(block))
    own_lines = block[: during if caret is None else max(caret - 1, 0)]
    text = " ".join([head["text"], *(line.strip() for line in own_lines)])
    assertion = _ASSERTION.search(text)
    if assertion is not None:
        text = f"static assertion failed: {assertion['why']}"
    path = head["path"] or ""
    position = None
    if path:
        column = 0 if caret is None else _column(excerpt, block[caret].index("^"))
        position = ClangPosition(int(head["line"]), column)
    return ClangMessage(
        severity=_SEVERITIES[head["severity"]],
        path=path,
        position=position,
        ranges=(),
        text=text,
        option=head["number"] or "" if head["severity"] in ("warning", "remark") else "",
        notes=tuple(_contexts(block[during:], path)),
        kind=_fault(text) or MessageKind.COMPILER,
    )


def _column(excerpt: str, caret: int) -> int:
    """The caret's column in the source as it was written, from one in UTF-8 bytes; the excerpt is indented by two."""
    before = excerpt[:caret]
    written = _KEYWORD.sub(lambda match: f"__{match['word']}__", before)
    written = _BOUNDS.sub(r"__launch_bounds__(\g<bounds>)", written)
    return max(len(written.encode()) - 2, 0) + 1


def _contexts(lines: list[str], path: str) -> list[ClangMessage]:
    """The template backtrace as clang's notes, innermost first."""
    notes = []
    for line in lines:
        during = _DURING.match(line)
        context = _CONTEXT.fullmatch(during["rest"] if during else line)
        if context is not None:
            place = ClangPosition(int(context["line"]), 1)
            text = f"in {context['what']} requested here"
            notes.append(ClangMessage(ClangSeverity.NOTE, context["path"] or path, place, (), text))
    return notes


def _tool_message(match: re.Match[str]) -> ClangMessage:
    text = match["text"]  # the place is one in a file that is gone
    kind = _fault(text) or _KINDS.get(match["tool"], MessageKind.DRIVER)
    return ClangMessage(_SEVERITIES[match["severity"]], "", None, (), text, kind=kind, tool=match["tool"])


def _fault(text: str) -> MessageKind | None:
    return next((kind for pattern, kind in _FAULTS if pattern.search(text)), None)
