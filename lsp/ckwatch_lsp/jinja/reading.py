"""Reads tags: from tokens to words, calls and what statements bind.

A tag is read by itself, and readings are kept by their text: after a keystroke only the tag that changed is read again.
What is no Jinja is passed over.
"""

from __future__ import annotations

from functools import lru_cache

from ckwatch_lsp.jinja.scanning import TagKind, tokens_of
from ckwatch_lsp.jinja.tags import CONSTANTS, OPENING, RESERVED, Call, Parameter, Role, TagBody, Word


@lru_cache(maxsize=8192)
def tag_body(source: str, kind: TagKind, closed: bool) -> TagBody:
    """Read the tag `source`."""
    tokens = tokens_of(source, kind, closed)
    body = TagBody(kind, source, closed, tokens, [], [], [])
    if kind == "variable":
        _Reader(body).expression()
    elif kind == "statement":
        _Reader(body).statement()
    return body


class _Reader:
    """Walks over the tokens of one tag."""

    def __init__(self, body: TagBody) -> None:
        self.body = body
        self.tokens = [token for token in body.tokens if token.kind not in ("begin", "end", "error")]
        self.texts = [body.source[token.start : token.end] for token in self.tokens]
        self.at = 0

    def word(self, role: Role, *, inner: bool = False, root: int = -1, call: int = -1) -> int:
        """Take the present token as a word; its index."""
        token = self.tokens[self.at]
        self.body.words.append(Word(role, self.texts[self.at], token.start, token.end, inner, root, call))
        self.at += 1
        return len(self.body.words) - 1

    def text(self, ahead: int = 0) -> str:
        """The present token's text; empty at the end."""
        index = self.at + ahead
        return self.texts[index] if 0 <= index < len(self.texts) else ""

    def is_name(self, ahead: int = 0) -> bool:
        """Whether the present token is a name."""
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
        match keyword:
            case "for":
                self._for()
            case "set":
                self._targets(Role.SET, "=")
                self.body.opens = self.text() != "="
                self.expression(inner=self.body.opens)
            case "macro" | "call":
                self._signature(keyword)
            case "block":
                if self.is_name():
                    self.word(Role.BLOCK)
                while self.is_name():
                    self.body.scoped = self.body.scoped or self.text() == "scoped"
                    self.word(Role.KEYWORD)
            case "endblock":
                if self.is_name():
                    self.word(Role.BLOCK)
            case "filter":
                if self.is_name():
                    self._dotted(Role.FILTER)
                    self._parenthesis_after(len(self.body.words) - 1)
            case "with":
                self._with()
            case "include" | "extends" | "import" | "from":
                self._template(keyword)
            case _:
                self.expression()

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

    def _signature(self, keyword: str) -> None:
        parameter_role = Role.MACRO_PARAMETER if keyword == "macro" else Role.CALL_PARAMETER
        if keyword == "macro":
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
                    parameters.append(Parameter(word, default))
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

    def _template(self, keyword: str) -> None:
        body = self.body
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

    def _parenthesis_after(self, callee: int) -> None:
        self.expression(first_callee=callee)

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
            words.append(Word(Role.PARAMETER, name, token.start + 1, token.end - 1, root=root))

    def expression(self, stop: tuple[str, ...] = (), *, inner: bool = False, first_callee: int = -1) -> None:
        """Read words and calls up to one of `stop` outside brackets, or the end."""
        body, tokens, texts = self.body, self.tokens, self.texts
        opened: list[tuple[str, int, int]] = []
        chain = first_callee
        after_value = first_callee >= 0
        while self.at < len(tokens):
            token, text = tokens[self.at], texts[self.at]
            if not opened and text in stop and token.kind in ("name", "operator"):
                break
            callee, chain = chain, -1
            if token.kind == "name":
                previous = texts[self.at - 1] if self.at else ""
                if previous == "." and after_value:
                    root = callee if callee >= 0 and body.words[callee].role is Role.LOAD else -1
                    chain = self.word(Role.ATTRIBUTE, root=root)
                elif previous == "|":
                    self._dotted(Role.FILTER)
                    chain = len(body.words) - 1
                elif text in RESERVED:
                    self.word(Role.KEYWORD)
                    after_value = text in CONSTANTS
                    if text == "is":
                        self.keyword("not")
                        if self.is_name():
                            self._dotted(Role.TEST)
                            chain = len(body.words) - 1
                            after_value = True
                    continue
                elif self.text(1) == "=" and opened and opened[-1][0] == "(" and previous in ("(", ","):
                    call = opened[-1][2]
                    if call >= 0:
                        body.calls[call].keywords.append((text, token.start))
                    self.word(Role.ARGUMENT, call=call)
                else:
                    chain = self.word(Role.LOAD, inner=inner)
                after_value = True
                continue
            self.at += 1
            if token.kind != "operator":
                if token.kind == "string" and opened:
                    self._parameter_name(opened[-1][0], opened[-1][2])
                after_value = True
                continue
            if text in ("(", "[", "{"):
                call = -1
                if text == "(" and after_value:
                    call = len(body.calls)
                    body.calls.append(Call(callee, token.start, -1, [], []))
                opened.append((text, token.start, call))
                after_value = False
            elif text in (")", "]", "}"):
                if opened:
                    _, start, call = opened.pop()
                    body.brackets.append((start, token.end))
                    if call >= 0:
                        body.calls[call].close = token.start
                after_value = True
            elif text == "." and after_value:
                chain = callee
            else:
                if text == "," and opened and opened[-1][2] >= 0:
                    body.calls[opened[-1][2]].commas.append(token.start)
                after_value = False
