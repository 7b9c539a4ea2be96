"""Parses one tag: its words and the role of each, its calls and brackets, and what a statement binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_lsp.templates.language.lexer import TagKind, TagToken, tokens_of


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
        """True if a word with this role gives its name a value."""
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


class TagWord(NamedTuple):
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
class TagCall:
    """`callee(…)`: the word called (−1: something else), where its parentheses are and what separates its arguments.

    `close` is the offset of `)`, or −1. `commas` and `keywords` (name, offset) are its own, not those of calls in it.
    """

    callee: int
    open: int
    close: int
    commas: list[int]
    keywords: list[tuple[str, int]]


class MacroParameter(NamedTuple):
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
    tokens: tuple[TagToken, ...]
    words: list[TagWord]
    calls: list[TagCall]
    brackets: list[tuple[int, int]]
    keyword: str = ""
    opens: bool = False
    scoped: bool = False
    with_context: bool = True
    templates: tuple[TagToken, ...] = ()
    imports: tuple[tuple[int, int], ...] = ()
    parameters: tuple[MacroParameter, ...] = ()

    def text(self, token: TagToken) -> str:
        """The text of one of its tokens."""
        return self.source[token.start : token.end]


@lru_cache(maxsize=8192)
def tag_body(source: str, kind: TagKind, closed: bool) -> TagBody:
    """Read the tag `source`."""
    tokens = tokens_of(source, kind, closed)
    body = TagBody(kind, source, closed, tokens, [], [], [])
    if kind == "variable":
        _TagParser(body).expression()
    elif kind == "statement":
        _TagParser(body).statement()
    return body


class _TagParser:
    """Walks over the tokens of one tag."""

    def __init__(self, body: TagBody) -> None:
        self.body = body
        self.tokens = [token for token in body.tokens if token.kind not in ("begin", "end", "error")]
        self.texts = [body.source[token.start : token.end] for token in self.tokens]
        self.at = 0
        self.opened: list[tuple[str, int, int]] = []
        """Of an expression: the open brackets with their offsets and calls."""
        self.chain = -1
        """The word that a bracket, or what stands behind a dot, belongs to."""
        self.after_value = False
        self.inner = False

    def word(self, role: Role, *, inner: bool = False, root: int = -1, call: int = -1) -> int:
        """Take the present token as a word; its index."""
        token = self.tokens[self.at]
        self.body.words.append(TagWord(role, self.texts[self.at], token.start, token.end, inner, root, call))
        self.at += 1
        return len(self.body.words) - 1

    def text(self, ahead: int = 0) -> str:
        """The present token's text; empty at the end."""
        index = self.at + ahead
        return self.texts[index] if 0 <= index < len(self.texts) else ""

    def is_name(self, ahead: int = 0) -> bool:
        """Return True if the present token is a name."""
        index = self.at + ahead
        return index < len(self.tokens) and self.tokens[index].kind == "name"

    def keyword(self, *texts: str) -> bool:
        """Take the present token if it is one of these keywords."""
        if self.is_name() and self.text() in texts:
            self.word(Role.KEYWORD)
            return True
        return False

    def statement(self) -> None:
        """Read a whole `{% … %}`."""
        if not self.is_name():
            self.expression()
            return
        keyword = self.body.keyword = self.text()
        self.word(Role.KEYWORD)
        self.body.opens = keyword in OPENING
        _STATEMENTS.get(keyword, _TagParser.expression)(self)

    def _set(self) -> None:
        self._targets(Role.SET, "=")
        self.body.opens = self.text() != "="
        self.expression(inner=self.body.opens)

    def _block(self) -> None:
        if self.is_name():
            self.word(Role.BLOCK)
        while self.is_name() and self.body.opens:
            self.body.scoped = self.body.scoped or self.text() == "scoped"
            self.word(Role.KEYWORD)

    def _filter(self) -> None:
        if self.is_name():
            self._dotted(Role.FILTER)
            self.expression(first_callee=len(self.body.words) - 1)

    def _for(self) -> None:
        self._targets(Role.FOR, "in", inner=True)
        self.keyword("in")
        self.expression(stop=("if", "recursive"))
        if self.keyword("if"):
            self.expression(stop=("recursive",), inner=True)
        self.keyword("recursive")
        self.expression()

    def _targets(self, role: Role, end: str, *, inner: bool = False) -> None:
        while self.at < len(self.tokens) and self.text() != end:
            if self.text() == "|":
                return
            if not self.is_name():
                self.at += 1
            elif self.text() in RESERVED:
                if role is Role.SET:
                    return
                self.word(Role.KEYWORD)
            elif self.text(1) == "." and self.is_name(2):
                root = self.word(Role.LOAD)
                self.at += 1
                self.word(Role.ATTRIBUTE, root=root)
            else:
                self.word(role, inner=inner)

    def _signature(self) -> None:
        is_macro = self.body.keyword == "macro"
        parameter_role = Role.MACRO_PARAMETER if is_macro else Role.CALL_PARAMETER
        if is_macro:
            if not self.is_name() or self.text() in RESERVED:
                self.expression()
                return
            self.word(Role.MACRO)
        if self.text() == "(":
            opened = self.tokens[self.at].start
            self.at += 1
            parameters = []
            while self.at < len(self.tokens) and self.text() != ")":
                if self.is_name() and self.text() not in RESERVED:
                    word = self.word(parameter_role, inner=True)
                    default = None
                    if self.text() == "=":
                        self.at += 1
                        first = self.at
                        self.expression(stop=(",", ")"), inner=True)
                        default = self._written(first, self.at)
                    parameters.append(MacroParameter(word, default))
                else:
                    self.at += 1
            self.body.parameters = tuple(parameters)
            close = self.tokens[self.at].end if self.at < len(self.tokens) else len(self.body.source)
            self.body.brackets.append((opened, close))
            self.at += 1
        self.expression()

    def _written(self, first: int, last: int) -> str:
        if last <= first:
            return ""
        return self.body.source[self.tokens[first].start : self.tokens[last - 1].end]

    def _with(self) -> None:
        while self.at < len(self.tokens):
            if self.is_name() and self.text() not in RESERVED:
                self.word(Role.WITH, inner=True)
                while self.text() not in ("=", ""):
                    if self.is_name() and self.text() not in RESERVED:
                        self.word(Role.WITH, inner=True)
                    else:
                        self.at += 1
            if self.text() == "=":
                self.at += 1
            self.expression(stop=(",",))
            self.at += 1

    def _template(self) -> None:
        body, keyword = self.body, self.body.keyword
        body.with_context = keyword in ("include", "extends")
        first = self.at
        stop = {"import": ("as", "with", "without"), "from": ("import",), "include": ("ignore", "with", "without")}
        self.expression(stop=stop.get(keyword, ()))
        body.templates = tuple(token for token in self.tokens[first : self.at] if token.kind == "string")
        if keyword == "import":
            if self.keyword("as") and self.is_name():
                self.word(Role.MODULE)
        elif keyword == "from" and self.keyword("import"):
            self._imported()
        while self.at < len(self.tokens):
            if self.text() in ("with", "without") and self.text(1) == "context":
                body.with_context = self.text() == "with"
            if not self.keyword("ignore", "missing", "with", "without", "context"):
                self.at += 1

    def _imported(self) -> None:
        imports = []
        while self.at < len(self.tokens):
            if not self.is_name():
                self.at += 1
            elif self.text() in ("with", "without") and self.text(1) in ("context", ""):
                break
            elif self.text(1) == "as" and self.is_name(2):
                source = self.word(Role.SOURCE)
                self.keyword("as")
                imports.append((source, self.word(Role.IMPORTED)))
            else:
                word = self.word(Role.IMPORTED)
                imports.append((word, word))
                self.keyword("as")
        self.body.imports = tuple(imports)

    def _dotted(self, role: Role) -> None:
        """Take a filter's or test's name, which may have dots."""
        self.word(role)
        while self.text() == "." and self.is_name(1):
            self.at += 1
            self.word(role)

    def _parameter_name(self, bracket: str, call: int) -> None:
        """The string just passed, if it names a parameter of the instance."""
        words, token = self.body.words, self.tokens[self.at - 1]
        name = self.texts[self.at - 1][1:-1]
        if self.text(-2) != bracket or not words or not name.isidentifier():
            return
        if bracket == "[":
            root = len(words) - 1
            named = self.text() == "]" and self.text(-3) == "parameters" and words[root].role is Role.LOAD
        else:
            root = self.body.calls[call].callee if call >= 0 else -1
            if root < 0:
                return
            named = words[root].text == "template_argument" and self.text() == ")"
            if words[root].text == "get" and (root := words[root].root) >= 0:
                named = words[root].text == "parameters"
        if named:
            words.append(TagWord(Role.PARAMETER, name, token.start + 1, token.end - 1, root=root))

    def expression(self, stop: tuple[str, ...] = (), *, inner: bool = False, first_callee: int = -1) -> None:
        """Read words and calls up to one of `stop` outside brackets, or the end."""
        self.opened, self.chain, self.after_value, self.inner = [], first_callee, first_callee >= 0, inner
        while self.at < len(self.tokens):
            token, text = self.tokens[self.at], self.texts[self.at]
            if not self.opened and text in stop and token.kind in ("name", "operator"):
                break
            callee, self.chain = self.chain, -1
            if token.kind == "name":
                self._name(text, callee)
                continue
            self.at += 1
            if token.kind == "operator":
                _OPERATORS.get(text, _TagParser._separator)(self, text, token, callee)
                continue
            if token.kind == "string" and self.opened:
                self._parameter_name(self.opened[-1][0], self.opened[-1][2])
            self.after_value = True

    def _name(self, text: str, callee: int) -> None:
        """Take a name in an expression; `callee` is the word before it that it may belong to."""
        words, previous = self.body.words, self.texts[self.at - 1] if self.at else ""
        if previous == "." and self.after_value:
            root = callee if callee >= 0 and words[callee].role is Role.LOAD else -1
            self.chain = self.word(Role.ATTRIBUTE, root=root)
        elif previous == "|":
            self._dotted(Role.FILTER)
            self.chain = len(words) - 1
        elif text in RESERVED:
            self._reserved(text)
            return
        elif self.text(1) == "=" and self.opened and self.opened[-1][0] == "(" and previous in ("(", ","):
            call = self.opened[-1][2]
            if call >= 0:
                self.body.calls[call].keywords.append((text, self.tokens[self.at].start))
            self.word(Role.ARGUMENT, call=call)
        else:
            self.chain = self.word(Role.LOAD, inner=self.inner)
        self.after_value = True

    def _reserved(self, text: str) -> None:
        self.word(Role.KEYWORD)
        self.after_value = text in CONSTANTS
        if text == "is":
            self.keyword("not")
            if self.is_name():
                self._dotted(Role.TEST)
                self.chain = len(self.body.words) - 1
                self.after_value = True

    def _open(self, text: str, token: TagToken, callee: int) -> None:
        call = -1
        if text == "(" and self.after_value:
            call = len(self.body.calls)
            self.body.calls.append(TagCall(callee, token.start, -1, [], []))
        self.opened.append((text, token.start, call))
        self.after_value = False

    def _close(self, _text: str, token: TagToken, _callee: int) -> None:
        if self.opened:
            _, start, call = self.opened.pop()
            self.body.brackets.append((start, token.end))
            if call >= 0:
                self.body.calls[call].close = token.start
        self.after_value = True

    def _dot(self, text: str, token: TagToken, callee: int) -> None:
        if self.after_value:
            self.chain = callee
        else:
            self._separator(text, token, callee)

    def _separator(self, text: str, token: TagToken, _callee: int) -> None:
        if text == "," and self.opened and self.opened[-1][2] >= 0:
            self.body.calls[self.opened[-1][2]].commas.append(token.start)
        self.after_value = False


_OPERATORS = {
    **dict.fromkeys("([{", _TagParser._open),
    **dict.fromkeys(")]}", _TagParser._close),
    ".": _TagParser._dot,
}

_STATEMENTS: Mapping[str, Callable[[_TagParser], None]] = {
    "for": _TagParser._for,
    "set": _TagParser._set,
    **dict.fromkeys(("macro", "call"), _TagParser._signature),
    **dict.fromkeys(("block", "endblock"), _TagParser._block),
    "filter": _TagParser._filter,
    "with": _TagParser._with,
    **dict.fromkeys(("include", "extends", "import", "from"), _TagParser._template),
}
