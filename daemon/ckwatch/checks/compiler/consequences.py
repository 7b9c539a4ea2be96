"""Tells compiler messages that only follow from an earlier one: a name whose declaration is broken, the rest of a file
behind an unclosed brace, one unknown name that is used many times, a warning in a line that is wrong anyway.

Textual: messages are compared with the lines at which earlier ones stand. What is recognized is kept as related
information of the mistake that it follows from; everything else stays a message of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ckwatch.checks.clang_output import ClangMessage, MessageKind
from ckwatch.checks.linker_symbols import SymbolProblem, symbol_of
from ckwatch.model.lazy_dataclass import dataclass

UNKNOWN_NAME = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no (?:member|type|template) named|unknown identifier|"
    r"use of undeclared label|undeclared variable|identifier|has no member) ['\"](?P<name>[^'\"]+)['\"]"
)
_QUOTED = re.compile(r"['\"](?:[^'\"]*::)?([A-Za-z_]\w*)['\"<]")
_BREAKS_THE_REST = re.compile(
    r"expected '\}'|expected .* for this|extraneous closing brace|"
    r"unterminated|missing terminating|missing closing quote|"
    r"function definition is not allowed here|expected external declaration|expected a \"?\}|cannot open source file|"
    r"'.*' file not found|unknown argument|missing '#endif'|expected unqualified-id|comment unclosed"
)
_HINT = re.compile(r"; did you mean .*")
_SYNTAX = re.compile(r"expected |extraneous |missing |unterminated ")
_END = re.compile(r"expected (?:a )?['\"]\}['\"]|extraneous closing brace")
_NO_TYPE = re.compile(
    r"a type specifier is required|unknown type name|explicit type is missing|this declaration has no"
)
_SIDES = re.compile(r"__host__|__device__|__global__|__shared__|kernel function")
_SIDE_OF_FUNCTION = re.compile(r"\b_*(?:__global_?_?|_?_global__|__device_?_?|_?_device__|__host_?_?|_?_host__)\b")
_ABOUT_KERNEL = re.compile(r"must have (?:a )?void return type|attribute only applies to kernel|\"void\" return type")
_WRONG_ARGUMENT = re.compile(r"argument of type .* is incompatible")
_CAPTURE = re.compile(r"cannot be implicitly captured|enclosing-function local variable")
_ONCE_A_LINE = (_WRONG_ARGUMENT, _CAPTURE, re.compile(r"invalid operands to binary"))
_INACCESSIBLE = re.compile(
    r"is a (?P<what>private|protected) member of (?P<type>'.*')|.* \(declared .*\) is inaccessible"
)
_SAME_REASON = re.compile(r"no matching |reference to __|calling a __|deprecated|is undefined in device code")
LINES_OF_BODY = 50
"""How many lines behind a loop its body may reach."""
_EMPTY_LOOP = re.compile(r"for loop has empty body")
_UNTERMINATED = re.compile(r"missing terminating|missing closing quote|unterminated")
_IDLE = re.compile(r"unused-|return-type$|(?:12|177|550|940)-D$")
_NO_GETTER = re.compile(r"cannot find suitable getter for property")
_WITHOUT_DEFINITION = re.compile(r"undefined-(?:internal|inline|var-template|func-template)")
_FAILED_ASSERTION = re.compile(r"static (?:assertion|_assert) failed|static assertion")
_INSTANTIATED = re.compile(r"in instantiation of [^']*'(?P<type>.+)' requested here")
_DECLARES = re.compile(r"\s*(?:using|typedef|struct|class|template|constexpr|static|const)\b")


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """A message with the text of the line at which it stands, and that of its statement up to the end of this line.

    `vague`: it stands in a header that the user has not written, and nothing tells which line of the user led there.
    """

    message: ClangMessage
    line: str
    statement: str = ""
    vague: bool = False
    foreign: bool = False

    @property
    def unknown(self) -> str:
        """The name that the compiler does not know, "" when it complains of something else."""
        found = UNKNOWN_NAME.search(self.message.text)
        return found["name"] if found is not None else ""


def follows(later: PlacedMessage, earlier: PlacedMessage) -> bool:
    """Return True if the error `later` only follows from the error `earlier`, which was printed before it."""
    new, old = later.message, earlier.message
    if _BREAKS_THE_REST.search(old.text) or later.vague:
        return True
    if new.kind is MessageKind.LINKER and old.kind is MessageKind.LINKER:
        return _of_one_symbol(new, old)
    here = new.path == old.path and new.position is not None and old.position is not None
    if _EMPTY_LOOP.match(old.text):
        return is_reason(earlier, later)
    lines = new.position.line - old.position.line if new.position is not None and old.position is not None else 0
    if here and _follows_nearby(later, earlier, lines):
        return True
    if later.unknown and later.unknown == earlier.unknown:
        return True
    if _FAILED_ASSERTION.match(old.text) and any(f"'{one}'" in new.text for one in _instantiated(old)):
        return True  # a class whose assertion fails has no members
    if _END.match(new.text) and _SYNTAX.match(old.text):
        return True
    if here and lines == 0 and "macro invocation" in old.text:
        return True
    if _is_repeat(new, old) or _is_on_the_wrong_side(later, earlier):
        return True
    if later.foreign and earlier.unknown and _DECLARES.match(earlier.statement or earlier.line):
        return True
    declaration = earlier.statement or earlier.line
    names = _QUOTED.findall(_HINT.sub("", new.text))
    if _NO_TYPE.search(old.text) and later.unknown and re.search(rf"\w{re.escape(later.unknown)}\b", earlier.line):
        return True
    return any(declares(declaration, name) for name in names)


def _instantiated(message: ClangMessage) -> list[str]:
    """The classes whose instantiation led to a message."""
    return [found["type"] for note in message.notes if (found := _INSTANTIATED.search(note.text))]


def _follows_nearby(later: PlacedMessage, earlier: PlacedMessage, lines: int) -> bool:
    """For messages of one file, `lines` apart."""
    new, old = later.message, earlier.message
    if new.position == old.position or (lines == 0 and (_SYNTAX.match(old.text) or _NO_GETTER.match(new.text))):
        return True
    if lines == 0 and earlier.unknown and not later.unknown:
        return True
    if lines == 0 and (earlier.foreign or later.foreign):
        return True
    if lines == 0 and any(kind.search(old.text) and kind.search(new.text) for kind in _ONCE_A_LINE):
        return True
    if not _SYNTAX.match(old.text):
        return False
    return 0 < lines < len(later.statement.splitlines()) or (lines == 1 and _SYNTAX.match(new.text) is not None)


def _is_repeat(new: ClangMessage, old: ClangMessage) -> bool:
    """Return True if the same function has the same error again, or another member of the same class has it."""
    hidden, known = _INACCESSIBLE.search(new.text), _INACCESSIBLE.search(old.text)
    if hidden is not None and known is not None and hidden["type"] and hidden.groups() == known.groups():
        return True
    return (
        new.text == old.text
        and bool(_SAME_REASON.search(new.text))
        and [(note.path, note.position, note.text) for note in new.notes]
        == [(note.path, note.position, note.text) for note in old.notes]
    )


def _is_on_the_wrong_side(later: PlacedMessage, earlier: PlacedMessage) -> bool:
    """Return True if a function with a wrong head was taken for a host function, and `later` is about what that
    forbids."""
    texts = (later.message.text, *(note.text for note in later.message.notes))
    head = f"{earlier.statement} {earlier.line}"
    is_head = _ABOUT_KERNEL.search(earlier.message.text) or (
        earlier.message.text.startswith("unknown type name") and _SIDE_OF_FUNCTION.search(head)
    )
    return bool(is_head) and any(_SIDES.search(text) for text in texts)


def _of_one_symbol(new: ClangMessage, old: ClangMessage) -> bool:
    """Return True if both are about one undefined symbol, or one symbol is the virtual table of the class of which the
    other is a member."""
    symbols = symbol_of(new), symbol_of(old)
    if symbols[0] is not None and symbols[0].problem is SymbolProblem.UNDEFINED and _spelled(old) == symbols[0].spelled:
        return True
    for table, member in (symbols, symbols[::-1]):
        if table is not None and member is not None and table.problem is SymbolProblem.TYPE:
            return f"{table.name}::" in member.spelled or (
                member.problem is table.problem and member.name == table.name
            )
    return False


def _spelled(message: ClangMessage) -> str:
    symbol = symbol_of(message)
    return "" if symbol is None else symbol.spelled


def is_reason(warning: PlacedMessage, error: PlacedMessage) -> bool:
    """Return True if a warning is the reason for an error behind it: a string that is not closed, or a loop that a `;`
    ends, so that its body does not know the loop's variable."""
    new, old = error.message, warning.message
    if new.position is None or old.position is None:
        return False
    if _UNTERMINATED.match(old.text):
        return new.path != old.path or new.position >= old.position
    if not _EMPTY_LOOP.match(old.text) or new.path != old.path:
        return False
    behind = 0 <= new.position.line - old.position.line <= LINES_OF_BODY
    return behind and bool(error.unknown) and declares(warning.line, error.unknown)


def warning_follows(warning: PlacedMessage, other: PlacedMessage) -> bool:
    """Return True if a warning only follows from another message: it lies in the line of an error, at the place of
    another warning, or reports as unused or not returned what an error hides."""
    new, old = warning.message, other.message
    if old.kind is MessageKind.LINKER and _WITHOUT_DEFINITION.match(new.option):
        undefined = symbol_of(old)
        return undefined is not None and re.search(rf"\b{re.escape(undefined.name)}'", new.text) is not None
    if new.position is None or old.position is None or new.path != old.path:
        return old.is_error and _IDLE.match(new.option) is not None
    if old.is_error:
        return new.position.line == old.position.line or _IDLE.match(new.option) is not None
    return new.position == old.position or (new.text == old.text and "deprecated" in new.option)


def declares(text: str, name: str) -> bool:
    """Return True if a line or statement of C++ seems to declare `name`."""
    pattern = (
        rf"\b(?:using|struct|class|union|enum|namespace|typename|#\s*define)\s+{name}\b|"
        rf"\b(?!return\b|else\b|case\b|goto\b|new\b|delete\b|throw\b)[A-Za-z_][\w:]*(?:\s*<[^;]*>)?(?:\s*[&*]+\s*|\s+){name}\s*"
        rf"(?:[=;,({{\[)]|$)|"
        rf"\btemplate\s*<[^>]*\s{name}\s*[=,>]"
    )
    return re.search(pattern, text) is not None


def leader_of(later: PlacedMessage, earlier: Sequence[PlacedMessage]) -> int | None:
    """The index of the first of `earlier` that `later` follows from; None when it is a mistake of its own."""
    return next((at for at, one in enumerate(earlier) if follows(later, one)), None)
