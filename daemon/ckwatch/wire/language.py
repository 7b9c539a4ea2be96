"""Editors' questions about templates, kernel files and settings, and the answers."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ckwatch.wire.values import Value


class WordParameter(Value):
    """A parameter of what a template calls; `default` as it is written, None when an argument is required."""

    name: str
    default: str | None = None


class Word(Value):
    """A word of templates: a hook, filter, test, tag, or a name that is always defined.

    `signature` is how it is written, with its parameters (`size(tensor, start, end=none)`), without the value that a
    filter or test applies to. `doc` is Markdown.
    """

    name: str
    signature: str
    parameters: tuple[WordParameter, ...] = ()
    doc: str = ""


class KeyDescription(Value):
    """A key of a kernel file or of `ckwatch.toml`, `path` with dots (`operation.a.dtype`, `shape.M`).

    Tables of an array are named like a single table; a part `*` of the path stands for any name (`defaults.*`).
    `values` are those that it may have, as TOML, empty when there are too many to list. `type` is in words, and
    `default` as TOML or in words, empty when there is none. `when`: the key exists only when these keys have these
    values (`{"operation.kind": "gemm"}`).
    """

    path: str
    doc: str
    type: str
    values: tuple[str, ...] = ()
    required: bool = False
    default: str = ""
    when: dict[str, str] = field(default_factory=dict)


class Vocabulary(Value):
    """The words of templates, and the keys of both kinds of TOML file; the same as long as the daemon runs."""

    hooks: tuple[Word, ...]
    filters: tuple[Word, ...]
    tests: tuple[Word, ...]
    globals: tuple[Word, ...]
    tags: tuple[Word, ...]
    kernel_file: tuple[KeyDescription, ...]
    settings: tuple[KeyDescription, ...]


class RuleDetail(Value):
    """A rule of the device operation: the condition on an instance's parameters, and its source in CK."""

    slug: str
    condition: str
    explanation: str
    source: str


class ParameterDetail(Value):
    """A parameter of a template: its kind in words, and the rules that it takes part in.

    `values` are those that it may have, as TOML, empty when there are too many to list; `default` is used when the
    instance has none, None when the parameter is required.
    """

    name: str
    kind: str
    default: str | None = None
    values: tuple[str, ...] = ()
    doc: str = ""
    rules: tuple[RuleDetail, ...] = ()


class TemplateName(Value):
    """A template that a kernel file could name, and its file."""

    name: str
    path: str


class TemplateDetail(Value):
    """A template, or a file that templates include, by its name in the search path, and its file.

    `files`: all templates that it includes, imports and extends, itself among them, by name; `missing` are names
    without a file. `parameters`: what it mentions and does not set itself. `units` are rendered from it.
    """

    name: str
    path: str
    files: dict[str, str]
    missing: tuple[str, ...] = ()
    parameters: tuple[ParameterDetail, ...] = ()
    units: tuple[str, ...] = ()


class ParameterValue(Value):
    """A value of a parameter, arrays as lists: whether the instance rules accept it, and why not.

    `refused_by`: the rules' slugs. `predicted_us`: the time of the instance with this value on the kernel's first
    shape, predicted from its parameters alone; null where there is no prediction.
    """

    value: Any
    accepted: bool
    why_not: str = ""
    refused_by: tuple[str, ...] = ()
    predicted_us: float | None = None
