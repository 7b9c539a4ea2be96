"""Reads what clang, its driver and its linkers print, line by line as it arrives.

Clang prints this per diagnostic when it is given `CLANG_DIAGNOSTIC_FLAGS`:

    FILE:LINE:COLUMN:{RANGE}{RANGE}: SEVERITY: TEXT [-WOPTION,CATEGORY]
       12 | the source line, which is skipped here
          | ^~~~
    fix-it:"FILE":{RANGE}:"TEXT"

preceded by its include stack (outermost file first, and only when it differs from the previous message's) and
followed by its notes. Lines and columns count from one, columns and range ends in UTF-8 bytes; range ends are
exclusive, and a tab is one column. `position_in` turns them into the project's own positions, which count from zero
and in code points.

Everything else on standard error (linker messages, resource errors of the back end, a crash with its stack) comes
without a place. A line that is none of these is ignored, or kept as the tail of a message that has one (a stack dump,
lld's `>>> referenced by`). Text format and category names: `clang/lib/Frontend/TextDiagnostic.cpp` and
`clang/lib/Frontend/DiagnosticRenderer.cpp`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position

CLANG_DIAGNOSTIC_FLAGS: tuple[str, ...] = (
    "-fcaret-diagnostics-max-lines=1",
    "-fdiagnostics-print-source-range-info",
    "-fdiagnostics-absolute-paths",
    "-fdiagnostics-parseable-fixits",
    "-fdiagnostics-show-category=name",
    "-fno-color-diagnostics",
    "-ferror-limit=0",
    "-ftemplate-backtrace-limit=0",
    "-Xclang",
    "-fno-diagnostics-use-presumed-location",
)
"""Flags under which clang's text can be parsed. Carets stay on, as clang prints neither fix-its nor "expanded from
macro" without them. `-fdiagnostics-absolute-paths` prints paths without symbolic links. The last flag makes a message
lie where it is, and not where a `#line` of a header says."""


TAIL_LINES = 400
"""How many lines of a tail (stack dump, instruction selection dump) are kept."""


class ClangSeverity(StrEnum):
    """As clang prints it."""

    FATAL = "fatal error"
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


class MessageKind(StrEnum):
    """Who speaks. The last four are faults of the host: they say nothing of the kernel and must not be cached."""

    COMPILER = "compiler"
    BACKEND = "backend"
    LINKER = "linker"
    DRIVER = "driver"
    OUT_OF_MEMORY = "out-of-memory"
    NO_SPACE = "no-space"
    KILLED = "killed"
    CRASH = "crash"


TRANSIENT_KINDS = (MessageKind.OUT_OF_MEMORY, MessageKind.NO_SPACE, MessageKind.KILLED, MessageKind.CRASH)
"""Faults of the host, the most telling first."""


@dataclass(frozen=True, slots=True, order=True)
class ClangPosition:
    """A place as clang counts: line from one, column from one in UTF-8 bytes."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ClangRange:
    """A highlighted range in the message's own file; `end` is exclusive."""

    start: ClangPosition
    end: ClangPosition


@dataclass(frozen=True, slots=True)
class ClangFixit:
    """Replace `range` in `path` by `text`; an empty range inserts."""

    path: str
    range: ClangRange
    text: str


@dataclass(frozen=True, slots=True)
class Inclusion:
    """`path` includes another file at `line` (from one)."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class ClangMessage:
    """One diagnostic with what belongs to it.

    `path` is empty and `position` None where the message has no position. `option` is the warning's name without `-W`,
    `include_chain` the inclusions that lead to `path`, outermost first. `tail` holds lines that follow a message
    without being messages (a stack, `>>> referenced by`), `tool` the program that a driver or linker message names,
    `function` the function in which the linker found what it speaks of.
    """

    severity: ClangSeverity
    path: str
    position: ClangPosition | None
    ranges: tuple[ClangRange, ...]
    text: str
    option: str = ""
    category: str = ""
    notes: tuple[ClangMessage, ...] = ()
    include_chain: tuple[Inclusion, ...] = ()
    fixits: tuple[ClangFixit, ...] = ()
    kind: MessageKind = MessageKind.COMPILER
    tool: str = ""
    tail: tuple[str, ...] = ()
    function: str = ""

    @property
    def is_error(self) -> bool:
        """True for errors and fatal errors."""
        return self.severity in (ClangSeverity.ERROR, ClangSeverity.FATAL)


_SEVERITY = r"(?P<severity>fatal error|error|warning|remark|note): (?P<text>.*)"
_LOCATED = re.compile(
    r"(?P<path>\S.*?):(?P<line>\d+):(?P<column>\d+):(?P<ranges>(?:\{\d+:\d+-\d+:\d+\})+:)? " + _SEVERITY, re.DOTALL
)
_TOOL = re.compile(r"(?P<tool>[^\s:'\"]+): " + _SEVERITY)
_BARE = re.compile(_SEVERITY)
_RANGE = re.compile(r"\{(\d+):(\d+)-(\d+):(\d+)\}")
_FIXIT = re.compile(r'fix-it:"(?P<path>(?:[^"\\]|\\.)*)":(?P<range>\{\d+:\d+-\d+:\d+\}):"(?P<text>(?:[^"\\]|\\.)*)"')
_INCLUDED = re.compile(r"In file included from (?P<path>.+):(?P<line>\d+):$")
_MODULE = re.compile(r"In module '.*' imported from (?P<path>.+):(?P<line>\d+):$")
_COUNT = re.compile(
    r"\d+ (?:warnings?|errors?)(?: and \d+ errors?)? generated(?: when compiling for [^\s.]+)?\.$"
    r"|fatal error: too many errors emitted, stopping now(?: \[.*\])?"
)
_INSTRUCTION = re.compile(r"\s+\d+ \| +(?P<text>\S.*?)\s*$")
_IN_ASSEMBLY = "instantiated into assembly here"
_NO_COLUMN = ClangPosition(0, 0)
_SKIPPED = re.compile(r"\s+\d*\s*\|(?: |$)|failed to execute:")
_SUFFIX = re.compile(r" \[(?P<items>[^\[\]]+)\]$")
_CATEGORY = re.compile(r"(?:[A-Z#][\w# -]* (?:Issue|Directive|Redefinition)|Deprecations)$")
_GNU_UNDEFINED = re.compile(
    r"(?:\S*\bld(?:\.\w+)?: )?(?:(?P<path>[^()]+?):)?(?:\(\.[^)]*\+0x[0-9a-f]+\)|(?P<line>\d+)): "
    r"(?P<text>(?:undefined reference to|multiple definition of|relocation truncated to fit).*)"
)
_GNU_MORE = re.compile(r": more undefined references to .* follow$")
_GNU_LD = re.compile(r"(?P<tool>(?:\S*/)?(?:[\w.]+-)*ld(?:\.\w+)?): (?P<text>.*)")
_GNU_CONTEXT = re.compile(r"(?:\S*\bld(?:\.\w+)?: )?\S.*: in function [`'](?P<function>.*)':$")
_LLVM_OPTION = re.compile(r"(?P<tool>[\w+.-]+) \(LLVM option parsing\): (?P<text>.*?)(?:\.?  Try: .*)?$")
_LLVM_ERROR = re.compile(r"LLVM ERROR: (?P<text>.*)")
_CRASH_START = re.compile(
    r"PLEASE (?:submit a bug report|ATTACH)|Stack dump:|.*: Assertion .* failed\.$|UNREACHABLE executed"
)
_LINKERS = re.compile(r"(?:ld|.*-ld|.*\bld\.\w+|lld|collect2|llvm-link|.*clang-linker-wrapper)(?:-\d+)?$")
_BACKEND = re.compile(
    r"error in backend: |.*\((\d+)\) exceeds limit \(\d+\) in |.*ran out of registers|.*stack frame size|"
    r".*(?:scalar|vector) registers .*exceeds|.*lds_size|.*unsupported (?:call|indirect)|.*illegal VGPR|"
    r".*[Ii]llegal instruction|.*[Cc]annot select|(?:\S+:\d+:\d+: )?in function "
)

_FAULTS: tuple[tuple[re.Pattern[str], MessageKind], ...] = (
    (re.compile(r"out of memory|std::bad_alloc|[Cc]annot allocate memory|memory exhausted"), MessageKind.OUT_OF_MEMORY),
    (re.compile(r"No space left on device|Disk quota exceeded"), MessageKind.NO_SPACE),
    (
        re.compile(
            r"unable to execute command: Killed|due to signal 9|\bsignal 9\b|^Killed$|"
            r"\b(?:Killed|Terminated) signal terminated program|internal compiler error: (?:Killed|Terminated)\b"
        ),
        MessageKind.KILLED,
    ),
    (
        re.compile(
            r"\bsignal terminated program |\bterminated with signal \d|PLEASE submit a bug report|Stack dump:|"
            r"unable to execute command: (?!Executable)|"
            r"command failed due to signal|frontend command failed with exit code (?:13\d|25\d)|"
            r"Assertion .* failed\.|UNREACHABLE executed"
        ),
        MessageKind.CRASH,
    ),
)


def parse_clang_log(text: str) -> list[ClangMessage]:
    """All messages of a whole log, in order."""
    parser = ClangTextParser()
    messages = [message for line in text.split("\n") for message in parser.feed(line)]
    return messages + parser.close()


def transient_kind(messages: Iterable[ClangMessage]) -> MessageKind | None:
    """The fault of the host among `messages`, None without one: with one, the log says nothing of the kernel.

    Of several the most telling: a compiler that runs out of memory also crashes.
    """
    kinds = {message.kind for message in messages}
    return next((kind for kind in TRANSIENT_KINDS if kind in kinds), None)


class ClangTextParser:
    """Parses a stream of lines. A message is returned once the line after its last note has been seen."""

    def __init__(self) -> None:
        self._open: ClangMessage | None = None
        self._stack: list[Inclusion] = []
        self._chains: dict[str, tuple[Inclusion, ...]] = {}
        self._takes_tail = False
        self._function = ""

    def feed(self, line: str) -> list[ClangMessage]:
        """Take one line (its line end may be included); return the messages that it completes."""
        line = line.rstrip("\r\n")
        if not line.strip() or _SKIPPED.match(line):
            self._add_instruction(line)
            return []
        included = _INCLUDED.match(line) or _MODULE.match(line)
        if included:
            self._stack.append(Inclusion(included["path"], int(included["line"])))
            return self._finish()
        if _COUNT.fullmatch(line):
            return self._finish()
        fixit = _FIXIT.fullmatch(line)
        if fixit:
            self._add_fixit(fixit)
            return []
        if _GNU_MORE.search(line):
            self._add_tail(line)
            return []
        context = _GNU_CONTEXT.match(line)
        if context:
            self._function = context["function"]
            return self._finish()
        message = self._located(line) or _unlocated(line)
        if message is not None and message.kind is MessageKind.LINKER and not (message.position or _NO_COLUMN).column:
            message = replace(message, function=self._function)
        if message is None:
            self._add_tail(line)
            return []
        if message.severity is ClangSeverity.NOTE and self._open is not None:
            self._open = replace(self._open, notes=(*self._open.notes, message))
            return []
        if message.kind is MessageKind.CRASH and self._open is not None and self._open.kind is MessageKind.CRASH:
            self._add_tail(line)
            return []
        finished = self._finish()
        self._open = message
        self._takes_tail = message.position is None or message.kind is MessageKind.LINKER
        return finished

    def close(self) -> list[ClangMessage]:
        """The end of the stream: the message that was still open."""
        self._stack.clear()
        return self._finish()

    def _finish(self) -> list[ClangMessage]:
        message, self._open = self._open, None
        return [] if message is None else [message]

    def _located(self, line: str) -> ClangMessage | None:
        match = _LOCATED.match(line)
        if match is None or _TOOL.match(line):
            return None
        severity = ClangSeverity(match["severity"])
        path = match["path"]
        if severity is not ClangSeverity.NOTE:
            if self._stack:
                self._chains[path] = tuple(self._stack)
            self._stack.clear()
        text, option, category = _split_suffix(match["text"])
        return ClangMessage(
            severity=severity,
            path="" if path == "<unknown>" else path,
            position=None if path == "<unknown>" else ClangPosition(int(match["line"]), int(match["column"])),
            ranges=tuple(_range(found) for found in _RANGE.finditer(match["ranges"] or "")),
            text=text,
            option=option,
            category=category,
            include_chain=self._chains.get(path, ()),
            kind=_kind_of(text, category),
        )

    def _add_fixit(self, match: re.Match[str]) -> None:
        if self._open is None:
            return
        found = _RANGE.fullmatch(match["range"])
        if found is None:
            return
        fixit = ClangFixit(_unescape(match["path"]), _range(found), _unescape(match["text"]))
        if self._open.notes:
            last = self._open.notes[-1]
            notes = (*self._open.notes[:-1], replace(last, fixits=(*last.fixits, fixit)))
            self._open = replace(self._open, notes=notes)
        else:
            self._open = replace(self._open, fixits=(*self._open.fixits, fixit))

    def _add_instruction(self, line: str) -> None:
        """The line of assembly under "instantiated into assembly here", as the assembler has got it."""
        instruction = _INSTRUCTION.match(line)
        last = self._open.notes[-1] if self._open is not None and self._open.notes else None
        if self._open is None or last is None or instruction is None or last.text != _IN_ASSEMBLY:
            return
        last = replace(last, text=f"{_IN_ASSEMBLY}: {instruction['text']}")
        self._open = replace(self._open, notes=(*self._open.notes[:-1], last))

    def _add_tail(self, line: str) -> None:
        if self._open is not None and self._takes_tail and len(self._open.tail) < TAIL_LINES:
            kind = self._open.kind
            if kind not in TRANSIENT_KINDS and _fault(line) is not None:
                kind = _fault(line) or kind
            self._open = replace(self._open, tail=(*self._open.tail, line), kind=kind)


def _unlocated(line: str) -> ClangMessage | None:
    """A message of the driver, a linker or the back end, without a place."""
    for pattern, read in _UNLOCATED:
        match = pattern.match(line)
        if match is not None:
            return read(match)
    fault = _fault(line)
    if _CRASH_START.match(_excerpt(line)):
        fault = MessageKind.CRASH
    elif fault is MessageKind.CRASH:
        return None
    return None if fault is None else _plain(ClangSeverity.FATAL, line, fault)


def _of_tool(match: re.Match[str]) -> ClangMessage:
    text, option, category = _split_suffix(match["text"])
    of_linker = _LINKERS.match(match["tool"].rsplit("/", 1)[-1]) or re.search("link(?:er)? command failed", text)
    kind = _fault(text) or (MessageKind.LINKER if of_linker else MessageKind.DRIVER)
    return _plain(ClangSeverity(match["severity"]), text, kind, option, category, match["tool"])


def _of_nobody(match: re.Match[str]) -> ClangMessage:
    text, option, category = _split_suffix(match["text"].removeprefix("<unknown>:0:0: "))
    return _plain(ClangSeverity(match["severity"]), text, _kind_of(text, category), option, category)


def _of_gnu_linker(match: re.Match[str]) -> ClangMessage:
    severity = ClangSeverity.WARNING if match["text"].startswith("warning: ") else ClangSeverity.ERROR
    text = match["text"].removeprefix("warning: ")
    return _plain(severity, text, _fault(text) or MessageKind.LINKER, tool=match["tool"])


def _of_gnu_reference(match: re.Match[str]) -> ClangMessage:
    message = _plain(ClangSeverity.ERROR, match["text"], MessageKind.LINKER, tool="ld")
    if match["line"] is None or match["path"] is None:
        return message
    return replace(message, path=posixpath.normpath(match["path"]), position=ClangPosition(int(match["line"]), 0))


def _of_llvm_option(match: re.Match[str]) -> ClangMessage:
    severity = ClangSeverity.NOTE if match["text"].startswith("Did you mean") else ClangSeverity.ERROR
    return _plain(severity, match["text"], MessageKind.DRIVER, tool=match["tool"])


_UNLOCATED: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], ClangMessage]], ...] = (
    (_TOOL, _of_tool),
    (_BARE, _of_nobody),
    (_GNU_UNDEFINED, _of_gnu_reference),
    (_GNU_LD, _of_gnu_linker),
    (_LLVM_OPTION, _of_llvm_option),
    (
        _LLVM_ERROR,
        lambda match: _plain(ClangSeverity.FATAL, match["text"], _fault(match["text"]) or MessageKind.BACKEND),
    ),
)
"""The first that matches counts."""


def _plain(
    severity: ClangSeverity, text: str, kind: MessageKind, option: str = "", category: str = "", tool: str = ""
) -> ClangMessage:
    name = tool.rsplit("/", 1)[-1]
    return ClangMessage(severity, "", None, (), text, option, category, kind=kind, tool=name)


def _kind_of(text: str, category: str) -> MessageKind:
    """Who speaks in a message that names no tool."""
    of_backend = category in ("Backend Issue", "SourceMgr Reported Issue") or _BACKEND.match(text) is not None
    return _fault(text) or (MessageKind.BACKEND if of_backend else MessageKind.COMPILER)


def _fault(text: str) -> MessageKind | None:
    excerpt = _excerpt(text)
    return next((kind for pattern, kind in _FAULTS if pattern.search(excerpt)), None)


def _excerpt(text: str) -> str:
    """Both ends of a long line: what tells a fault stands there, and patterns stay fast on type names."""
    return text if len(text) <= 2000 else f"{text[:1000]} {text[-1000:]}"


def _range(match: re.Match[str]) -> ClangRange:
    first, column, last, end = (int(number) for number in match.groups())
    return ClangRange(ClangPosition(first, column), ClangPosition(last, end))


def _split_suffix(text: str) -> tuple[str, str, str]:
    """The text without `[-Wname,Category]`, the option's name and the category."""
    match = _SUFFIX.search(text)
    if match is None:
        return text, "", ""
    items = match["items"].split(",")
    options = [item for item in items if item.startswith(("-W", "-R"))]
    categories = [item for item in items if _CATEGORY.match(item)]
    if len(options) + len(categories) != len(items):
        return text, "", ""
    named = [option[2:] for option in options if option != "-Werror"]
    return text[: match.start()], named[-1] if named else "", categories[-1] if categories else ""


def _unescape(text: str) -> str:
    r"""Undo LLVM's `write_escaped`: `\\`, `\"`, `\n`, `\t` and octal bytes, which together are UTF-8."""
    if "\\" not in text:
        return text
    simple = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}
    out = bytearray()
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\" or at + 1 >= len(text):
            out += char.encode()
            at += 1
        elif re.match(r"[0-7]{3}", text[at + 1 : at + 4]):
            out.append(int(text[at + 1 : at + 4], 8) & 0xFF)
            at += 4
        else:
            out += simple.get(text[at + 1], text[at + 1].encode())
            at += 2
    return out.decode(errors="replace")


def code_point_column(line: str, byte_column: int) -> int:
    """The zero-based code-point column of the one-based byte column in `line`, clamped to the line.

    A byte column inside a character is that character's column.
    """
    bytes_before = max(byte_column - 1, 0)
    if line.isascii():
        return min(bytes_before, len(line))
    return len(line.encode(errors="surrogatepass")[:bytes_before].decode(errors="ignore"))


def byte_column(line: str, column: int) -> int:
    """The one-based UTF-8 byte column of the zero-based code-point column."""
    return len(line[:column].encode(errors="surrogatepass")) + 1


def position_in(line: str | None, place: ClangPosition) -> Position:
    """`place` in the project's counting; `line` is the text of its line, None when it cannot be read."""
    column = max(place.column - 1, 0) if line is None else code_point_column(line, place.column)
    return Position(max(place.line - 1, 0), column)
