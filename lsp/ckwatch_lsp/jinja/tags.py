"""What one tag says: its words and the part each plays, its calls and brackets, and for statements what they bind.

Offsets are counted from the tag's own beginning. `ckwatch_lsp.jinja.reading` reads tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ckwatch_lsp.jinja.scanning import TagKind, Token


class Role(Enum):
    """The part that a word plays. Those from `SET` on bind a name.

    `SOURCE` is what another template calls what is imported; `PARAMETER` a parameter of the instance that is named by a
    string or attribute (`template_argument("MPerBlock")`, `parameters.MPerBlock`); `ARGUMENT` an argument's name.
    """

    KEYWORD = "keyword"
    LOAD = "load"
    ATTRIBUTE = "attribute"
    FILTER = "filter"
    TEST = "test"
    ARGUMENT = "argument"
    SOURCE = "source"
    PARAMETER = "parameter"
    BLOCK = "block"
    SET = "set"
    FOR = "for"
    WITH = "with"
    MACRO = "macro"
    MACRO_PARAMETER = "macro parameter"
    CALL_PARAMETER = "call parameter"
    MODULE = "module"
    IMPORTED = "imported"

    @property
    def binds(self) -> bool:
        """Whether a word with this role gives its name a value."""
        return self in _BINDING


_BINDING = (
    *(Role.SET, Role.FOR, Role.WITH, Role.MACRO, Role.MACRO_PARAMETER),
    *(Role.CALL_PARAMETER, Role.MODULE, Role.IMPORTED),
)  # a tuple: members of an enumeration are slow to hash

CONSTANTS = frozenset(("true", "false", "none", "True", "False", "None"))
OPERATOR_WORDS = frozenset(("and", "or", "not", "in", "is", "if", "else"))
RESERVED = OPERATOR_WORDS | CONSTANTS
"""Names that no variable can have."""

OPENING = frozenset(("for", "if", "macro", "call", "block", "filter", "with", "autoescape"))
"""Statements that always have a body; `set` may have one."""

BRANCHES = {"else": ("if", "for"), "elif": ("if",)}
"""Statements that divide a body, and of what."""

STATEMENTS = (
    *("if", "for", "set", "macro", "call", "block", "filter", "include", "import", "from", "extends", "with", "do"),
    *("raw", "autoescape", "break", "continue", "else", "elif", "print"),
)


class Word(NamedTuple):
    """A name at [start, end) of its tag.

    `inner`: it is looked up inside the body that its tag opens. `root`: for the attribute of a plain name (`a.b`)
    the index of that name's word, else −1. `call`: for an argument's name the index of the call, else −1.
    """

    role: Role
    text: str
    start: int
    end: int
    inner: bool = False
    root: int = -1
    call: int = -1


@dataclass(slots=True)
class Call:
    """`callee(…)`: the word called (−1: something else), where its parentheses are and what separates its arguments.

    `close` is the offset of `)`, or −1. `commas` and `keywords` (name, offset) are its own, not those of calls in it.
    """

    callee: int
    open: int
    close: int
    commas: list[int]
    keywords: list[tuple[str, int]]


class Parameter(NamedTuple):
    """A parameter of a macro or call block: its word, and its default as written."""

    word: int
    default: str | None


@dataclass(slots=True)
class TagBody:
    """A tag that has been read. `keyword`: of a statement, else empty. Nothing changes it once it is made.

    `opens`: a body belongs to it. `templates`: tokens of the strings that name templates; `with_context`: whether those
    see the variables here. `imports`: (word in the other template, word here) of `from … import`.
    """

    kind: TagKind
    source: str
    closed: bool
    tokens: tuple[Token, ...]
    words: list[Word]
    calls: list[Call]
    brackets: list[tuple[int, int]]
    keyword: str = ""
    opens: bool = False
    scoped: bool = False
    with_context: bool = True
    templates: tuple[Token, ...] = ()
    imports: tuple[tuple[int, int], ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def text(self, token: Token) -> str:
        """The text of one of its tokens."""
        return self.source[token.start : token.end]
