"""The vocabulary of templates, kernel files and `ckwatch.toml`, read from hooks, environment and models.

Imports Jinja2: it is loaded when an editor first asks.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from jinja2 import parser
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from markupsafe import Markup
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ckwatch.model.targets import ARCHS, HOST, NATIVE
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.hooks import KernelHooks
from ckwatch.wire.language import KeyDescription, Word, WordParameter
from ckwatch.workspace import settings
from ckwatch.workspace.kernel_file import INSTANCE_NAME_DOC, KernelTable
from ckwatch.workspace.kernel_file import TABLES as KERNEL_TABLES
from ckwatch.workspace.operations import KINDS, tables
from ckwatch.workspace.settings import Settings
from ckwatch.workspace.shapes import NAME_DOC, RUNTIME_DEFAULTS
from ckwatch.workspace.sweep import SweepTable

ARCH_CHECKS: Mapping[object, tuple[str, ...]] = {
    settings.known_arch: (*ARCHS, NATIVE, HOST),
    settings.device_arch: (*ARCHS, NATIVE),
}
"""The archs that a validator accepts, which may have features besides."""

_SIZE_KINDS = {settings.size_bytes: "size", tables.size_expression: "size expression"}

PARAMETER_KIND = "integer, number, true or false, string, or array"


def settings_keys() -> tuple[KeyDescription, ...]:
    """The keys of `ckwatch.toml`."""
    return tuple(_keys_of(Settings, "", {}))


def kernel_file_keys() -> tuple[KeyDescription, ...]:
    """The keys of a kernel file."""
    found = [key for key in _keys_of(KernelTable, "", {}) if key.path not in KERNEL_TABLES]
    found.append(_table_key("operation", required=True))
    about = "; ".join(f"`{kind.name}`: {kind.about}" for kind in KINDS.values())
    values = tuple(f'"{name}"' for name in KINDS)
    found.append(KeyDescription(path="operation.kind", doc=about, type="string", values=values, required=True))
    for name, kind in KINDS.items():
        keys = _keys_of(kind.table, "operation.", {"operation.kind": name})
        found += [key for key in keys if key.path != "operation.kind"]
    found += [*_shape_keys(), _table_key("defaults"), _parameter_key("defaults.*")]
    found.append(_table_key("instance", "array of tables"))
    found.append(KeyDescription(path="instance.name", doc=INSTANCE_NAME_DOC, type="string", required=True))
    found += [_parameter_key("instance.*"), _table_key("sweep", "array of tables")]
    for key in _keys_of(SweepTable, "sweep.", {}):
        match key.path:
            case "sweep.where":
                found.append(replace(key, type="string or array of strings"))
            case "sweep.parameters.*":
                found.append(replace(key, type=f"array of values, or one value: {PARAMETER_KIND}"))
            case "sweep.derived.*":
                found.append(replace(key, type="string: an expression over the other parameters"))
            case _:
                found.append(key)
    return tuple(found)


def _shape_keys() -> Iterator[KeyDescription]:
    yield _table_key("shape", "array of tables")
    yield KeyDescription(path="shape.name", doc=NAME_DOC, type="string")
    for kind in KINDS.values():
        worked_out = {*RUNTIME_DEFAULTS, *(kind.outline.size_defaults if kind.outline else ())}
        for name, doc in kind.shape_docs.items():
            yield KeyDescription(
                path=f"shape.{name}",
                doc=doc,
                type="integer or number" if name == "*" else "integer",
                required="*" not in name and name not in worked_out,
                default=str(RUNTIME_DEFAULTS.get(name, "")),
                when={"operation.kind": kind.name},
            )


def _table_key(name: str, kind: str = "table", *, required: bool = False) -> KeyDescription:
    return KeyDescription(path=name, doc=KernelTable.model_fields[name].description or "", type=kind, required=required)


def _parameter_key(path: str) -> KeyDescription:
    doc = "a template parameter: an integer, a number, true or false, a string, or an array of one of these"
    return KeyDescription(path=path, doc=doc, type=PARAMETER_KIND)


def _keys_of(model: type[BaseModel], prefix: str, when: Mapping[str, str]) -> Iterator[KeyDescription]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        path = prefix + name
        required = field.is_required()
        doc = field.description or ""
        kind, values, inner = _kind(hints[name])
        yield KeyDescription(
            path=path,
            doc=doc,
            type=kind,
            values=values,
            required=required,
            default="" if inner is not None or required else _default_text(field.default, kind),
            when=dict(when),
        )
        if inner is not None:
            yield from _keys_of(inner, path + ".", when)
        elif kind == "table":
            value = get_args(_stripped(hints[name])[0])[1]
            value_kind, values, model_of_value = _kind(value)
            value_doc = next((one.description for one in get_args(value)[1:] if isinstance(one, FieldInfo)), None)
            yield KeyDescription(
                path=f"{path}.*", doc=value_doc or doc, type=value_kind, values=values, when=dict(when)
            )
            if model_of_value is not None:
                yield from _keys_of(model_of_value, f"{path}.*.", when)


def _stripped(annotation: Any) -> tuple[Any, tuple[object, ...]]:
    """The type behind `Annotated` and `| None`, and the functions that validate it."""
    checks: list[object] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            checks += [one.func for one in more if isinstance(one, (AfterValidator, BeforeValidator))]
        elif get_origin(annotation) in (Union, types.UnionType):
            options = [one for one in get_args(annotation) if one is not types.NoneType]
            if len(options) > 1:
                return annotation, tuple(checks)
            annotation = options[0]
        else:
            return annotation, tuple(checks)


def _kind(annotation: Any) -> tuple[str, tuple[str, ...], type[BaseModel] | None]:
    """In words, the allowed values as they stand in TOML, and the model of a table."""
    plain, checks = _stripped(annotation)
    for check in checks:
        if check in _SIZE_KINDS:
            return _SIZE_KINDS[check], (), None
    words: tuple[str, ...] = ()
    for check in checks:
        words = words or (check.words if isinstance(check, tables.Known) else ARCH_CHECKS.get(check, ()))
    if get_origin(plain) is Literal:
        return "string", tuple(f'"{value}"' for value in get_args(plain)), None
    if get_origin(plain) in (Union, types.UnionType):
        return " or ".join(_kind(option)[0] for option in get_args(plain)), (), None
    if get_origin(plain) is list:
        kind, values, inner = _kind(get_args(plain)[0])
        return f"array of {_plural(kind)}", values, inner
    if get_origin(plain) is dict:
        return "table", (), None
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return "table", (), plain
    if plain is bool:
        return "true or false", ("true", "false"), None
    return _TYPE_NAMES.get(plain, "value"), tuple(f'"{word}"' for word in words), None


_TYPE_NAMES: Mapping[object, str] = {str: "string", int: "integer", float: "number", Path: "path"}


def _plural(kind: str) -> str:
    return f"{kind}s" if kind in ("string", "integer", "number", "path", "table", "size expression") else kind


def _default_text(value: Any, kind: str) -> str:
    """A default as it stands in TOML; empty for none."""
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_default_text(item, '') for item in value)}]"
    if isinstance(value, dict):
        return "{}"
    if kind == "size":
        for name, unit in (("GiB", settings.GIB), ("MiB", settings.MIB)):
            if value % unit == 0:
                return f'"{value // unit} {name}"'
    return str(value)


_TENSOR_WORDS = (
    "a tensor of the operation, `none` where it has none of this name: `name`, `dtype`, `layout`, `sizes`, `strides`, "
    "`buffer`, `get_layout()`"
)

VARIABLES: Mapping[str, str] = {
    "parameters": "all parameters of the instance, as a mapping",
    **dict.fromkeys((name for kind in KINDS.values() for name in kind.tensors), _TENSOR_WORDS),
    "operation": "`kind`, `accumulator`, `settings` (`alpha`, `beta`, `activation`, …), `size_arguments`, "
    "`runtime_arguments`",
    "arch": "`gfx942`, or `host`",
    "input_reorder": "the operation's order of inputs, or `none`",
    "KERNEL_NAME": "stands for the exported function's name",
    "DEVICE_CODE_NAME": "stands for a name that changes only with what the device pass can see",
    "kernel_name": "`KERNEL_NAME`, as PyTorch Inductor calls it",
    "gfx9_threads_per_warp": "64",
    "kernel": "all hooks as attributes: `kernel.def_kernel(…)`",
}
"""Variables of templates besides the instance's parameters and the hooks."""

BLOCK_WORDS: Mapping[str, str] = {
    "loop": "inside `{% for %}`: the loop itself",
    "caller": "inside a macro that `{% call %}` calls: the text between its tags",
    "varargs": "inside a macro: arguments by position that it does not name",
    "kwargs": "inside a macro: arguments by name that it does not name",
    "super": "inside a block: the block that it replaces",
    "self": "the template's blocks",
}
"""Names that Jinja gives in certain places."""

TAGS: Mapping[str, tuple[str, str]] = {
    "for": ("{% for NAME in VALUES %} … {% else %} … {% endfor %}", "Repeats its body for each value."),
    "if": ("{% if CONDITION %} … {% elif CONDITION %} … {% else %} … {% endif %}", "Takes the first that holds."),
    "macro": ("{% macro NAME(PARAMETER, PARAMETER=DEFAULT) %} … {% endmacro %}", "Defines what can be called."),
    "call": ("{% call MACRO(…) %} … {% endcall %}", "Calls a macro, which prints the text between with `caller()`."),
    "set": ("{% set NAME = VALUE %}", "Gives a name a value; without `=`, the text up to `{% endset %}`."),
    "with": ("{% with NAME = VALUE %} … {% endwith %}", "Gives names values between its tags only."),
    "block": ("{% block NAME %} … {% endblock %}", "A part that templates which extend this one may replace."),
    "extends": ("{% extends TEMPLATE %}", "Begins with another template and replaces its blocks."),
    "include": ("{% include TEMPLATE %}", "Puts another template here, with the names known here."),
    "import": ("{% import TEMPLATE as NAME with context %}", "Gives the macros and names of another template."),
    "from": ("{% from TEMPLATE import NAME, NAME as OTHER with context %}", "Gives some names of another template."),
    "filter": ("{% filter NAME %} … {% endfilter %}", "Sends the text between its tags through a filter."),
    "raw": ("{% raw %} … {% endraw %}", "Text in which nothing is a tag."),
    "autoescape": ("{% autoescape true %} … {% endautoescape %}", "Escapes for HTML between its tags."),
    "print": ("{% print VALUE %}", "Prints a value, as `{{ VALUE }}` does."),
    "do": ("{% do EXPRESSION %}", "Evaluates an expression and prints nothing."),
    "break": ("{% break %}", "Ends the innermost loop."),
    "continue": ("{% continue %}", "Goes on with the loop's next round."),
}
"""How each tag is written, and what it does."""

_BUILTINS: Mapping[str, tuple[str, tuple[WordParameter, ...], str]] = {
    "range": (
        "range(stop) or range(start, stop, step=1)",
        (WordParameter(name="stop"),),
        "Whole numbers from `start` up to `stop`, which is not among them.",
    ),
    "dict": ("dict(**items)", (WordParameter(name="**items", default=""),), "A mapping of names to values."),
}
"""Python's own, which do not say themselves how they are called from a template."""

_ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")
_REFERENCE = re.compile(r"`([^`]+)`_")
_LINK_TARGET = re.compile(r"^\s*\.\. _.*\n(?:\s+\S*://\S+)?", re.MULTILINE)
_DIRECTIVE = re.compile(r"\.\. (\w[\w-]*)::\s*(.*)")


def hooks() -> tuple[Word, ...]:
    """Return the hooks of `ckwatch.render.hooks`, without the value that a method belongs to."""
    found = []
    for name, value in inspect.getmembers(KernelHooks, inspect.isfunction):
        if not name.startswith("_"):
            parameters = _parameters(value, skipped=1)
            found.append(
                Word(name=name, signature=_call(name, parameters), parameters=parameters, doc=_doc_text(value))
            )
    return tuple(found)


def filters() -> tuple[Word, ...]:
    """The environment's filters; the value before `|` is not among the parameters."""
    own: Mapping[str, Any] = _environment().filters
    jinja: Mapping[str, Any] = FILTERS
    return tuple(_of_value(name, jinja.get(name, own[name])) for name in sorted(own))


def tests() -> tuple[Word, ...]:
    """The environment's tests; the value before `is` is not among the parameters."""
    known: list[tuple[str, Any]] = sorted(_environment().tests.items())
    return tuple(_of_value(name, function) for name, function in known if name.isidentifier())


def global_names() -> tuple[Word, ...]:
    """Return names that are defined without being set, apart from the instance's parameters."""
    found = [_global(name, value) for name, value in sorted(_environment().globals.items())]
    found += [Word(name=name, signature=name, doc=doc) for name, doc in VARIABLES.items()]
    for name, doc in BLOCK_WORDS.items():
        attributes = _loop_attributes() if name == "loop" else ""
        found.append(Word(name=name, signature=name, doc=doc + attributes))
    return tuple(found)


def tags() -> tuple[Word, ...]:
    """Every tag that the environment knows."""
    return tuple(Word(name=name, signature=TAGS[name][0], doc=TAGS[name][1]) for name in known_tags())


def known_tags() -> list[str]:
    """Jinja's own tags and those of the environment's extensions."""
    own = {*parser._statement_keywords, "call", "filter", "raw"}
    added = {tag for extension in _environment().extensions.values() for tag in extension.tags}
    return sorted(own | added)


def _environment() -> TemplateEnvironment:
    return TemplateEnvironment(())


def _global(name: str, value: Any) -> Word:
    if name in _BUILTINS:
        signature, parameters, doc = _BUILTINS[name]
        return Word(name=name, signature=signature, parameters=parameters, doc=doc)
    parameters = _parameters(value, skipped=0)
    return Word(name=name, signature=_call(name, parameters), parameters=parameters, doc=_doc_text(value))


def _of_value(name: str, function: Callable[..., Any]) -> Word:
    plain = inspect.unwrap(function)
    passes = getattr(plain, "jinja_pass_arg", None) is not None or getattr(function, "jinja_pass_arg", None) is not None
    try:
        parameters = _parameters(plain, skipped=2 if passes else 1)
    except (TypeError, ValueError):
        parameters = ()
    return Word(
        name=name,
        signature=_call(name, parameters) if parameters else name,
        parameters=parameters,
        doc=_doc_text(plain),
    )


def _parameters(function: Callable[..., Any], *, skipped: int) -> tuple[WordParameter, ...]:
    named = list(inspect.signature(function).parameters.values())[skipped:]
    return tuple(_word_parameter(one) for one in named)


def _word_parameter(one: inspect.Parameter) -> WordParameter:
    if one.kind is inspect.Parameter.VAR_POSITIONAL:
        return WordParameter(name=f"*{one.name}", default="")
    if one.kind is inspect.Parameter.VAR_KEYWORD:
        return WordParameter(name=f"**{one.name}", default="")
    return WordParameter(
        name=one.name, default=None if one.default is inspect.Parameter.empty else _jinja_literal(one.default)
    )


def _call(name: str, parameters: tuple[WordParameter, ...]) -> str:
    shown = (one.name if not one.default else f"{one.name}={one.default}" for one in parameters)
    return f"{name}({', '.join(shown)})"


def _jinja_literal(value: object) -> str:
    """A default as a template writes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (str, Markup)):
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return "…"


def _loop_attributes() -> str:
    names = [name for name, _ in inspect.getmembers(LoopContext) if not name.startswith("_")]
    return f" ({', '.join(f'`{name}`' for name in names)})"


def _doc_text(value: Any) -> str:
    """A docstring's description in Markdown: without what changed in which version, examples as code."""
    if isinstance(value, type) and value.__doc__ == object.__doc__:
        return ""
    text = _LINK_TARGET.sub("", inspect.getdoc(value) or "").partition("\n:param")[0]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_markdown(text))).strip()


def _markdown(text: str) -> Iterator[str]:
    lines = text.replace("``", "`").splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        directive = _DIRECTIVE.match(line.strip())
        indented = line.endswith("::") and not directive
        if not directive and not indented:
            yield _REFERENCE.sub(r"\1", _ROLE.sub(r"`\1`", line))
            continue
        body, at = _indented(lines, at, len(line) - len(line.lstrip()))
        if indented and line.strip() != "::":
            yield line.removesuffix(":")
        if indented or (directive is not None and directive[1] in ("sourcecode", "code-block", "code")):
            language = "" if directive is None else directive[2]
            yield from ("", f"```{language}", *body, "```")


def _indented(lines: list[str], at: int, margin: int) -> tuple[list[str], int]:
    """The lines that belong to what stands before `at`, without their margin, and where the next ones begin."""
    end = at
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > margin):
        end += 1
    return inspect.cleandoc("\n".join(lines[at:end])).splitlines(), end
