"""What stands at a place of a template, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ckwatch.wire.language import ParameterDetail, Word
from ckwatch_lsp.jinja.calls import callables
from ckwatch_lsp.jinja.comments import comment_above
from ckwatch_lsp.jinja.entities import BlockName, Entity, InstanceParameter, KnownWord, TemplateName, Variable
from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.templates.files import Shelf
from ckwatch_lsp.templates.values import SHOWN_VALUES

SHOWN_PLACES = 4
SHOWN_RULES = 8
TEXT_LIMIT = 400
"""Characters of a rendered text that are shown."""


def described(shelf: Shelf, entity: Entity) -> str:
    """What `entity` is and where it comes from. Parameters are told of by `parameter_text`."""
    index = shelf.index
    match entity:
        case Variable():
            return _variable(shelf, entity)
        case BlockName():
            places = [place for place in index.definitions(entity) if place.path]
            return f"block `{entity.name}`\n\n" + _places(
                shelf, [(each.path, each.range.start.line) for each in places]
            )
        case TemplateName(name, path):
            return f"template `{name}`\n\n{_file_link(path)}" if path is not None else f"there is no template `{name}`"
        case KnownWord(kind, name):
            return word_text(index.words.of(kind).get(name))
        case InstanceParameter():
            return ""


def word_text(word: Word | None) -> str:
    """A hook, filter, test or global."""
    if word is None:
        return ""
    return "\n\n".join(part for part in (_code(word.signature), word.doc) if part)


def parameter_text(name: str, detail: ParameterDetail | None, value: str | None, unit: str | None) -> str:
    """A parameter of the instance: its value in the active one, what it means, and the rules that it takes part in."""
    head = f"parameter `{name}`"
    if detail is not None and detail.kind:
        head += f": {detail.kind}"
    parts = [head]
    if value is not None and unit is not None:
        parts.append(f"`{value}` in `{unit}`")
    elif unit is not None:
        parts.append(f"`{unit}` does not set it")
    if detail is not None:
        if detail.doc:
            parts.append(detail.doc)
        if detail.default is not None:
            parts.append(f"default: `{detail.default}`")
        if detail.values:
            parts.append("one of " + ", ".join(f"`{each}`" for each in detail.values))
        rules = [f"- `{rule.condition}`: {rule.explanation}" for rule in detail.rules[:SHOWN_RULES]]
        if len(detail.rules) > SHOWN_RULES:
            rules.append(f"- and {len(detail.rules) - SHOWN_RULES} rules more")
        parts += ["\n".join(rules)] if rules else []
    return "\n\n".join(parts)


def printed_text(texts: Sequence[str], unit: str) -> str:
    """What an expression became."""
    if not texts:
        return f"gives no text in `{unit}`"
    shown = [_code(_short(text), "cpp") if "\n" in text else f"`{_short(text)}`" for text in texts[:SHOWN_VALUES]]
    more = f" and {len(texts) - SHOWN_VALUES} others" if len(texts) > SHOWN_VALUES else ""
    if any("\n" in text for text in texts[:SHOWN_VALUES]):
        return f"in `{unit}`:\n\n" + "\n\n".join(shown) + more
    return f"{', '.join(shown)}{more} in `{unit}`"


def _variable(shelf: Shelf, variable: Variable) -> str:
    index = shelf.index
    symbol = index.symbol(variable)
    if symbol is None:
        return ""
    file = index.files[variable.path]
    lines = file.template.lines
    binding = symbol.bindings[0]
    places = [(variable.path, lines.line(each.start)) for each in symbol.bindings]
    called = callables(index, (variable,))
    if called:
        return "\n\n".join(
            part for part in (_code(f"macro {called[0].label}"), called[0].doc, _places(shelf, places)) if part
        )
    source = file.template.tags[binding.tag].body.source
    shown = _code(_short(source), "jinja")
    what = _WHAT.get(binding.role, "")
    comment = comment_above(file.template, binding.tag) if binding.role is Role.SET else ""
    return "\n\n".join(
        part for part in (f"{what} `{variable.name}`".strip(), shown, comment, _places(shelf, places)) if part
    )


_WHAT = {
    Role.MACRO_PARAMETER: "parameter of a macro",
    Role.CALL_PARAMETER: "parameter of a call",
    Role.FOR: "loop variable",
    Role.SET: "variable",
    Role.WITH: "variable",
    Role.MODULE: "module",
    Role.IMPORTED: "imported",
}


def _places(shelf: Shelf, places: Iterable[tuple[str, int]]) -> str:
    found = list(dict.fromkeys(places))
    shown = [f"[{shelf.name_of(path)}:{line + 1}]({_uri(path)}#L{line + 1})" for path, line in found[:SHOWN_PLACES]]
    more = f" and {len(found) - SHOWN_PLACES} more" if len(found) > SHOWN_PLACES else ""
    return ", ".join(shown) + more


def _file_link(path: str) -> str:
    return f"[{path}]({_uri(path)})"


def _uri(path: str) -> str:
    return Path(path).as_uri() if path.startswith("/") else path


def _code(text: str, language: str = "jinja") -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}…"
