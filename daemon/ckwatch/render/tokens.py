"""Keys of sources: two that are equal compile to the same code.

A source is its tokens. Comments and white space between tokens are dropped, so that editing them changes no key;
what a directive needs is kept: where it ends, and whether the parenthesis of a `#define` touches the name. Where
a source looks at its own line numbers (`__LINE__`, `#line`, `assert` and its kin, `std::source_location`), the
place of each token belongs to the key as well.

Every uncertain case counts as *different*: a key that differs for equal programs costs one compile, an equal key for
different programs would show a wrong result. So a text in which a line continuation glues two characters, or in which
`%:` could be a `#`, counts line by line. One knowing exception: a macro *of a header* that turns its argument into a
string sees `a + b` and `a+b` as equal here unless its name looks like an assertion.

The device pass has a key of its own, that of `device_text`: groups of lines that the device pass skips whatever other
macros are defined are the host's alone, and an edit in them leaves the device's code as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position

Anchor = tuple[int, int]
"""Index of a token, and characters from its start; (-1, 0) lies before the first token."""

# Every pattern below finds a match wherever it is tried, at the end of the text too: nothing ever backtracks.
_NEWLINE = r"(?:\r\n?|\n)"
_SPLICE = rf"\\[ \t\f\v]*{_NEWLINE}"
_LINE_COMMENT = rf"//(?:[^\\\r\n]+|{_SPLICE}|\\)*"
_BLOCK_COMMENT = r"/\*.*?\*/"
_RAW = r'(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"[\w$]*'
_STRING = r'(?:u8|[uUL])?"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*(?:"[\w$]*|)'
_CHARACTER = r"(?:u8|[uUL])?'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*(?:'[\w$]*|)"
_NUMBER = r"\.?\d(?:[eEpP][+-]|'\w|[\w.$])*"
_IDENTIFIER = r"(?:[\w$]|\\[uUN])+"
_OPERATOR = (
    r"<<=|>>=|<=>|\.\.\.|->\*?|::|\.\*|\+\+|--|<<|>>|&&|\|\||\#\#"
    r"|[-+*/%^&|<>=!]=|<:|<%|%>|:>"
)
_SKIP = rf"(?:[ \t\r\n\f\v]+|{_LINE_COMMENT}|{_BLOCK_COMMENT}|{_SPLICE})*"
_TOKEN = (
    # The first two alternatives are the common cases. A quote or backslash behind a name: a prefix, or more name.
    rf"""[A-Za-z_]\w*(?![\w"'\\$])|[(),;{{}}\[\]]|{_RAW}|{_STRING}|{_CHARACTER}|{_NUMBER}|{_IDENTIFIER}|{_OPERATOR}"""
    r"|/\*.*|.|\Z"
)
# What `#error` says is no sequence of tokens, and a comment does not open in it.
_MESSAGE = r"\#[ \t]*(?:error|warning)\b[^\r\n]*"
_DIRECTIVE = (
    rf"\#(?:[^\\\r\n/\"'R]+|{_SPLICE}|{_BLOCK_COMMENT}|{_LINE_COMMENT}"
    rf"|{_RAW.replace('delimiter', 'inner')}|{_STRING}|{_CHARACTER}|[^\r\n])*"
)

_TOP = re.compile(rf"{_SKIP}({_MESSAGE}|{_DIRECTIVE}|{_TOKEN})", re.DOTALL)
_INSIDE = re.compile(rf"{_SKIP}({_TOKEN})", re.DOTALL)
_INSIDE_WITH_HEADER_NAME = re.compile(rf"{_SKIP}(<[^>\r\n]*>|{_TOKEN})", re.DOTALL)
_HAS_HEADER_NAME = re.compile(r"\#\s*(?:include|include_next|import|embed)\b|__has_(?:include|embed)")
_MESSAGE_START = re.compile(_MESSAGE)
_CONTINUATION = re.compile(_SPLICE)
_MAY_MARK_LINES = re.compile(r"\#[ \t\\]*(?:line\b|\d|[\r\n/])")
_PLACES = re.compile(
    r"^(?:__LINE__|__builtin_(?:LINE|COLUMN|source_location)|source_location"
    r"|(?!static_assert$|_Static_assert$)\w*(?i:assert)\w*"
    r"|(?:[A-Z0-9_]*_)?(?:CHECK|LOG|TRACE|ENSURE|REQUIRE|VERIFY)(?:_[A-Z0-9_]*)?)$",
    re.MULTILINE,
)

_END_OF_DIRECTIVE = "\n"
_CALL_PARENTHESIS = "\x01("


@dataclass(frozen=True, slots=True)
class _Scan:
    tokens: list[str]
    offsets: list[int]
    """Empty where they were not asked for."""

    places: bool
    """True if the result of a compile can depend on lines and columns."""


def _scan(text: str, *, offsets: bool) -> _Scan:
    if _needs_whole_lines(text):
        lines = text.splitlines(keepends=True)
        return _Scan(lines, [0, *accumulate(map(len, lines))][: len(lines)], True)
    tokens: list[str] = []
    starts: list[int] = []
    places = False
    if offsets:
        for match in _TOP.finditer(text):
            token = match[1]
            if token[:1] == "#":
                directive = _directive(token)
                places = places or directive.places
                tokens += directive.tokens
                starts += [match.start(1) + offset for offset in directive.offsets]
            elif token:
                tokens.append(token)
                starts.append(match.start(1))
    else:
        done = 0
        found = [match[0] for match in _TOP.findall(text) if match[0]]
        for at in [at for at, token in enumerate(found) if token[0] == "#"]:
            directive = _directive(found[at])
            places = places or directive.places
            tokens += found[done:at]
            tokens += directive.tokens
            done = at + 1
        tokens += found[done:]
    return _Scan(tokens, starts, places or _PLACES.search("\n".join(set(tokens))) is not None)


def _needs_whole_lines(text: str) -> bool:
    """True where a line continuation glues two characters, or where a digraph could begin a directive."""
    return "%:" in text or any(
        match.start() > 0
        and match.end() < len(text)
        and not text[match.start() - 1].isspace()
        and not text[match.end()].isspace()
        for match in _CONTINUATION.finditer(text)
    )


@lru_cache(maxsize=4096)
def _directive(text: str) -> _Scan:
    """The tokens of one directive.

    Places count when it is a line marker, or a macro that turns an argument into a string: that one sees blanks.
    """
    if _MESSAGE_START.match(text):
        return _Scan([text, _END_OF_DIRECTIVE], [0, len(text)], False)
    pattern = _INSIDE_WITH_HEADER_NAME if _HAS_HEADER_NAME.search(text) else _INSIDE
    matches = [match for match in pattern.finditer(text) if match[1]]
    tokens = [*(match[1] for match in matches), _END_OF_DIRECTIVE]
    offsets = [*(match.start(1) for match in matches), len(text)]
    name = tokens[1]
    places = name == "line" or name[:1].isdigit()
    if name == "define":
        places = "#" in tokens[2:]
        if len(tokens) > 4 and tokens[3] == "(" and offsets[2] + len(tokens[2]) == offsets[3]:
            tokens[3] = _CALL_PARENTHESIS
    return _Scan(tokens, offsets, places)


@lru_cache(maxsize=16)
def token_key(text: str, *, places: bool = False) -> str:
    """SHA-256, in hex, of the C++ tokens of `text`.

    With `places` (debug information is asked for, say) the position of each token counts; so it does when the source
    itself depends on places.
    """
    scan = _scan(text, offsets=places)
    tokens = scan.tokens
    if places or scan.places:
        scan = scan if scan.offsets else _scan(text, offsets=True)
        index = LineIndex(text)
        tokens = [
            f"{token}\x02{index.position(offset)}" for token, offset in zip(scan.tokens, scan.offsets, strict=True)
        ]
    joined = json.dumps(tokens) if "\0" in text else "\0".join(tokens)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def without_line_markers(text: str) -> str:
    """`text` with blanks for `#line 12 "file"` and `# 12 "file"`, so that a compiler counts its true lines.

    Those that are no valid markers stay as they are, for the compiler to complain of.
    """
    if _MAY_MARK_LINES.search(text) is None:
        return text
    pieces: list[str] = []
    done = 0
    for match in _TOP.finditer(text):
        token = match[1]
        if token[:1] != "#" or text[text.rfind("\n", 0, match.start(1)) + 1 : match.start(1)].strip():
            continue
        words = _directive(token).tokens[1:-1]
        words = words[1:] if words[:1] == ["line"] else words
        if words and words[0].isdigit() and all(word[0] == '"' or word.isdigit() for word in words[1:]):
            pieces += (text[done : match.start(1)], re.sub(r"[^\r\n]", " ", token))
            done = match.end(1)
    return "".join((*pieces, text[done:]))


class TokenIndex:
    """Positions in a text, given by token, so that they can be found again in a text of equal tokens."""

    def __init__(self, text: str) -> None:
        self._lines = LineIndex(text)
        scan = _scan(text, offsets=True)
        self._tokens, self._offsets = scan.tokens, scan.offsets

    def anchor(self, position: Position) -> Anchor:
        """The token at `position`; a place behind a token is that token's end."""
        offset = self._lines.offset(position)
        token = bisect_right(self._offsets, offset) - 1
        if token < 0:
            return (-1, 0)
        if self._tokens[token] == _END_OF_DIRECTIVE:
            token -= 1
        return (token, min(offset - self._offsets[token], self._length(token)))

    def position(self, anchor: Anchor) -> Position:
        """Return the place of `anchor` in this text, clamped to it."""
        token, delta = anchor
        if token < 0 or not self._offsets:
            return Position(0, 0)
        token = min(token, len(self._offsets) - 1)
        return self._lines.position(self._offsets[token] + min(delta, self._length(token)))

    def _length(self, token: int) -> int:
        text = self._tokens[token]
        return 1 if text == _CALL_PARENTHESIS else 0 if text == _END_OF_DIRECTIVE else len(text)


_NAME_END = re.compile(r"(?:\.(?:hip|cu|cpp))?(?:\.(?:j2|jinja2?))?$")
_LONGEST_STEM = 64


def kernel_symbol(template_name: str, token_key: str) -> str:
    """The C function's name for a source: `ck/gemm_universal.hip.j2` gives `ck_gemm_universal_1a2b3c4d5e6f`.

    `token_key` is that of the rendered text in which the name is still the placeholder `KERNEL_NAME`, so that one
    source under many names has one symbol and is compiled once.
    """
    stem = re.sub(r"[^A-Za-z0-9]+", "_", _NAME_END.sub("", template_name)).strip("_")[-_LONGEST_STEM:].lstrip("_")
    if not stem or stem[0].isdigit():
        stem = f"kernel_{stem}".rstrip("_")
    return f"{stem}_{token_key[:12]}"


DEVICE_MACRO = "__HIP_DEVICE_COMPILE__"
"""Defined as 1 in the device pass alone."""

_OPAQUE = re.compile(
    # What may hold a `#` that is no directive. A quote behind a digit separates digits (`1'000`).
    rf"""{_LINE_COMMENT}|{_BLOCK_COMMENT}|(?<![\w$]){_RAW}|"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"?"""
    r"""|(?:(?<![\w$])|(?<=\bu8)|(?<=\b[uUL]))'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*'?""",
    re.DOTALL,
)
_CONDITIONAL = re.compile(r"^[ \t\f\v]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b(.*)$", re.MULTILINE)
_DOUBTS = re.compile(r"\\[ \t\f\v]*\r?\n[ \t\f\v]*#|\*/[ \t\f\v]*#|#[ \t\f\v]*[/\\]|_macro\b|\r(?!\n)")
"""A directive in or behind a line that goes on, one beside a comment, macros that are put away, and lone carriage
returns."""

_DOUBTS_OF_COMMENTS = re.compile(r"""^[ \t\f\v]*#[^\n]*(?:/\*(?![^\n]*\*/)|R")|\b[A-Za-z_]\w*'\"""", re.MULTILINE)
"""A directive whose comment or raw string ends on another line, or that has none; a quoted quote behind a word."""

_REDEFINED = re.compile(rf"#\s*(?:define|undef)\b(?:\\[ \t]*\r?\n|[^\n])*?\b{DEVICE_MACRO}\b")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|\s(\w+))")
_WORDS = re.compile(r"&&|\|\||\w+|\S")
_RAW_STRING = re.compile(r'R"[^()\\\s]{0,16}\(')
_COMMENT = re.compile(r"/\*.*?\*/|//.*")
_NO_LINE_END = re.compile(r"[^\r\n]+")


def redefines_device_macro(text: str) -> bool:
    """Return True if `text` may define or undefine `DEVICE_MACRO` itself, so that nothing follows from its name."""
    return DEVICE_MACRO in text and (_REDEFINED.search(text) is not None or "_macro" in text)


@lru_cache(maxsize=16)
def device_text(source: str) -> str:
    """`source` with blank lines for what the device pass skips; the text itself where that is not certain.

    Skipped is what stands under a condition that `DEVICE_MACRO` alone decides: `!defined(__HIP_DEVICE_COMPILE__)`,
    `X && !defined(…)` whatever X is, `#else` behind `#ifdef`.
    """
    if DEVICE_MACRO not in source or _needs_whole_lines(source) or _DOUBTS.search(source) or _REDEFINED.search(source):
        return source
    plain = source
    if _RAW_STRING.search(source) or _has_long_comment(source):
        if _DOUBTS_OF_COMMENTS.search(source):
            return source
        plain = _OPAQUE.sub(lambda match: re.sub(r"[^\r\n]", " ", match[0]), source)
    kept: list[str] = []
    chains: list[bool | None] = []  # for each open condition: one of its groups so far is certainly compiled
    hidden: int | None = None  # how many conditions were open where the skipped group began
    at = 0
    for match in _CONDITIONAL.finditer(plain):
        word, condition = match[1], _COMMENT.sub(" ", match[2])
        opens = word in ("if", "ifdef", "ifndef")
        if condition.rstrip().endswith("\\") or not (opens or chains):
            return source
        if hidden == len(chains) and not opens:
            kept.append(_NO_LINE_END.sub("", source[at : match.start()]))
            at, hidden = match.start(), None
        if word == "endif":
            chains.pop()
            continue
        holds = _on_device(word, condition)
        skipped = holds is False
        if opens:
            chains.append(holds)
        else:
            skipped = skipped or chains[-1] is True
            chains[-1] = chains[-1] is True or holds or None
        if skipped and hidden is None:
            hidden = len(chains)
            kept.append(source[at : match.end()])
            at = match.end()
    return source if chains else "".join((*kept, source[at:]))


def _on_device(word: str, condition: str) -> bool | None:
    """Return the truth of a conditional directive in the device pass; None where other macros decide."""
    if word == "else":
        return None
    if word.endswith("def"):
        if condition.split() != [DEVICE_MACRO]:
            return None
        return not word.endswith("ndef")
    words = [*_WORDS.findall(_DEFINED.sub(lambda match: f" {match[1] or match[2]} ", condition)), ""]
    try:
        found, at = _either(words, 0)
    except (ValueError, RecursionError):
        return None
    return found if at == len(words) - 1 else None


def _either(words: list[str], at: int) -> tuple[bool | None, int]:
    found, at = _both(words, at)
    while words[at] == "||":
        other, at = _both(words, at + 1)
        found = True if True in (found, other) else None if None in (found, other) else False
    return found, at


def _both(words: list[str], at: int) -> tuple[bool | None, int]:
    found, at = _operand(words, at)
    while words[at] == "&&":
        other, at = _operand(words, at + 1)
        found = False if False in (found, other) else None if None in (found, other) else True
    return found, at


def _operand(words: list[str], at: int) -> tuple[bool | None, int]:
    """Raises ValueError for anything but names, `!` and parentheses."""
    word = words[at]
    if word == "!":
        found, at = _operand(words, at + 1)
        return None if found is None else not found, at
    if word == "(":
        found, at = _either(words, at + 1)
        if words[at] != ")":
            raise ValueError(word)
        return found, at + 1
    if not word.isidentifier():
        raise ValueError(word)
    return True if word == DEVICE_MACRO else None, at + 1


def _has_long_comment(source: str) -> bool:
    return any(line.count("/*") != line.count("*/") for line in source.split("\n") if "/*" in line or "*/" in line)
