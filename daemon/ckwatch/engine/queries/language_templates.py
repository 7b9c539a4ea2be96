"""A template's needs: the files that it is made of, and the parameters that it mentions.

Imports Jinja2, so it is loaded when an editor first asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from jinja2 import TemplateError, meta, nodes

from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.reference import parameter_description, parameter_kind_name, rules_of
from ckwatch.engine.queries.language_vocabulary import BLOCK_WORDS, VARIABLES
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import OPERATION_NAME, ParameterType, ValueKind, declarations
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.system.user_files import read_file
from ckwatch.wire.language import ParameterDetail, RuleDetail, TemplateDetail
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.template_search import TemplateSearch
from ckwatch.workspace.toml import toml_value

FILE_LIMIT = 500
"""Templates that are searched for one answer at most."""

TEXT_LIMIT_BYTES = 16 * 1024 * 1024

PARTS_KEPT = 256
"""Texts of templates whose names are remembered: an edit changes one of them."""

_DESCRIBED = re.compile(r"^[ \t]*([A-Za-z_]\w*)[ \t]*:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"\{#-?(.*?)-?#\}", re.DOTALL)
_NAMED_IN_TEXT = re.compile(rf"\b{OPERATION_NAME}")


@dataclass(frozen=True, slots=True)
class _TemplateFile:
    """The references of one template. `mentioned` are names that it does not set itself, in order.

    `own` are names that it sets, `optional` those with a `default` filter or a question whether they are defined,
    `docs` and `types` come from lines `NAME: text` and `NAME (TYPE): text` in its comments, `operations` are CK's
    device operations.
    """

    references: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    docs: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, ParameterType] = field(default_factory=dict)
    operations: tuple[str, ...] = ()


@dataclass(slots=True)
class _References:
    """The references of one template and all that it includes."""

    files: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    parts: list[_TemplateFile] = field(default_factory=list)

    @property
    def mentioned(self) -> list[str]:
        """In order, those that a template of the same closure sets left out."""
        own = frozenset[str]().union(*(part.own for part in self.parts))
        return list(dict.fromkeys(name for part in self.parts for name in part.mentioned if name not in own))

    @property
    def optional(self) -> frozenset[str]:
        """Names that need not be given."""
        return frozenset[str]().union(*(part.optional for part in self.parts))

    @property
    def operations(self) -> list[str]:
        """The device operations that have rules."""
        return list(dict.fromkeys(name for part in self.parts for name in part.operations))

    def doc(self, name: str) -> str:
        """The description of a parameter in a template's comments; empty if there is none."""
        return next((part.docs[name] for part in self.parts if name in part.docs), "")

    def type(self, name: str) -> ParameterType | None:
        """The type that a template declares for a parameter."""
        return next((part.types[name] for part in self.parts if name in part.types), None)


def template_detail(
    name: str, folders: Sequence[Path], overlays: Mapping[str, str], tensors: Iterable[str], units: Sequence[str]
) -> TemplateDetail | None:
    """Describe the template `name`; None if there is none. `tensors` are names that operations give. Blocks; call from
    a worker thread."""
    search = TemplateSearch(folders, overlays)
    path = search.find(name)
    if path is None:
        return None
    found = _References()
    waiting = [name]
    while waiting and len(found.files) < FILE_LIMIT:
        part = waiting.pop(0)
        if part in found.files or part in found.missing:
            continue
        place = search.find(part)
        text = None if place is None else _read(place, overlays)
        if place is None or text is None:
            found.missing.append(part)
            continue
        found.files[part] = place
        part_found = _references_of(text)
        found.parts.append(part_found)
        waiting += part_found.references
    given = {*RESERVED, *VARIABLES, *BLOCK_WORDS, *tensors}
    names = [one for one in found.mentioned if one not in given]
    operations = found.operations
    return TemplateDetail(
        name=name,
        path=path,
        files=found.files,
        missing=tuple(found.missing),
        parameters=tuple(_parameter_detail(one, found, operations) for one in names),
        units=tuple(units),
    )


def _read(path: str, overlays: Mapping[str, str]) -> str | None:
    if path in overlays:
        return overlays[path]
    try:
        return read_file(path).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    except OSError:
        return None


@lru_cache(maxsize=PARTS_KEPT)
def _references_of(text: str) -> _TemplateFile:
    """Return the references of a template's text; few when it cannot be parsed."""
    operations = tuple(dict.fromkeys(word for word in _NAMED_IN_TEXT.findall(text) if word in OPERATIONS))
    docs = {name: doc for comment in _COMMENT.findall(text) for name, doc in _DESCRIBED.findall(comment)}
    typed = declarations("", text)
    docs |= {one.name: one.doc for one in typed if one.doc}
    types = {one.name: one.type for one in typed if one.type is not None}
    try:
        tree = TemplateEnvironment(()).parse(text)
    except (TemplateError, RecursionError):
        return _TemplateFile(docs=docs, types=types, operations=operations)
    undeclared = meta.find_undeclared_variables(tree)
    mentioned: dict[str, None] = {}
    own = {macro.name for macro in tree.find_all(nodes.Macro)} | {one.target for one in tree.find_all(nodes.Import)}
    for taken in tree.find_all(nodes.FromImport):
        own.update(one if isinstance(one, str) else one[1] for one in taken.names)
    for node in tree.find_all((nodes.Name, nodes.Call, nodes.Getattr, nodes.Getitem)):
        if isinstance(node, nodes.Name):
            if node.ctx == "store":
                own.add(node.name)
            elif node.name in undeclared:
                mentioned[node.name] = None
        elif (name := _named_by(node)) is not None:
            mentioned[name] = None
    optional = {
        asked.node.name
        for asked in tree.find_all((nodes.Filter, nodes.Test))
        if asked.name in ("default", "d", "defined", "undefined") and isinstance(asked.node, nodes.Name)
    }
    references = tuple(name for name in meta.find_referenced_templates(tree) if name is not None)
    return _TemplateFile(references, tuple(mentioned), frozenset(own), frozenset(optional), docs, types, operations)


def _named_by(node: nodes.Node) -> str | None:
    """The parameter that `template_argument("NAME")`, `parameters.NAME` or `parameters["NAME"]` names."""
    if isinstance(node, nodes.Call):
        whole = len(node.args) == 1 and not node.kwargs and _is_named(node.node, "template_argument")
        return _constant(node.args[0]) if whole else None
    if isinstance(node, nodes.Getattr) and _is_named(node.node, "parameters"):
        return None if hasattr(dict, node.attr) else node.attr
    if isinstance(node, nodes.Getitem) and _is_named(node.node, "parameters"):
        return _constant(node.arg)
    return None


def _is_named(node: nodes.Node, name: str) -> bool:
    if isinstance(node, nodes.Getattr):
        return node.attr == name and isinstance(node.node, nodes.Name) and node.node.name == "kernel"
    return isinstance(node, nodes.Name) and node.name == name


def _constant(node: nodes.Node) -> str | None:
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else None


def _parameter_detail(name: str, found: _References, operations: Sequence[str]) -> ParameterDetail:
    operation = next((one for one in operations if parameter_description(one, name) is not None), None)
    description = None if operation is None else parameter_description(operation, name)
    rules = {rule.slug: rule for one in operations for rule in rules_of(one, name)}
    doc = found.doc(name)
    declared = found.type(name) if operation is None else None
    values = () if description is None else description.values
    kind = "" if operation is None else parameter_kind_name(operation, name)
    if declared is not None:
        values = (True, False) if declared.kind is ValueKind.FLAG else declared.values
        kind = "string" if declared.kind is ValueKind.CHOICE else declared.kind.value
    return ParameterDetail(
        name=name,
        kind=kind,
        default="" if name in found.optional else None,
        values=tuple(map(toml_value, values)),
        doc=doc if description is None else description.doc,
        rules=tuple(
            RuleDetail(slug=one.slug, condition=one.condition, explanation=one.explanation, source=one.source)
            for one in rules.values()
        ),
    )
