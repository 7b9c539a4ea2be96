"""The names of one template: what binds them, in which scope, and what each mention of a name stands for.

Jinja2's rules: loops, macros, calls, blocks, `with`, `filter` and `set` with a body have scopes, `if` has none. A
mention in the same scope before the first binding means the name from outside, so that `{% set x = x | default(1) %}`
reads the instance's parameter; a mention in an inner scope means the binding wherever it stands. Branches of one `if`
do not see each other's bindings. A block sees the template's outermost names only, unless it is `scoped`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import field

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_lsp.templates.language.syntax import TemplateBlock, TemplateTag, TemplateTree
from ckwatch_lsp.templates.language.tags import Role

SCOPES = frozenset(("for", "macro", "call", "block", "filter", "set", "with", "autoescape"))

SPECIAL = {
    "for": frozenset(("loop",)),
    "macro": frozenset(("caller", "varargs", "kwargs")),
    "block": frozenset(("super",)),
    "template": frozenset(("self",)),
}
"""Names that Jinja2 binds itself, by kind of scope."""

SPECIAL_NAMES = frozenset(name for names in SPECIAL.values() for name in names)

Branch = tuple[tuple[int, int], ...]
"""The branches around a place: (opening tag, number of the branch), outermost first."""


@dataclass(slots=True, eq=False)
class Mention:
    """A name at [start, end) of the text. `root`: what an attribute belongs to, where that is a plain name.

    `symbol`: what it stands for in this template; None where that comes from outside.
    """

    start: int
    end: int
    name: str
    role: Role
    tag: int
    scope: NameScope
    branch: Branch
    word: int
    inner: bool = False
    symbol: BoundName | None = None
    root: Mention | None = None


@dataclass(slots=True, eq=False)
class BoundName:
    """A name of one scope, with all that binds it. Without bindings it is one of `SPECIAL`."""

    name: str
    scope: NameScope
    bindings: list[Mention] = field(default_factory=list)
    _firsts: dict[str, Mention] = field(default_factory=dict)

    def bind(self, mention: Mention) -> None:
        """Add what binds it."""
        self.bindings.append(mention)
        self._firsts.setdefault(mention.role.value, mention)

    def first(self, role: Role) -> Mention | None:
        """The first of its bindings with this role."""
        return self._firsts.get(role.value)

    @property
    def role(self) -> Role | None:
        """How it was bound first."""
        return self.bindings[0].role if self.bindings else None


@dataclass(slots=True, eq=False)
class NameScope:
    """Names bound together. `kind` is the statement's keyword, or `template`; `index` counts scopes in order."""

    kind: str
    index: int
    block: TemplateBlock
    parent: NameScope | None
    scoped: bool = False
    symbols: dict[str, BoundName] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class TemplateReference:
    """A string that names another template, at [start, end) within its quotes, by a statement or by a hook."""

    keyword: str
    name: str
    start: int
    end: int
    with_context: bool
    tag: int
    scope: NameScope
    branch: Branch


class TemplateNames:
    """All names of `template`."""

    def __init__(self, template: TemplateTree) -> None:
        self.template = template
        self.top = NameScope("template", 0, template.root, None)
        self.scopes = [self.top]
        self.mentions: list[Mention] = []
        self.by_name: dict[str, list[Mention]] = {}
        self.links: list[TemplateReference] = []
        self.macro_scopes: dict[int, NameScope] = {}
        self._of_tag: dict[int, tuple[int, int]] = {}
        self._read()
        for mention in self.mentions:
            self.by_name.setdefault(mention.name, []).append(mention)
            if mention.role is Role.LOAD:
                mention.symbol = self.lookup(
                    mention.name, mention.scope, mention.start, mention.branch, -1 if mention.inner else mention.tag
                )
        self._drop_shadowed_parameters()
        self._starts = [mention.start for mention in self.mentions]

    def lookup(self, name: str, scope: NameScope, offset: int, branch: Branch, tag: int = -1) -> BoundName | None:
        """Return the binding of `name` at `offset` in `scope`; None if it comes from outside the template.

        Bindings in the tag with the index `tag` do not count.
        """
        for own, here in self._outwards(scope):
            symbol = own.symbols.get(name)
            if symbol is not None and any(
                (not here or (binding.start < offset and binding.tag != tag)) and _joinable(binding.branch, branch)
                for binding in symbol.bindings
            ):
                return symbol
            if name in SPECIAL.get(own.kind, ()):
                return BoundName(name, own)
        return None

    def _outwards(self, scope: NameScope) -> Iterator[tuple[NameScope, bool]]:
        """A scope and those around it that it sees, each with True if it is the first."""
        own: NameScope | None = scope
        while own is not None:
            yield own, own is scope
            own = self.top if own.kind == "block" and not own.scoped else own.parent

    def visible(self, offset: int) -> dict[str, BoundName]:
        """All names that can be used at `offset`, those of inner scopes first."""
        branch = self.branch_at(offset)
        found: dict[str, BoundName] = {}
        for own, here in self._outwards(self.scope_at(offset)):
            for name, symbol in own.symbols.items():
                if name not in found and any(
                    (not here or binding.end < offset) and _joinable(binding.branch, branch)
                    for binding in symbol.bindings
                ):
                    found[name] = symbol
            for name in sorted(SPECIAL.get(own.kind, ())):
                found.setdefault(name, BoundName(name, own))
        return found

    def scope_at(self, offset: int) -> NameScope:
        """The innermost scope whose body holds `offset`; an opening tag belongs to what is around it."""
        found = self.top
        for scope in self.scopes[1:]:
            opener = self.template.tags[scope.block.opener]
            if opener.start > offset:
                break
            if opener.end <= offset <= scope.block.end:
                found = scope
        return found

    def branch_at(self, offset: int) -> Branch:
        """The branches around `offset`."""
        branch: list[tuple[int, int]] = []
        block: TemplateBlock | None = self.template.block_at(offset)
        while block is not None:
            if block.keyword in ("if", "for"):
                number = sum(self.template.tags[index].start <= offset for index in block.branches)
                branch.append((block.opener, number))
            block = block.parent
        return tuple(reversed(branch))

    def mention_at(self, offset: int) -> Mention | None:
        """The name that a cursor at `offset` touches."""
        index = bisect_right(self._starts, offset) - 1
        for candidate in (index, index - 1):
            if candidate >= 0 and self.mentions[candidate].start <= offset <= self.mentions[candidate].end:
                return self.mentions[candidate]
        return None

    def mentions_of(self, tag: int) -> list[Mention]:
        """The names in a tag, in the order of its words."""
        first, last = self._of_tag.get(tag, (0, 0))
        return sorted(self.mentions[first:last], key=lambda mention: mention.word)

    def mention_of_word(self, tag: int, word: int) -> Mention | None:
        """The mention made by a word of a tag."""
        return next((mention for mention in self.mentions_of(tag) if mention.word == word), None)

    def link_of(self, tag: int) -> TemplateReference | None:
        """The first link of a tag."""
        at = bisect_left(self.links, tag, key=lambda link: link.tag)
        return self.links[at] if at < len(self.links) and self.links[at].tag == tag else None

    def exported(self) -> dict[str, BoundName]:
        """Return the attributes of an import of this template: outermost variables and macros."""
        return {
            name: symbol
            for name, symbol in self.top.symbols.items()
            if not name.startswith("_") and (symbol.first(Role.SET) or symbol.first(Role.MACRO))
        }

    def _read(self) -> None:
        template = self.template
        opened = {block.opener: block for block in template.blocks[1:]}
        divided = {index: block for block in template.blocks for index in block.branches}
        blocks: list[tuple[TemplateBlock, NameScope, int]] = [(template.root, self.top, 0)]
        branch: Branch = ()
        for index, tag in enumerate(template.tags):
            if not tag.body.words:
                continue
            outside = len(blocks)
            while len(blocks) > 1 and blocks[-1][0].end <= tag.start:
                blocks.pop()
            if (block := divided.get(index)) is not None and blocks[-1][0] is block:
                blocks[-1] = (block, blocks[-1][1], blocks[-1][2] + 1)
                outside = -1
            if outside != len(blocks):
                branch = _branch(blocks)
            scope = blocks[-1][1]
            inner, inner_branch, outer_branch = scope, branch, branch
            block = opened.get(index)
            if block is not None and (block.keyword != "set" or block.closer >= 0):
                if block.keyword in SCOPES:
                    inner = NameScope(block.keyword, len(self.scopes), block, scope, tag.body.scoped)
                    self.scopes.append(inner)
                    if block.keyword == "macro":
                        self.macro_scopes[index] = inner
                blocks.append((block, inner, 0))
                branch = inner_branch = _branch(blocks)
            self._words(index, tag, scope, inner, outer_branch, inner_branch)
            self._links(index, tag, scope, outer_branch)

    def _words(
        self, index: int, tag: TemplateTag, scope: NameScope, inner: NameScope, branch: Branch, inner_branch: Branch
    ) -> None:
        made: dict[int, Mention] = {}
        for number, word in enumerate(tag.body.words):
            if word.role is Role.KEYWORD:
                continue
            own, own_branch = (inner, inner_branch) if word.inner else (scope, branch)
            start, end = tag.start + word.start, tag.start + word.end
            mention = Mention(start, end, word.text, word.role, index, own, own_branch, number, word.inner)
            made[number] = mention
            if word.root >= 0:
                mention.root = made.get(word.root)
                of_parameters = mention.root is not None and mention.root.name == "parameters"
                if word.role is Role.ATTRIBUTE and of_parameters and word.text not in _MAPPING_METHODS:
                    mention.role = Role.PARAMETER
            if word.role.binds:
                symbol = own.symbols.get(word.text)
                if symbol is None:
                    symbol = own.symbols[word.text] = BoundName(word.text, own)
                symbol.bind(mention)
                mention.symbol = symbol
        if made:
            self._of_tag[index] = (len(self.mentions), len(self.mentions) + len(made))
            self.mentions.extend(sorted(made.values(), key=lambda mention: mention.start))

    def _links(self, index: int, tag: TemplateTag, scope: NameScope, branch: Branch) -> None:
        body = tag.body
        for token in body.templates:
            name = body.source[token.start + 1 : token.end].rstrip("\"'")
            start = tag.start + token.start + 1
            self.links.append(
                TemplateReference(body.keyword, name, start, start + len(name), body.with_context, index, scope, branch)
            )
        for call in body.calls:
            callee = body.words[call.callee] if call.callee >= 0 else None
            if callee is None or callee.text not in ("header", "globals"):
                continue
            following = next((token for token in body.tokens if token.start > call.open), None)
            if following is not None and following.kind == "string":
                family = body.text(following)[1:-1]
                name = f"hooks/{callee.text}_{family}.j2"
                start = tag.start + following.start + 1
                self.links.append(
                    TemplateReference("hook", name, start, start + len(family), False, index, scope, branch)
                )

    def _drop_shadowed_parameters(self) -> None:
        """Drop parameters where the template binds `parameters` or `template_argument` itself: they name no parameters
        then."""
        shadowed = [
            mention
            for mention in self.mentions
            if mention.role is Role.PARAMETER and mention.root is not None and mention.root.symbol is not None
        ]
        for mention in shadowed:
            mention.role = Role.ATTRIBUTE


_MAPPING_METHODS = frozenset(("get", "items", "keys", "values"))


def _branch(blocks: list[tuple[TemplateBlock, NameScope, int]]) -> Branch:
    return tuple((block.opener, number) for block, _, number in blocks if block.keyword in ("if", "for"))


def _joinable(binding: Branch, use: Branch) -> bool:
    """Return True if a binding in one branch can be seen in the other."""
    if not binding or not use or binding == use:
        return True
    numbers = dict(use)
    return all(numbers.get(opener, number) == number for opener, number in binding)
