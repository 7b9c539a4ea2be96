"""The meaning of names across templates.

An included template sees the variables of the templates that include it, an imported one only if it is imported
`with context`, and a template that is extended shares them with the one that extends it. A name that nothing binds is
a hook or another built-in name, and else a parameter of the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch.wire.language import Word
from ckwatch_lsp.templates.language.names import SPECIAL_NAMES, BoundName, Mention, TemplateNames, TemplateReference
from ckwatch_lsp.templates.language.syntax import TemplateTree
from ckwatch_lsp.templates.language.tags import Role


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, macro, parameter of a macro, or module: the name `name` in the scope with index `scope` of `path`."""

    path: str
    scope: int
    name: str


@dataclass(frozen=True, slots=True)
class InstanceParameter:
    """The parameter `name` of the instances of the templates `templates` (paths): kernel files give it its value."""

    name: str
    templates: frozenset[str]


@dataclass(frozen=True, slots=True)
class BlockName:
    """The block `name` of the templates `templates` (paths), which extend one another."""

    name: str
    templates: frozenset[str]


@dataclass(frozen=True, slots=True)
class TemplateTarget:
    """Another template, as it is named; `path` is None where there is none."""

    name: str
    path: str | None


@dataclass(frozen=True, slots=True)
class BuiltinName:
    """A name that is always there."""

    kind: Literal["hook", "global", "filter", "test", "tag", "special"]
    name: str


Entity = Variable | InstanceParameter | BlockName | TemplateTarget | BuiltinName


@dataclass(frozen=True, slots=True)
class TemplatePlace:
    """A mention in `path`. `role` is what it does there."""

    path: str
    range: Range
    role: Role

    @property
    def binds(self) -> bool:
        """True if this is a place where it is given a value or a body."""
        return self.role.binds or self.role is Role.BLOCK


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a place, which reaches over `range`: usually one thing, more if an included template is included
    from several others. Never empty."""

    range: Range
    name: str
    role: Role | None
    entities: tuple[Entity, ...]


JINJA_GLOBALS = ("range", "dict", "lipsum", "cycler", "joiner", "namespace")
"""Functions of Jinja2; they are known before the daemon has answered."""


@dataclass(frozen=True, slots=True)
class BuiltinWords:
    """Hooks, filters, tests, names that are always there, statements, and names that Jinja2 binds in certain places."""

    hooks: Mapping[str, Word] = field(default_factory=dict)
    filters: Mapping[str, Word] = field(default_factory=dict)
    tests: Mapping[str, Word] = field(default_factory=dict)
    globals: Mapping[str, Word] = field(default_factory=dict)
    tags: Mapping[str, Word] = field(default_factory=dict)
    specials: Mapping[str, Word] = field(default_factory=dict)

    def of(self, kind: str) -> Mapping[str, Word]:
        """The words of a `BuiltinName`'s kind."""
        found: Mapping[str, Word] = getattr(self, _KINDS[kind], {}) if kind in _KINDS else {}
        return found


_KINDS = {
    "hook": "hooks",
    "filter": "filters",
    "test": "tests",
    "global": "globals",
    "tag": "tags",
    "special": "specials",
}


def builtin_words(
    hooks: Iterable[Word] = (),
    filters: Iterable[Word] = (),
    tests: Iterable[Word] = (),
    global_names: Iterable[Word] = (),
    tags: Iterable[Word] = (),
) -> BuiltinWords:
    """The words of a `Vocabulary`."""
    known = {name: Word(name=name, signature=name) for name in JINJA_GLOBALS} | _by_name(global_names)
    specials = {name: known.pop(name) for name in sorted(SPECIAL_NAMES & known.keys())}
    return BuiltinWords(_by_name(hooks), _by_name(filters), _by_name(tests), known, _by_name(tags), specials)


def _by_name(values: Iterable[Word]) -> dict[str, Word]:
    return {word.name: word for word in values}


TOP_LEVEL = (".hip.j2", ".cu.j2", ".cpp.j2")
"""Ends of the names of templates that kernel files name."""


class TemplateFile:
    """A template with its names."""

    __slots__ = ("names", "path", "template")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.template = TemplateTree(text)
        self.names = TemplateNames(self.template)


class TemplateIndex:
    """Templates that belong together. `resolve` finds the path of a template by its name, as includes have it.

    It is a snapshot: it answers for the files that it was made of.
    """

    def __init__(
        self, files: Mapping[str, TemplateFile], resolve: Callable[[str], str | None], words: BuiltinWords
    ) -> None:
        self.files = files
        self.words = words
        self._resolve = resolve
        self._users: dict[str, list[tuple[TemplateFile, TemplateReference]]] = {path: [] for path in files}
        self._targets: dict[tuple[str, int], str] = {}
        for path, file in files.items():
            for link in file.names.links:
                target = resolve(link.name)
                if target is None or target not in files:
                    continue
                self._targets[path, link.start] = target
                self._users[target].append((file, link))
        self._tops: dict[str, frozenset[str]] = {}
        self._families: dict[str, frozenset[str]] = {}
        self._groups: dict[str, dict[str, frozenset[str]]] = {}
        self._free: dict[tuple[str, str], tuple[Entity, ...]] = {}

    def target(self, file: TemplateFile, link: TemplateReference) -> TemplateFile | None:
        """The template that a link leads to, if it is there."""
        path = self._targets.get((file.path, link.start))
        return self.files[path] if path is not None else None

    def users(self, path: str) -> Sequence[tuple[TemplateFile, TemplateReference]]:
        """Who includes, imports or extends the template at `path`, and where."""
        return self._users.get(path, ())

    def path_of(self, name: str) -> str | None:
        """The path of the template called `name`."""
        return self._resolve(name)

    def meaning(self, path: str, position: Position) -> Meaning | None:
        """Return the meaning of the place of a cursor at `position`; None on text, keywords and punctuation."""
        file = self.files[path]
        offset = file.template.lines.offset(position)
        for link in file.names.links:
            if link.start - 1 <= offset <= link.end + 1:
                reach = file.template.lines.range(link.start, link.end)
                return Meaning(reach, link.name, None, (TemplateTarget(link.name, self._resolve(link.name)),))
        mention = file.names.mention_at(offset)
        if mention is None:
            return None
        entities = self.entities(file, mention)
        reach = file.template.lines.range(mention.start, mention.end)
        return Meaning(reach, mention.name, mention.role, entities) if entities else None

    def entities(self, file: TemplateFile, mention: Mention) -> tuple[Entity, ...]:
        """Return the entities that a mention stands for; empty for attributes of values."""
        match mention.role:
            case Role.LOAD:
                if mention.symbol is not None:
                    return (self._of_symbol(file, mention.symbol),)
                return self.free(file.path, mention.name)
            case Role.ATTRIBUTE:
                return self._of_attribute(file, mention)
            case Role.PARAMETER:
                return (self._parameter(file.path, mention.name),)
            case Role.FILTER:
                return (BuiltinName("filter", mention.name),)
            case Role.TEST:
                return (BuiltinName("test", mention.name),)
            case Role.ARGUMENT:
                return self._of_argument(file, mention)
            case Role.SOURCE:
                found = self._imported(file, mention)
                return (found,) if found is not None else ()
            case Role.BLOCK:
                return (BlockName(mention.name, self.family(file.path)),)
            case _:
                return (self._of_symbol(file, mention.symbol),) if mention.symbol is not None else ()

    def symbol(self, variable: Variable) -> BoundName | None:
        """The symbol of `variable`."""
        file = self.files.get(variable.path)
        if file is None or variable.scope >= len(file.names.scopes):
            return None
        return file.names.scopes[variable.scope].symbols.get(variable.name)

    def module(self, file: TemplateFile, symbol: BoundName) -> TemplateFile | None:
        """The template that `symbol` is an import of."""
        binding = symbol.first(Role.MODULE)
        link = file.names.link_of(binding.tag) if binding is not None else None
        return self.target(file, link) if link is not None else None

    def callee(self, file: TemplateFile, tag: int, word: int) -> tuple[Entity, ...]:
        """Return the entities that the word of a call stands for."""
        mention = file.names.mention_of_word(tag, word)
        return self.entities(file, mention) if mention is not None else ()

    def macro(self, entity: Entity) -> tuple[TemplateFile, Mention] | None:
        """Return the definition of the macro `entity`; None for anything else."""
        if isinstance(entity, Variable) and (symbol := self.symbol(entity)) is not None:
            binding = symbol.first(Role.MACRO)
            if binding is not None:
                return self.files[entity.path], binding
        return None

    def free(self, path: str, name: str) -> tuple[Entity, ...]:
        """Return the entities that `name` means in the template at `path`, which does not bind it."""
        known = self._free.get((path, name))
        if known is not None:
            return known
        found: dict[Entity, None] = {}

        def unbound(member: str) -> list[str]:
            """The users of a template that do not bind the name either."""
            users = [(user, link) for user, link in self.users(member) if link.with_context]
            symbols = [(user, self._seen_by(user, link, name)) for user, link in users]
            found.update({self._of_symbol(user, symbol): None for user, symbol in symbols if symbol is not None})
            extended = self._extended(member, name)
            found.update(dict.fromkeys(extended))
            if not extended and (not users or member.endswith(TOP_LEVEL)):
                found[self._outside(path, name)] = None
            return [user.path for user, symbol in symbols if symbol is None]

        _reached(path, unbound)
        self._free[path, name] = answer = tuple(found) or (self._outside(path, name),)
        return answer

    def _seen_by(self, user: TemplateFile, link: TemplateReference, name: str) -> BoundName | None:
        """Names that a template binds for one that it includes or extends."""
        if link.keyword == "extends":
            return user.names.top.symbols.get(name)
        return user.names.lookup(name, link.scope, link.start, link.branch, link.tag)

    def places(self, entity: Entity) -> Iterator[TemplatePlace]:
        """All mentions of `entity`, file by file."""
        for path in self._paths_of(entity):
            yield from self.places_in(path, entity)

    def places_in(self, path: str, entity: Entity) -> Iterator[TemplatePlace]:
        """The mentions of `entity` in one template."""
        file = self.files[path]
        for mention in file.names.by_name.get(entity.name, ()):
            if entity in self.entities(file, mention):
                yield TemplatePlace(path, file.template.lines.range(mention.start, mention.end), mention.role)
        if isinstance(entity, TemplateTarget):
            for link in file.names.links:
                if link.name == entity.name:
                    yield TemplatePlace(path, file.template.lines.range(link.start, link.end), Role.SOURCE)

    def definitions(self, entity: Entity) -> list[TemplatePlace]:
        """Return the places that bind `entity`: blocks and macros at their names. Nothing for parameters and known
        words."""
        if isinstance(entity, Variable):
            symbol = self.symbol(entity)
            lines = self.files[entity.path].template.lines if symbol is not None else None
            if symbol is None or lines is None:
                return []
            return [TemplatePlace(entity.path, lines.range(b.start, b.end), b.role) for b in symbol.bindings]
        if isinstance(entity, BlockName):
            return [place for place in self.places(entity) if place.role is Role.BLOCK and not self._is_end(place)]
        return []

    def family(self, path: str) -> frozenset[str]:
        """The templates that share blocks with the one at `path`: those it extends and those that extend it."""
        known = self._families.get(path)
        if known is not None:
            return known
        answer = frozenset(_reached(path, self._extending))
        self._families.update(dict.fromkeys(answer, answer))
        return answer

    def _extending(self, path: str) -> list[str]:
        """The templates that the one at `path` extends, and that extend it."""
        links = (link for link in self.files[path].names.links if link.keyword == "extends")
        targets = [self._targets.get((path, link.start)) for link in links]
        users = [user.path for user, link in self.users(path) if link.keyword == "extends"]
        return [*users, *(target for target in targets if target is not None)]

    def readers(self, path: str) -> list[str]:
        """The templates that include, import or extend the one at `path`, and that it sees."""
        return [user.path for user, link in self.users(path) if link.with_context]

    def tops(self, path: str) -> frozenset[str]:
        """The templates that kernel files name and that see what is at `path`: itself, or what includes it."""
        known = self._tops.get(path)
        if known is not None:
            return known
        reached = _reached(path, self.readers)
        answer = frozenset(one for one in reached if one.endswith(TOP_LEVEL) or not self.readers(one))
        self._tops[path] = answer
        return answer

    def _paths_of(self, entity: Entity) -> Iterator[str]:
        if isinstance(entity, InstanceParameter):
            yield from (path for path in self.files if not self.tops(path).isdisjoint(entity.templates))
        elif isinstance(entity, BlockName):
            yield from (path for path in self.files if path in entity.templates)
        else:
            yield from self.files

    def _is_end(self, place: TemplatePlace) -> bool:
        template = self.files[place.path].template
        tag = template.tag_at(template.lines.offset(place.range.end))
        return tag is not None and tag.body.keyword == "endblock"

    def _of_symbol(self, file: TemplateFile, symbol: BoundName) -> Entity:
        """A symbol as an entity; what is imported under its own name is what it is there."""
        if not symbol.bindings:
            return BuiltinName("special", symbol.name)
        binding = symbol.first(Role.IMPORTED)
        found = self._imported(file, binding) if binding is not None else None
        if found is not None and found.name == symbol.name:
            return found
        return Variable(file.path, symbol.scope.index, symbol.name)

    def _imported(self, file: TemplateFile, mention: Mention) -> Entity | None:
        """Return the entity in the other template that a name in `from … import` means."""
        body = file.template.tags[mention.tag].body
        source = next((there for there, here in body.imports if mention.word in (there, here)), None)
        link = file.names.link_of(mention.tag)
        target = self.target(file, link) if link is not None else None
        if source is None or target is None:
            return None
        symbol = target.names.exported().get(body.words[source].text)
        return Variable(target.path, 0, symbol.name) if symbol is not None else None

    def _of_attribute(self, file: TemplateFile, mention: Mention) -> tuple[Entity, ...]:
        root = mention.root
        if root is None:
            return ()
        if root.name == "self" and (root.symbol is None or not root.symbol.bindings):
            return (BlockName(mention.name, self.family(file.path)),)
        if root.name == "kernel" and root.symbol is None and mention.name in self.words.hooks:
            return (BuiltinName("hook", mention.name),)
        found: list[Entity] = []
        for entity in self.entities(file, root):
            if isinstance(entity, Variable) and (symbol := self.symbol(entity)) is not None:
                module = self.module(self.files[entity.path], symbol)
                if module is not None and mention.name in module.names.exported():
                    found.append(Variable(module.path, 0, mention.name))
        return tuple(found)

    def _of_argument(self, file: TemplateFile, mention: Mention) -> tuple[Entity, ...]:
        body = file.template.tags[mention.tag].body
        call = body.words[mention.word].call
        if call < 0:
            return ()
        found: list[Entity] = []
        for entity in self.callee(file, mention.tag, body.calls[call].callee):
            macro = self.macro(entity)
            if macro is not None:
                scope = macro[0].names.macro_scopes.get(macro[1].tag)
                if scope is not None and mention.name in scope.symbols:
                    found.append(Variable(macro[0].path, scope.index, mention.name))
        return tuple(found)

    def _extended(self, path: str, name: str) -> tuple[Entity, ...]:
        """Return the outermost bindings of a template that the one at `path` extends."""
        found: dict[Entity, None] = {}
        for member in self.family(path):
            if member != path and not any(user.path == member for user, _ in self._users.get(path, ())):
                symbol = self.files[member].names.top.symbols.get(name)
                if symbol is not None:
                    found[self._of_symbol(self.files[member], symbol)] = None
        return tuple(found)

    def _outside(self, path: str, name: str) -> Entity:
        if name in self.words.hooks:
            return BuiltinName("hook", name)
        if name in self.words.globals:
            return BuiltinName("global", name)
        return self._parameter(path, name)

    def _parameter(self, path: str, name: str) -> InstanceParameter:
        """The parameter `name`, the same one in all templates that lead to each other by templates that mention it."""
        groups = self._groups.get(name)
        if groups is None:
            groups = self._groups[name] = {}
            for mentioning, file in self.files.items():
                if name in file.names.by_name:
                    group = self.tops(mentioning).union(*(groups.get(top, ()) for top in self.tops(mentioning)))
                    groups.update(dict.fromkeys(group, group))
        tops = self.tops(path)
        return InstanceParameter(name, next((groups[top] for top in tops if top in groups), tops))


def _reached(start: str, following: Callable[[str], Iterable[str]]) -> Iterable[str]:
    """`start` and everything that it leads to, each once."""
    found: dict[str, None] = {}
    waiting = [start]
    while waiting:
        member = waiting.pop()
        if member not in found:
            found[member] = None
            waiting += following(member)
    return found


def parameters_of(index: TemplateIndex, path: str, *, besides: int = -1) -> list[str]:
    """The names of parameters in the template at `path` and in those that lead to it or that it leads to, sorted.

    A mention that ends at the offset `besides` of the template does not count: the user is typing it.
    """
    tops = index.tops(path)
    found: set[str] = set()
    for own, file in index.files.items():
        if not index.tops(own).isdisjoint(tops):
            found.update(_parameters_in(index, file))
    written = index.files[path].names.mention_at(besides) if besides >= 0 else None
    if written is not None and written.name in found and not _has_another(index, written, tops):
        found.discard(written.name)
    return sorted(found)


def _parameters_in(index: TemplateIndex, file: TemplateFile) -> Iterator[str]:
    for name, mentions in file.names.by_name.items():
        first = next((mention for mention in mentions if may_be_parameter(mention)), None)
        if first is not None and any(isinstance(each, InstanceParameter) for each in index.entities(file, first)):
            yield name


def _has_another(index: TemplateIndex, written: Mention, tops: frozenset[str]) -> bool:
    """Return True if the name of `written` is mentioned elsewhere, too."""
    return any(
        mention is not written and may_be_parameter(mention)
        for own, file in index.files.items()
        if not index.tops(own).isdisjoint(tops)
        for mention in file.names.by_name.get(written.name, ())
    )


def may_be_parameter(mention: Mention) -> bool:
    """Return True if a mention may be of a parameter of the instance: nothing in its template binds it."""
    return mention.role is Role.PARAMETER or (mention.role is Role.LOAD and mention.symbol is None)


def printing_tags(index: TemplateIndex, path: str, entity: Entity) -> list[Range]:
    """The `{{ name }}` of `entity` in the template at `path`, with nothing but the name in them."""
    file = index.files[path]
    found: list[Range] = []
    for mention in file.names.by_name.get(entity.name, ()):
        tag = file.template.tags[mention.tag]
        alone = tag.body.kind == "variable" and [token.kind for token in tag.body.tokens] == ["begin", "name", "end"]
        if alone and entity in index.entities(file, mention):
            found.append(file.template.lines.range(tag.start, tag.end))
    return found
