"""What a mention can stand for, across templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.text import Range


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
class TemplateName:
    """Another template, as it is named; `path` is None where there is none."""

    name: str
    path: str | None


@dataclass(frozen=True, slots=True)
class KnownWord:
    """A name that is always there."""

    kind: Literal["hook", "global", "filter", "test", "tag", "special"]
    name: str


Entity = Variable | InstanceParameter | BlockName | TemplateName | KnownWord


@dataclass(frozen=True, slots=True)
class Place:
    """A mention in `path`. `role` tells what it does there."""

    path: str
    range: Range
    role: Role

    @property
    def binds(self) -> bool:
        """Whether this is a place where it is given a value or a body."""
        return self.role.binds or self.role is Role.BLOCK


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is at a place, which reaches over `range`: usually one thing, more where an included template is included
    from several others. Never empty."""

    range: Range
    name: str
    role: Role | None
    entities: tuple[Entity, ...]
