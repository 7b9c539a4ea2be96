"""Edits of a kernel file that keep its comments and its layout."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ckwatch.model.kernels import value_in_name
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.names import NAME_LENGTH_LIMIT
from ckwatch.model.text import Range
from ckwatch.workspace.toml import (
    TomlComment,
    TomlFile,
    TomlKind,
    TomlPair,
    TomlTable,
    TomlValue,
    toml_key,
    toml_string,
    toml_value,
)
from ckwatch_lsp.kernel_files.language.document import (
    InstanceTable,
    KernelFileText,
    SweepEntry,
    values_of,
)


@dataclass(frozen=True, slots=True)
class KernelFileEdit:
    """`text` replaces what is at `range`."""

    range: Range
    text: str


def set_parameter(document: KernelFileText, table: TomlTable, name: str, value: Any) -> KernelFileEdit:
    """Give a parameter a value in a table: instead of the one it has there, else in a line at the table's end."""
    pair = table.pair(name)
    text = toml_value(value)
    if pair is not None:
        if pair.value is not None:
            return KernelFileEdit(document.toml.range(pair.value.start, pair.value.end), text)
        start = pair.key_end if pair.equals is None else pair.equals + 1
        return KernelFileEdit(
            document.toml.range(start, pair.end), f" {text}" if pair.equals is not None else f" = {text}"
        )
    return _added(document.toml, table, [f"{toml_key(name)} = {text}"])


def set_value(document: KernelFileText, value: TomlValue, new: Any) -> KernelFileEdit:
    """Another value where one stands."""
    return KernelFileEdit(document.toml.range(value.start, value.end), toml_value(new))


def apply_parameters(
    document: KernelFileText, instance: InstanceTable, parameters: Mapping[str, Any]
) -> list[KernelFileEdit]:
    """Make an instance have exactly these parameters: those that differ are set, those that are too many taken out.

    A parameter of its own that says what `[defaults]` says stays.
    """
    present = document.effective(instance)
    edits = []
    added = []
    for name, value in parameters.items():
        if name in present and _same(present[name], value):
            continue
        if name in instance.parameters:
            edits.append(set_parameter(document, instance.table, name, value))
        else:
            added.append(f"{toml_key(name)} = {toml_value(value)}")
    defaults = values_of(document.defaults)
    for name, pair in instance.parameters.items():
        if name not in parameters and name not in defaults:
            edits.append(_without(document.toml, pair))
    if added:
        edits.append(_added(document.toml, instance.table, added))
    return edits


@dataclass(frozen=True, slots=True)
class ValueChange:
    """Another value of a parameter; arrays are lists."""

    parameter: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.parameter} {toml_value(self.before)} → {toml_value(self.after)}"


def add_instance(
    document: KernelFileText,
    instance: InstanceTable,
    changes: Sequence[ValueChange],
    comment: str,
    taken: Collection[str],
) -> KernelFileEdit | None:
    """A copy of an instance behind it, with other values of some parameters, and `comment` above it.

    It gets the instance's name with the changed values, which is none of those that are `taken`. None where the
    instance has other values than the changes are of, or where the name would get too long.
    """
    present = document.effective(instance)
    name = _changed_name(document, instance, changes, taken)
    if any(not _same(present.get(one.parameter), one.before) for one in changes) or len(name) > NAME_LENGTH_LIMIT:
        return None
    file, table = document.toml, instance.table
    after = {one.parameter: f"{toml_key(one.parameter)} = {toml_value(one.after)}" for one in changes}
    lines = [f"# {comment}", "[[instance]]", f"name = {toml_string(name)}"]
    lines += [after.pop(pair.name, file.text[pair.start : pair.end]) for pair in table.pairs if pair.name != "name"]
    end = file.line_end(file.line_of(max(table.end, table.header_end)))
    return _insert(file, end, file.newline + "".join(f"{file.newline}{line}" for line in [*lines, *after.values()]))


def _changed_name(
    document: KernelFileText, instance: InstanceTable, changes: Sequence[ValueChange], taken: Collection[str]
) -> str:
    """The instance's name with the changed values where it has the present ones, else with the first one behind it."""
    name, own = instance.name, values_of(instance.parameters)
    for one in changes:
        values = own if one.parameter in own else document.effective(instance)
        # 128x128x64 has the values of MPerBlock, NPerBlock and KPerBlock: which is which follows from their order
        equal = [parameter for parameter, value in values.items() if _same(value, one.before)]
        text = re.escape(value_in_name(one.before))
        places = list(re.finditer(rf"(?<![0-9A-Za-wyz]){text}(?![0-9A-Za-wyz])", name))
        if one.parameter in equal and len(places) == len(equal):
            start, end = places[equal.index(one.parameter)].span()
            name = f"{name[:start]}{value_in_name(one.after)}{name[end:]}"
            own[one.parameter] = one.after
    if name == instance.name:
        name = f"{name}_{value_in_name(changes[0].after)}"
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def to_sweep(document: KernelFileText, instance: InstanceTable, parameter: str | None = None) -> list[KernelFileEdit]:
    """Write an instance as a sweep of one: `parameter` becomes a list of one value, else every parameter does.

    Only `parameter` too where the name that the sweep gives its instance would get too long. Arrays become lists in any
    case, since a plain one would be read as values. No edits where it has no name or no parameters of its own, or where
    sweeps stand on it.
    """
    file, table = document.toml, instance.table
    name = table.pair("name")
    given = [pair for pair in instance.parameters.values() if pair.value is not None]
    based = any(sweep.base == instance.name for sweep in document.sweeps)
    if name is None or not instance.name or not given or based or len(given) < len(instance.parameters):
        return []
    named = "_".join([instance.name, *(value_in_name(pair.value.read()) for pair in given if pair.value is not None)])
    every = parameter is None and len(named) <= NAME_LENGTH_LIMIT
    edits = [_header(file, table, "[[sweep]]")]
    for pair in given:
        value = pair.value
        if value is not None and (every or pair.name == parameter or value.kind is TomlKind.ARRAY):
            edits += [_insert(file, value.start, "["), _insert(file, value.end, "]")]
    first = min(given, key=lambda pair: pair.start)
    start = _above(file, first, after=table.header_end)
    header = f"{file.newline}[sweep.parameters]{file.newline}"
    if name.start > first.start:
        line = file.line_of(name.start)
        taken = file.text[file.line_start(line) : file.line_end(line)]
        edits.append(KernelFileEdit(file.range(file.line_start(line), file.line_start(line + 1)), ""))
        header = taken.strip() + file.newline + header
    edits.append(_insert(file, start, header))
    return edits


COMBINATION_LIMIT = 10_000
"""Combinations of a sweep's values that are made at most."""


def combinations(sweep: SweepEntry) -> dict[str, dict[str, Any]] | None:
    """Return the instances of a sweep before its conditions: by name the parameters that it gives, in the daemon's
    order.

    None where it is not whole, too large, or works parameters out.
    """
    if not sweep.name or not sweep.parameters or sweep.derived:
        return None
    found: list[tuple[str, dict[str, Any]]] = [(sweep.name, {})]
    for name, pair in sweep.parameters.items():
        value = None if pair.value is None else pair.value.read()
        if value is None:
            return None
        if not isinstance(value, list):
            found = [(one, parameters | {name: value}) for one, parameters in found]
            continue
        choices = {(type(choice), repr(choice)): choice for choice in value}.values()
        if len(found) * len(choices) > COMBINATION_LIMIT:
            return None
        found = [
            (f"{one}_{value_in_name(choice)}", parameters | {name: choice})
            for one, parameters in found
            for choice in choices
        ]
    return dict(found)


def to_instances(
    document: KernelFileText, sweep: SweepEntry, instances: Mapping[str, Mapping[str, Any]]
) -> list[KernelFileEdit]:
    """Write a sweep's instances out: `instances` are their parameters by name, as the daemon or `expansion` has them.

    Each gets what the sweep gives, and what its base has of its own; a parameter is written as the sweep writes it.
    Comments of the sweep stay above the first one.
    """
    file = document.toml
    if not instances:
        return []
    base = document.instance(sweep.base) if sweep.base is not None else None
    inherited = {} if base is None else values_of(base.parameters)
    names = list(dict.fromkeys([*inherited, *sweep.parameters]))
    written = {name: _as_written(sweep.parameters[name]) for name in sweep.parameters}
    blocks = []
    for instance, parameters in instances.items():
        every = {**inherited, **parameters}
        lines = ["[[instance]]", f"name = {toml_string(instance)}"]
        lines += [
            f"{toml_key(name)} = {written.get(name, {}).get(repr(every[name])) or toml_value(every[name])}"
            for name in names
            if name in every
        ]
        blocks.append(file.newline.join(lines))
    start, end = sweep.table.start, max(sweep.end, sweep.table.header_end)
    own = [one for one in file.comments if start <= one.start and (one.end <= end or _on_line(file, one, end))]
    end = max([end, *(one.end for one in own)])
    kept = [file.text[one.start : one.end] for one in own]
    text = (file.newline * 2).join(blocks)
    return [KernelFileEdit(file.range(start, end), "".join(one + file.newline for one in kept) + text)]


def string_text(document: KernelFileText, value: TomlValue, text: str) -> KernelFileEdit:
    """Another text for a string, in its own quotes where they can hold it."""
    quote = value.text[:1]
    plain = quote == "'" and "'" not in text and value.text[:3] != "'''" and text.isprintable()
    return KernelFileEdit(document.toml.range(value.start, value.end), f"'{text}'" if plain else toml_string(text))


def _as_written(pair: TomlPair) -> dict[str, str]:
    """How a sweep writes each value of a parameter."""
    value = pair.value
    if value is None:
        return {}
    values: Sequence[TomlValue] = value.items if value.kind is TomlKind.ARRAY else (value,)
    return {repr(one.read()): one.text for one in values}


def _header(file: TomlFile, table: TomlTable, text: str) -> KernelFileEdit:
    return KernelFileEdit(file.range(table.start, table.header_end), text)


def _insert(file: TomlFile, at: int, text: str) -> KernelFileEdit:
    return KernelFileEdit(file.range(at, at), text)


def _added(file: TomlFile, table: TomlTable, lines: Sequence[str]) -> KernelFileEdit:
    """Lines below a table's last one, indented like it."""
    last = table.pairs[-1] if table.pairs else None
    at = table.end if last is not None else table.header_end
    line = file.line_of(at)
    end = file.line_end(line)
    begin = file.line_start(file.line_of(last.start if last is not None else table.start))
    indent = file.text[begin : begin + len(file.text[begin:end]) - len(file.text[begin:end].lstrip())]
    return _insert(file, end, "".join(f"{file.newline}{indent}{one}" for one in lines))


def _without(file: TomlFile, pair: TomlPair) -> KernelFileEdit:
    """Take out a pair with its lines."""
    first, last = file.line_of(pair.start), file.line_of(pair.end)
    return KernelFileEdit(file.range(file.line_start(first), file.line_start(last + 1)), "")


def _above(file: TomlFile, pair: TomlPair, *, after: int) -> int:
    """The beginning of a pair's line, or of the comments right above it."""
    line = file.line_of(pair.start)
    lowest = file.line_of(after) + 1
    while line > lowest and file.text[file.line_start(line - 1) : file.line_end(line - 1)].lstrip().startswith("#"):
        line -= 1
    return file.line_start(line)


def _on_line(file: TomlFile, comment: TomlComment, offset: int) -> bool:
    return comment.start >= offset and file.line_of(comment.start) == file.line_of(offset)


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, tuple):
        other = list(other)
    return type(one) is type(other) and bool(one == other)
