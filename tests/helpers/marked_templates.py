"""Templates with a cursor `‸` in them, and the built-in ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment

from ckwatch.model.text import Position
from ckwatch.wire.language import Word, WordParameter
from ckwatch.workspace.operations import KINDS
from ckwatch_lsp.templates.language.index import Entity, TemplateFile, TemplateIndex, TemplatePlace, builtin_words
from ckwatch_lsp.templates.language.syntax import TextLines

CURSOR = "‸"

TEMPLATES = Path(__file__).parent.parent.parent / "templates" / "ckwatch_templates"

BUILT_IN = {path.relative_to(TEMPLATES).as_posix(): path.read_text() for path in sorted(TEMPLATES.rglob("*.j2"))}


JINJA = Environment(  # noqa: S701  # nobody renders with it, and C++ is no HTML
    extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"], keep_trailing_newline=True
)


def word(name: str, *parameters: str, doc: str = "") -> Word:
    """A hook or filter; a parameter is `name` or `name=default`."""
    parts = [parameter.partition("=") for parameter in parameters]
    return Word(
        name=name,
        signature=f"{name}({', '.join(parameters)})",
        parameters=tuple(
            WordParameter(name=own, default=default if equals else None) for own, equals, default in parts
        ),
        doc=doc,
    )


WORDS = builtin_words(
    [
        word(
            "def_kernel", "inputs", "outputs", 'names_str=""', "input_reorder=none", "size_args=none", doc="Declares."
        ),
        word("arg_name", "tensor", doc="The C argument."),
        word("template_argument", "name", "value=none"),
        word("unsupported", "message", "*keys"),
        word("has_feature", "name"),
        word("need_feature", "name", "*keys"),
        *(word(name, "tensor") for name in ("dtype", "layout", "ptr", "abi_type", "check_not_null")),
        *(word(name, 'family="hip"') for name in ("header", "globals")),
        *(word(name) for name in ("size_args", "runtime_args", "size", "stride")),
    ],
    [word("upper", doc="Upper case."), word("default", 'default_value=""', "boolean=false"), word("join", 'd=""')],
    [word("defined"), word("divisibleby", "num")],
    [
        Word(name=name, signature=name)
        for name in (
            *dict.fromkeys(name for kind in KINDS.values() for name in kind.tensors),
            *("operation", "arch", "input_reorder"),
            *("KERNEL_NAME", "DEVICE_CODE_NAME", "kernel", "parameters"),
        )
    ],
)


def unmarked(text: str) -> tuple[str, int]:
    """`text` without its cursor, and where that was."""
    at = text.index(CURSOR)
    return text[:at] + text[at + 1 :], at


@lru_cache(maxsize=256)
def _file(name: str, text: str) -> TemplateFile:
    """A template, read once: an index changes none of its files."""
    return TemplateFile(name, text)


def index_of(texts: Mapping[str, str]) -> tuple[TemplateIndex, str, Position]:
    """An index of templates by name, which are their paths too, and the place of the cursor in one of them."""
    files: dict[str, TemplateFile] = {}
    path, position = "", Position(0, 0)
    for name, text in texts.items():
        plain = text
        if CURSOR in text:
            plain, at = unmarked(text)
            path, position = name, TextLines(plain).position(at)
        files[name] = _file(name, plain)
    return TemplateIndex(files, lambda name: name if name in files else None, WORDS), path, position


def text_at(index: TemplateIndex, place: TemplatePlace) -> str:
    """The text at a place."""
    template = index.files[place.path].template
    return template.text[template.lines.offset(place.range.start) : template.lines.offset(place.range.end)]


def only(entities: tuple[Entity, ...]) -> Entity:
    """The one thing that a name stands for."""
    (entity,) = entities
    return entity
