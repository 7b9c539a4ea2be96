"""The vocabulary of templates, kernel files and `ckwatch.toml`, read from hooks, environment and models.

Imports Jinja2: it is loaded when an editor first asks.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from jinja2 import parser
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from markupsafe import Markup
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic_core import PydanticUndefined

from ckwatch.model.targets import ARCHS, HOST, NATIVE
from ckwatch.model.tensors import DTYPES, LAYOUTS
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.hooks import KernelHooks
from ckwatch.wire.language import KeyDescription, Word, WordParameter
from ckwatch.workspace import operation, settings
from ckwatch.workspace.kernel_file import TABLES as KERNEL_TABLES
from ckwatch.workspace.kernel_file import KernelTable
from ckwatch.workspace.operation import GEMM_INPUTS, GEMM_RUNTIME, GEMM_SIZES
from ckwatch.workspace.operation import TABLES as OPERATIONS
from ckwatch.workspace.settings import Settings
from ckwatch.workspace.shapes import GEMM_LEADING, RUNTIME_DEFAULTS
from ckwatch.workspace.sweep import SweepTable

SETTINGS_DOCS: Mapping[str, str] = {
    "workspace": "where templates and kernel files are, and what to compile for",
    "workspace.templates": (
        "where templates are looked for, in this order; the built-in templates come last; by default `templates`"
    ),
    "workspace.kernels": "which files are kernel files",
    "workspace.kernel_folders": "more folders to search for kernel files; links that lead elsewhere are not followed",
    "workspace.archs": "what units are compiled for, unless a kernel file says so itself",
    "toolchain": "folders that win over what discovery finds",
    "toolchain.rocm": "the ROCm tree",
    "toolchain.ck": "the folder that holds `ck/`",
    "toolchain.ck_tile": "the folder that holds `ck_tile/`",
    "compile": "how units are compiled",
    "compile.flags": "added to the compiler's flags",
    "compile.defines": "macros: a string, an integer, or `true` for one without a value",
    "compile.defines.*": "what the macro stands for; `true`: it is defined without a value",
    "compile.jobs": "compiler processes at one time; fewer run when memory would not do",
    "compile.precompile": "make precompiled headers in the background, and use them",
    "compile.nice": "how far compilers stand back for other programs, editors above all; 0: not at all",
    "compile.timeout_s": "after which a compiler is stopped",
    "compile.header_warnings": "show warnings that lie in headers",
    "render": "bounds of one render",
    "render.time_limit_s": "after which a template is stopped",
    "render.output_limit_bytes": "most that a template may print",
    "store": "where artifacts are kept",
    "store.folder": "where artifacts are kept",
    "store.size_limit_bytes": "above which the artifacts unused for longest are dropped",
    "daemon": "the background process",
    "daemon.build": "what is compiled without being asked: what was edited, is looked at or asked for; or all",
    "daemon.idle_exit_s": "after so long without clients and work the daemon ends; 0 for never",
    "daemon.settle_ms": "how long a file must be quiet before a change of it counts",
    "daemon.poll": "look at files again and again, for file systems that send no events",
    "daemon.watcher": (
        'what tells of changes; `"watchfiles"` is slower, and is used in any case where there is no inotify'
    ),
    "limits": "how much a kernel file may ask for",
    "limits.instances": "most instances of one kernel file",
    "limits.combinations": "most steps in looking for the combinations that meet a sweep's conditions",
    "bench": "how units are timed",
    "bench.device": "`auto` takes the best that fits; `hip:N`, `cuda:N`, `cpu`, or a PCI address",
    "bench.when": 'time by itself after builds, or on `"request"` only',
    "bench.launcher": (
        "an argument list in front of the worker, run in the workspace's folder: "
        '`["ssh", "gpu-box"]`, `["srun", "--gres=gpu:1"]`'
    ),
    "bench.worker": ('the worker\'s command; behind a launcher `["python3", "-P", "-m", "ckwatch.bench.worker"]`'),
    "bench.caches": ("what the caches hold when a launch begins: nothing of the operands, or what the last one left"),
    "bench.budget_s": "measuring of one instance on one shape with one cache state, at the most",
    "bench.save_budget_s": "device time that one save may take",
    "bench.relative_error": "standard error of the median at which a measurement ends",
    "bench.regression": "how much slower than before, or than the baseline, is a warning",
    "bench.time_limit_s": "after which a worker is ended",
    "bench.lease_wait_s": "how long to wait for a device that somebody else uses",
    "bench.shared": "measure also beside other processes on the device",
    "bench.threads": "threads of host kernels",
    "bench.library": "time the vendor's GEMM beside the kernel",
}

_OPERAND_DOCS = {
    "dtype": "the element type",
    "layout": "row- or column-major",
    "same_as": "the same buffer as another input's: given twice, it is one argument",
}

_TENSOR_DOCS = {
    **_OPERAND_DOCS,
    "name": "the name in templates and in the C function",
    "sizes": "the extent of each axis: integers or expressions of the sizes with `+ - * / % ( )`",
    "strides": "of each axis, as sizes are written; without them there are no gaps",
    "absent": "the template names this input, this kernel does not have it",
}


def _docs_of(table: str, docs: Mapping[str, str], *names: str) -> dict[str, str]:
    return {f"{table}.{name}": docs[name] for name in names}


_SCALE_DOC = "one value (`tensor`), or one per row of X and one per column of W (`row`); equal for both scales"
_SCALES_DOC = "scales of X and W, both or none"

KERNEL_FILE_DOCS: Mapping[str, str] = {
    "name": "unique in the workspace; by default the file's name without `.kernel.toml`",
    "template": "`*.hip.j2`, `*.cu.j2` (GPU) or `*.cpp.j2` (host)",
    "archs": 'what to compile for; by default what the workspace says, and `["host"]` for `*.cpp.j2`',
    "flags": "added to the compiler's flags",
    "operation": "what the kernel computes: tensors, sizes and arguments of its C function",
    "operation.kind": (
        "`gemm` is Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias), `custom` anything else"
    ),
    "operation.a": "X, M×K",
    **_docs_of("operation.a", _OPERAND_DOCS, "dtype", "layout", "same_as"),
    "operation.b": "W, K×N",
    **_docs_of("operation.b", _OPERAND_DOCS, "dtype", "layout", "same_as"),
    "operation.c": "Y, M×N",
    **_docs_of("operation.c", _OPERAND_DOCS, "dtype", "layout"),
    "operation.bias": "one value per column of Y (`row`), per row of Y (`col`), or with `full` an M×N matrix",
    **_docs_of("operation.bias", _OPERAND_DOCS, "dtype", "layout", "same_as"),
    "operation.bias.full": "an M×N matrix instead of a vector",
    "operation.scale_a": _SCALES_DOC,
    "operation.scale_a.dtype": _OPERAND_DOCS["dtype"],
    "operation.scale_a.per": _SCALE_DOC,
    "operation.scale_b": _SCALES_DOC,
    "operation.scale_b.dtype": _OPERAND_DOCS["dtype"],
    "operation.scale_b.per": _SCALE_DOC,
    "operation.accumulator": "the type of sums; by default f32, i32 for i8, f64 for f64",
    "operation.alpha": "factor of the product",
    "operation.beta": "factor of the bias",
    "operation.activation": "applied to the sum",
    "operation.split_k": "whether kBatch may be above 1; by default true if a shape has such a kBatch",
    "operation.input_reorder": "order of the inputs in the C function",
    "operation.settings": "handed to the template in `operation.settings`",
    "operation.settings.*": "handed to the template in `operation.settings`",
    "operation.sizes": "the `int32_t` size arguments",
    "operation.runtime": "runtime arguments and their C types",
    "operation.runtime.*": "the C type of this runtime argument",
    "operation.input": "a tensor that is read",
    **_docs_of("operation.input", _TENSOR_DOCS, "name", "dtype", "layout", "sizes", "strides", "same_as", "absent"),
    "operation.output": "a tensor that is written",
    **_docs_of("operation.output", _TENSOR_DOCS, "name", "dtype", "layout", "sizes", "strides"),
    "shape": "sizes that the kernel is timed on",
    "shape.name": "by default the sizes, `4096x4096x64`",
    "shape.M": "rows of X and Y",
    "shape.N": "columns of W and Y",
    "shape.K": "columns of X, rows of W",
    "shape.LDA": "leading dimension of X; by default without gaps",
    "shape.LDB": "leading dimension of W; by default without gaps",
    "shape.LDC": "leading dimension of Y; by default without gaps",
    "shape.LDD": "leading dimension of a full Bias; 0 repeats one row",
    "shape.kBatch": "slices of K that are multiplied side by side",
    "shape.*": "a value for each size argument and each runtime argument of the operation",
    "defaults": "template parameters of all instances",
    "defaults.*": "a template parameter: an integer, a number, true or false, a string, or an array of integers",
    "instance": "one set of template parameters; its own win over `[defaults]`",
    "instance.name": "a unit is called `KERNEL/INSTANCE@ARCH`",
    "instance.*": "a template parameter: an integer, a number, true or false, a string, or an array of integers",
    "sweep": "every combination of parameter values that meets the conditions, one instance each",
    "sweep.name": "what the instances' names begin with",
    "sweep.base": "an `[[instance]]` whose parameters to start from",
    "sweep.where": "conditions, all of which must hold: Jinja expressions over the parameters",
    "sweep.parameters": "an array gives the values to take, anything else one fixed value",
    "sweep.parameters.*": "an array gives the values to take, anything else one fixed value",
}


KEY_VALUES: Mapping[object, tuple[str, ...]] = {
    operation.known_dtype: tuple(DTYPES),
    operation.known_layout: tuple(LAYOUTS),
    operation.known_activation: operation.ACTIVATIONS,
    operation.known_scaling: ("tensor", "row"),
    operation.known_runtime_type: operation.RUNTIME_TYPES,
    settings.known_arch: (*ARCHS, NATIVE, HOST),
    settings.device_arch: (*ARCHS, NATIVE),
}
"""What each validator of a word accepts; an arch may have features besides."""

_SIZE_KINDS = {settings.size_bytes: "size", operation.size_expression: "size expression"}

PARAMETER_KIND = "integer, number, true or false, string, or array of integers"


def settings_keys() -> tuple[KeyDescription, ...]:
    """The keys of `ckwatch.toml`."""
    return tuple(_keys_of(Settings, "", SETTINGS_DOCS, {}))


def kernel_file_keys() -> tuple[KeyDescription, ...]:
    """The keys of a kernel file."""
    docs = KERNEL_FILE_DOCS
    found = [key for key in _keys_of(KernelTable, "", docs, {}) if key.path not in KERNEL_TABLES]
    found.append(_table_key("operation", docs, required=True))
    kind = KeyDescription(path="operation.kind", doc=docs["operation.kind"], type="string", required=True)
    found.append(kind.model_copy(update={"values": tuple(f'"{name}"' for name in OPERATIONS)}))
    for name, model in OPERATIONS.items():
        found += [
            key for key in _keys_of(model, "operation.", docs, {"operation.kind": name}) if key.path != "operation.kind"
        ]
    found += [*_shape_keys(docs), _table_key("defaults", docs), _parameter_key("defaults.*", docs)]
    found += [_table_key("instance", docs, "array of tables"), _named_key("instance.name", docs, required=True)]
    found += [_parameter_key("instance.*", docs), _table_key("sweep", docs, "array of tables")]
    for key in _keys_of(SweepTable, "sweep.", docs, {}):
        match key.path:
            case "sweep.where":
                found.append(key.model_copy(update={"type": "string or array of strings"}))
            case "sweep.parameters.*":
                found.append(key.model_copy(update={"type": f"array of values, or one value: {PARAMETER_KIND}"}))
            case _:
                found.append(key)
    return tuple(found)


def _shape_keys(docs: Mapping[str, str]) -> Iterator[KeyDescription]:
    yield _table_key("shape", docs, "array of tables")
    yield _named_key("shape.name", docs)
    gemm = {"operation.kind": "gemm"}
    for name in (*GEMM_SIZES, *GEMM_RUNTIME):
        path = f"shape.{name}"
        default = str(RUNTIME_DEFAULTS.get(name, ""))
        needed = name not in GEMM_LEADING and name not in RUNTIME_DEFAULTS
        yield KeyDescription(path=path, doc=docs[path], type="integer", required=needed, default=default, when=gemm)
    yield KeyDescription(
        path="shape.*", doc=docs["shape.*"], type="integer or number", when={"operation.kind": "custom"}
    )


def _table_key(path: str, docs: Mapping[str, str], kind: str = "table", *, required: bool = False) -> KeyDescription:
    return KeyDescription(path=path, doc=docs[path], type=kind, required=required)


def _named_key(path: str, docs: Mapping[str, str], *, required: bool = False) -> KeyDescription:
    return KeyDescription(path=path, doc=docs[path], type="string", required=required)


def _parameter_key(path: str, docs: Mapping[str, str]) -> KeyDescription:
    return KeyDescription(path=path, doc=docs[path], type=PARAMETER_KIND)


def _keys_of(
    model: type[BaseModel], prefix: str, docs: Mapping[str, str], when: Mapping[str, str]
) -> Iterator[KeyDescription]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        path = prefix + name
        required = field.is_required()
        kind, values, inner = _kind(hints[name])
        yield KeyDescription(
            path=path,
            doc=docs.get(path, ""),
            type=kind,
            values=values,
            required=required,
            default="" if inner is not None or required else _default_text(field.default, kind),
            when=dict(when),
        )
        if inner is not None:
            yield from _keys_of(inner, path + ".", docs, when)
        elif kind == "table":
            value_kind, values, _ = _kind(get_args(_stripped(hints[name])[0])[1])
            yield KeyDescription(
                path=f"{path}.*", doc=docs.get(f"{path}.*", ""), type=value_kind, values=values, when=dict(when)
            )


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
    words = next((KEY_VALUES[check] for check in checks if check in KEY_VALUES), ())
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
    "a tensor of the GEMM, `none` where the operation has none: `name`, `dtype`, `layout`, `sizes`, `strides`, `buffer`"
)

VARIABLES: Mapping[str, str] = {
    "parameters": "all parameters of the instance, as a mapping",
    **dict.fromkeys((*GEMM_INPUTS, "Y"), _TENSOR_WORDS),
    "operation": "`kind`, `accumulator`, `settings` (`alpha`, `beta`, `activation`, …), `size_arguments`, "
    "`runtime_arguments`",
    "arch": "`gfx942`, or `host`",
    "input_reorder": "the operation's order of inputs, or `none`",
    "KERNEL_NAME": "stands for the exported function's name",
    "DEVICE_CODE_NAME": "stands for a name that changes only with what the device pass can see",
    "kernel": "all hooks as attributes: `kernel.def_kernel(…)`",
}
"""What templates find besides the instance's parameters and the hooks."""

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
    """What `ckwatch.render.hooks` offers, without the value that a method belongs to."""
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
    """What is there without being set, the instance's parameters aside."""
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
