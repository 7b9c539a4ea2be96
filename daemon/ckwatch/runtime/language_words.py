"""The words of templates, as the hooks and the sandboxed environment themselves say."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import parser
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from markupsafe import Markup

from ckwatch.config.operation import GEMM_INPUTS
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.hooks import KernelHooks
from ckwatch.wire.language import Word, WordParameter

_TENSOR = (
    "a tensor of the GEMM, `none` where the operation has none: `name`, `dtype`, `layout`, `sizes`, `strides`, `buffer`"
)

VARIABLES: Mapping[str, str] = {
    "parameters": "all parameters of the instance, as a mapping",
    **dict.fromkeys((*GEMM_INPUTS, "Y"), _TENSOR),
    "operation": "`kind`, `accumulator`, `settings` (`alpha`, `beta`, `activation`, …), `size_arguments`, "
    "`runtime_arguments`",
    "arch": "`gfx942`, or `host`",
    "input_reorder": "the operation's order of inputs, or `none`",
    "KERNEL_NAME": "stands for the exported function's name",
    "DEVICE_CODE_NAME": "stands for a name that changes only with what the device pass can see",
    "kernel": "all hooks as attributes: `kernel.def_kernel(…)`",
}
"""What templates find besides the instance's parameters and the hooks."""

INSIDE: Mapping[str, str] = {
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
    """What `ckwatch.render.hooks` offers, without the value that a method belongs to."""
    found = []
    for name, value in inspect.getmembers(KernelHooks, inspect.isfunction):
        if not name.startswith("_"):
            parameters = _parameters(value, skipped=1)
            found.append(Word(name=name, signature=_call(name, parameters), parameters=parameters, doc=_doc(value)))
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
    """What is there without being set, the instance's parameters aside."""
    found = [_global(name, value) for name, value in sorted(_environment().globals.items())]
    found += [Word(name=name, signature=name, doc=doc) for name, doc in VARIABLES.items()]
    for name, doc in INSIDE.items():
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
    return Word(name=name, signature=_call(name, parameters), parameters=parameters, doc=_doc(value))


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
        doc=_doc(plain),
    )


def _parameters(function: Callable[..., Any], *, skipped: int) -> tuple[WordParameter, ...]:
    named = list(inspect.signature(function).parameters.values())[skipped:]
    return tuple(_parameter(one) for one in named)


def _parameter(one: inspect.Parameter) -> WordParameter:
    if one.kind is inspect.Parameter.VAR_POSITIONAL:
        return WordParameter(name=f"*{one.name}", default="")
    if one.kind is inspect.Parameter.VAR_KEYWORD:
        return WordParameter(name=f"**{one.name}", default="")
    return WordParameter(name=one.name, default=None if one.default is inspect.Parameter.empty else _jinja(one.default))


def _call(name: str, parameters: tuple[WordParameter, ...]) -> str:
    shown = (one.name if not one.default else f"{one.name}={one.default}" for one in parameters)
    return f"{name}({', '.join(shown)})"


def _jinja(value: object) -> str:
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


def _doc(value: Any) -> str:
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
