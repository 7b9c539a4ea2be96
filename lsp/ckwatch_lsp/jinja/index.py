"""What names mean across templates.

An included template sees the variables of whoever includes it, an imported one only if it is imported `with context`,
and a template that is extended shares them with the one that extends it. A name that nothing binds is a hook or another
name that is always there, and else a parameter of the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ckwatch_lsp.jinja.entities import (
    BlockName,
    Entity,
    InstanceParameter,
    KnownWord,
    Meaning,
    Place,
    TemplateName,
    Variable,
)
from ckwatch_lsp.jinja.names import Link, Mention, Names, Symbol
from ckwatch_lsp.jinja.syntax import Template
from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.jinja.words import Words
from ckwatch_lsp.text import Position

TOP_LEVEL = (".hip.j2", ".cu.j2", ".cpp.j2")
"""Ends of the names of templates that kernel files name."""


class File:
    """A template with its names."""

    __slots__ = ("names", "path", "template")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.template = Template(text)
        self.names = Names(self.template)


class Index:
    """Templates that belong together. `resolve` finds the path of a template by its name, as includes have it.

    It is a snapshot: it answers for the files that it was made of.
    """

    def __init__(self, files: Mapping[str, File], resolve: Callable[[str], str | None], words: Words) -> None:
        self.files = files
        self.words = words
        self._resolve = resolve
        self._users: dict[str, list[tuple[File, Link]]] = {path: [] for path in files}
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

    def target(self, file: File, link: Link) -> File | None:
        """The template that a link leads to, if it is there."""
        path = self._targets.get((file.path, link.start))
        return self.files[path] if path is not None else None

    def users(self, path: str) -> Sequence[tuple[File, Link]]:
        """Who includes, imports or extends the template at `path`, and where."""
        return self._users.get(path, ())

    def path_of(self, name: str) -> str | None:
        """The path of the template called `name`."""
        return self._resolve(name)

    def meaning(self, path: str, position: Position) -> Meaning | None:
        """What a cursor at `position` is on; None on text, keywords and punctuation."""
        file = self.files[path]
        offset = file.template.lines.offset(position)
        for link in file.names.links:
            if link.start - 1 <= offset <= link.end + 1:
                reach = file.template.lines.range(link.start, link.end)
                return Meaning(reach, link.name, None, (TemplateName(link.name, self._resolve(link.name)),))
        mention = file.names.mention_at(offset)
        if mention is None:
            return None
        entities = self.entities(file, mention)
        reach = file.template.lines.range(mention.start, mention.end)
        return Meaning(reach, mention.name, mention.role, entities) if entities else None

    def entities(self, file: File, mention: Mention) -> tuple[Entity, ...]:
        """What a mention stands for; empty for attributes of values."""
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
                return (KnownWord("filter", mention.name),)
            case Role.TEST:
                return (KnownWord("test", mention.name),)
            case Role.ARGUMENT:
                return self._of_argument(file, mention)
            case Role.SOURCE:
                found = self._imported(file, mention)
                return (found,) if found is not None else ()
            case Role.BLOCK:
                return (BlockName(mention.name, self.family(file.path)),)
            case _:
                return (self._of_symbol(file, mention.symbol),) if mention.symbol is not None else ()

    def symbol(self, variable: Variable) -> Symbol | None:
        """The symbol of `variable`."""
        file = self.files.get(variable.path)
        if file is None or variable.scope >= len(file.names.scopes):
            return None
        return file.names.scopes[variable.scope].symbols.get(variable.name)

    def module(self, file: File, symbol: Symbol) -> File | None:
        """The template that `symbol` is an import of."""
        binding = symbol.first(Role.MODULE)
        link = file.names.link_of(binding.tag) if binding is not None else None
        return self.target(file, link) if link is not None else None

    def callee(self, file: File, tag: int, word: int) -> tuple[Entity, ...]:
        """What the word of a call stands for."""
        mention = file.names.mention_of_word(tag, word)
        return self.entities(file, mention) if mention is not None else ()

    def macro(self, entity: Entity) -> tuple[File, Mention] | None:
        """Where the macro `entity` is defined; None for what is no macro."""
        if isinstance(entity, Variable) and (symbol := self.symbol(entity)) is not None:
            binding = symbol.first(Role.MACRO)
            if binding is not None:
                return self.files[entity.path], binding
        return None

    def free(self, path: str, name: str) -> tuple[Entity, ...]:
        """What `name` means in the template at `path`, which does not bind it."""
        known = self._free.get((path, name))
        if known is not None:
            return known
        found: dict[Entity, None] = {}
        seen: set[str] = set()
        waiting = [path]
        while waiting:
            member = waiting.pop()
            if member in seen:
                continue
            seen.add(member)
            users = [(user, link) for user, link in self._users.get(member, ()) if link.with_context]
            for user, link in users:
                if link.keyword == "extends":
                    symbol = user.names.top.symbols.get(name)
                else:
                    symbol = user.names.lookup(name, link.scope, link.start, link.branch, link.tag)
                if symbol is not None:
                    found[self._of_symbol(user, symbol)] = None
                else:
                    waiting.append(user.path)
            extended = self._extended(member, name)
            found.update(dict.fromkeys(extended))
            if not extended and (not users or member.endswith(TOP_LEVEL)):
                found[self._outside(path, name)] = None
        self._free[path, name] = answer = tuple(found) or (self._outside(path, name),)
        return answer

    def places(self, entity: Entity) -> Iterator[Place]:
        """All mentions of `entity`, file by file."""
        for path in self._paths_of(entity):
            yield from self.places_in(path, entity)

    def places_in(self, path: str, entity: Entity) -> Iterator[Place]:
        """The mentions of `entity` in one template."""
        file = self.files[path]
        for mention in file.names.by_name.get(entity.name, ()):
            if entity in self.entities(file, mention):
                yield Place(path, file.template.lines.range(mention.start, mention.end), mention.role)
        if isinstance(entity, TemplateName):
            for link in file.names.links:
                if link.name == entity.name:
                    yield Place(path, file.template.lines.range(link.start, link.end), Role.SOURCE)

    def definitions(self, entity: Entity) -> list[Place]:
        """Where `entity` is bound: blocks and macros at their names. Nothing for parameters and known words."""
        if isinstance(entity, Variable):
            symbol = self.symbol(entity)
            lines = self.files[entity.path].template.lines if symbol is not None else None
            if symbol is None or lines is None:
                return []
            return [Place(entity.path, lines.range(b.start, b.end), b.role) for b in symbol.bindings]
        if isinstance(entity, BlockName):
            return [place for place in self.places(entity) if place.role is Role.BLOCK and not self._is_end(place)]
        return []

    def family(self, path: str) -> frozenset[str]:
        """The templates that share blocks with the one at `path`: those it extends and those that extend it."""
        known = self._families.get(path)
        if known is not None:
            return known
        family: set[str] = set()
        waiting = [path]
        while waiting:
            member = waiting.pop()
            if member in family:
                continue
            family.add(member)
            waiting += [user.path for user, link in self._users.get(member, ()) if link.keyword == "extends"]
            for link in self.files[member].names.links:
                if link.keyword == "extends" and (target := self._targets.get((member, link.start))) is not None:
                    waiting.append(target)
        answer = frozenset(family)
        self._families.update(dict.fromkeys(answer, answer))
        return answer

    def tops(self, path: str) -> frozenset[str]:
        """The templates that kernel files name and that see what is at `path`: itself, or what includes it."""
        known = self._tops.get(path)
        if known is not None:
            return known
        seen: set[str] = set()
        tops: set[str] = set()
        waiting = [path]
        while waiting:
            member = waiting.pop()
            if member in seen:
                continue
            seen.add(member)
            users = [user.path for user, link in self._users.get(member, ()) if link.with_context]
            if not users or member.endswith(TOP_LEVEL):
                tops.add(member)
            waiting += users
        self._tops[path] = answer = frozenset(tops)
        return answer

    def _paths_of(self, entity: Entity) -> Iterator[str]:
        if isinstance(entity, InstanceParameter):
            yield from (path for path in self.files if not self.tops(path).isdisjoint(entity.templates))
        elif isinstance(entity, BlockName):
            yield from (path for path in self.files if path in entity.templates)
        else:
            yield from self.files

    def _is_end(self, place: Place) -> bool:
        template = self.files[place.path].template
        tag = template.tag_at(template.lines.offset(place.range.end))
        return tag is not None and tag.body.keyword == "endblock"

    def _of_symbol(self, file: File, symbol: Symbol) -> Entity:
        """A symbol as an entity; what is imported under its own name is what it is there."""
        if not symbol.bindings:
            return KnownWord("special", symbol.name)
        binding = symbol.first(Role.IMPORTED)
        found = self._imported(file, binding) if binding is not None else None
        if found is not None and found.name == symbol.name:
            return found
        return Variable(file.path, symbol.scope.index, symbol.name)

    def _imported(self, file: File, mention: Mention) -> Entity | None:
        """What a name in `from … import` is in the other template."""
        body = file.template.tags[mention.tag].body
        source = next((there for there, here in body.imports if mention.word in (there, here)), None)
        link = file.names.link_of(mention.tag)
        target = self.target(file, link) if link is not None else None
        if source is None or target is None:
            return None
        symbol = target.names.exported().get(body.words[source].text)
        return Variable(target.path, 0, symbol.name) if symbol is not None else None

    def _of_attribute(self, file: File, mention: Mention) -> tuple[Entity, ...]:
        root = mention.root
        if root is None:
            return ()
        if root.name == "self" and (root.symbol is None or not root.symbol.bindings):
            return (BlockName(mention.name, self.family(file.path)),)
        if root.name == "kernel" and root.symbol is None and mention.name in self.words.hooks:
            return (KnownWord("hook", mention.name),)
        found: list[Entity] = []
        for entity in self.entities(file, root):
            if isinstance(entity, Variable) and (symbol := self.symbol(entity)) is not None:
                module = self.module(self.files[entity.path], symbol)
                if module is not None and mention.name in module.names.exported():
                    found.append(Variable(module.path, 0, mention.name))
        return tuple(found)

    def _of_argument(self, file: File, mention: Mention) -> tuple[Entity, ...]:
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
        """What a template that the one at `path` extends binds outermost."""
        found: dict[Entity, None] = {}
        for member in self.family(path):
            if member != path and not any(user.path == member for user, _ in self._users.get(path, ())):
                symbol = self.files[member].names.top.symbols.get(name)
                if symbol is not None:
                    found[self._of_symbol(self.files[member], symbol)] = None
        return tuple(found)

    def _outside(self, path: str, name: str) -> Entity:
        if name in self.words.hooks:
            return KnownWord("hook", name)
        if name in self.words.globals:
            return KnownWord("global", name)
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
