"""The sandboxed Jinja2 environment: undefined names are errors, output is mapped, work is bounded.

Bounds are checked where templates spend time and memory: each round of a loop, each printed value, each `*`, `**`, `+`
and `~`. What slips through (a filter that builds gigabytes in one C call) is stopped by the limits of the process that
renders (`ckwatch.render.process`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateNotFound, nodes, pass_eval_context
from jinja2.filters import FILTERS
from jinja2.lexer import Lexer
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ckwatch.render.codegen import MappingCodeGenerator, Tables, mark_rounds
from ckwatch.render.lexer import LocatingLexer, TemplateSource
from ckwatch.render.loader import Lookups, RecordingLoader
from ckwatch.render.text import MappedText, Mark, aligned, concat, join, printed
from ckwatch.sourcemap import Site

SEQUENCE_LIMIT = 1_000_000
"""Longest list or tuple that `*` and `+` may make in a template."""

INTEGER_LIMIT_BITS = 4096
"""Largest integer that `*` and `**` may make in a template."""


class RenderLimitError(Exception):
    """A template that takes too long or prints too much."""


class Budget:
    """What one render may use; `start` begins a new one."""

    def __init__(self) -> None:
        self.output_limit = 0
        self._deadline = 0.0
        self._time_limit_s = 0.0
        self._steps = 0

    def start(self, time_limit_s: float, output_limit: int) -> None:
        """Allow `time_limit_s` seconds and `output_limit` characters from now on."""
        self.output_limit = output_limit
        self._time_limit_s = time_limit_s
        self._deadline = time.monotonic() + time_limit_s

    def step(self) -> None:
        """Count one step. Raises RenderLimitError after the deadline."""
        self._steps += 1
        if self._steps & 0xFF == 0 and time.monotonic() > self._deadline:
            raise RenderLimitError(
                f"rendering took longer than {self._time_limit_s:g} s and was stopped here; "
                "[render] time_limit_s in ckwatch.toml raises the limit"
            )

    def text(self, length: int) -> None:
        """Check the length of a text about to be made. Raises RenderLimitError."""
        if length > self.output_limit:
            raise RenderLimitError(
                f"the template makes a text of more than {self.output_limit} characters and was stopped here; "
                "[render] output_limit_bytes in ckwatch.toml raises the limit"
            )


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Loads, compiles and runs templates; one render at a time."""

    code_generator_class = MappingCodeGenerator
    intercepted_binops = frozenset({"*", "**", "+", "%"})
    loader: RecordingLoader

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(
            loader=RecordingLoader(folders, {}),
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            cache_size=400,
        )
        self.budget = Budget()
        self.lookups = Lookups()
        self.sources: dict[str, TemplateSource] = {}
        self.source_in_compilation: TemplateSource
        self._locating_lexer = LocatingLexer(self)
        self._tables: dict[int, Tables] = {}
        self._tables_made = 0
        self.filters = {name: _mapping_filter(name, function) for name, function in FILTERS.items()}
        self.filters.update(indent=_indent, join=_join)

    @property
    def lexer(self) -> Lexer:
        return self._locating_lexer

    def concat(self, pieces: Iterable[str]) -> MappedText:
        return concat(pieces, self.budget.output_limit, self.budget.text)

    def compile(
        self, source: Any, name: Any = None, filename: Any = None, raw: Any = False, defer_init: Any = False
    ) -> Any:
        if isinstance(source, str):
            self.source_in_compilation = TemplateSource(filename or name or "<string>", source, self.lexer)
            self.sources[self.source_in_compilation.path] = self.source_in_compilation
        return super().compile(source, name, filename, raw, defer_init)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        mark_rounds(template)
        return template

    def _load_template(self, name: str, globals: MutableMapping[str, Any] | None) -> Template:  # noqa: A002
        try:
            template = super()._load_template(name, globals)
        except TemplateNotFound as error:
            if error.name == name:
                self.lookups.missed.update(self.loader.last_missed)
            raise
        except Exception:
            self._record(name)
            raise
        self._record(name)
        return template

    def _record(self, name: str) -> None:
        found = self.loader.found.get(name)
        if found is not None:
            self.lookups.read[found.path] = found.sha256
            self.lookups.missed.update(found.missed)

    def keep_tables(self, tables: Tables) -> int:
        """Hand `tables` to the module that is being generated; it fetches them by the returned key."""
        self._tables_made += 1
        self._tables[self._tables_made] = tables
        return self._tables_made

    def tables_of(self, key: int) -> Tables:
        """Called by a generated module when it is executed."""
        return self._tables.pop(key)

    def print_value(self, value: object, site: Site) -> MappedText:
        """Called by generated code for `{{ … }}`."""
        self.budget.step()
        return printed(value, site)

    def begin_round(self, mark: Mark) -> Mark:
        """Called by generated code at the beginning of each round of a loop."""
        self.budget.step()
        return mark

    def concatenate(self, parts: Sequence[object]) -> MappedText:
        """Called by generated code for `a ~ b`."""
        texts = [part if isinstance(part, str) else str(part) for part in parts]
        self.budget.text(sum(map(len, texts)))
        return join("", texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.budget.step()
        if operator == "*":
            _check_product(self.budget, left, right)
        elif operator == "**":
            _check_power(left, right)
        elif isinstance(left, str) and isinstance(right, str):
            self.budget.text(len(left) + len(right))
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            _check_sequence(len(left) + len(right))
        result = super().call_binop(context, operator, left, right)
        if operator == "%" and type(result) is str:
            return _approximate(result, right if isinstance(right, tuple) else (right,), {})
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = super().call(context, obj, *args, **kwargs)
        return _approximate(result, args, kwargs) if type(result) is str else result


def _check_product(budget: Budget, left: Any, right: Any) -> None:
    for value, count in ((left, right), (right, left)):
        if isinstance(count, int):
            if isinstance(value, str | bytes):
                budget.text(len(value) * count)
            elif isinstance(value, list | tuple):
                _check_sequence(len(value) * count)
            elif isinstance(value, int) and value.bit_length() + count.bit_length() > INTEGER_LIMIT_BITS:
                raise RenderLimitError(f"a product of more than {INTEGER_LIMIT_BITS} bits")


def _check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > INTEGER_LIMIT_BITS:
        raise RenderLimitError(f"a power of more than {INTEGER_LIMIT_BITS} bits")


def _check_sequence(length: int) -> None:
    if length > SEQUENCE_LIMIT:
        raise RenderLimitError(f"a sequence of more than {SEQUENCE_LIMIT} items")


def _mapping_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with origins given to the plain text it makes of mapped text."""
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if type(result) is not str:
            return result
        source = args[skip] if len(args) > skip else None
        if type(source) is MappedText:
            return aligned(result, source)
        return _approximate(result, args, kwargs)

    filtered.__name__ = name
    return filtered


def _approximate(result: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Plain text that was made with mapped text as an argument: some of it came from there, nobody knows what."""
    for argument in args:
        if type(argument) is MappedText:
            return MappedText(result)
    return MappedText(result) if MappedText in map(type, kwargs.values()) else result


def _indent(s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Jinja2's `indent`, line by line so that each line keeps its origin."""
    if not isinstance(s, MappedText):
        return str(FILTERS["indent"](s, width, first, blank))
    indention = width if isinstance(width, str) else " " * width
    lines = (s + "\n").splitlines()
    text = join("\n", [indention + line if index and (line or blank) else line for index, line in enumerate(lines)])
    return indention + text if first else text


@pass_eval_context
def _join(eval_ctx: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """Jinja2's `join`, keeping the origin of each part."""
    if eval_ctx.autoescape or attribute is not None:
        return str(FILTERS["join"](eval_ctx, value, d, attribute))
    return join(str(d), [part if isinstance(part, str) else str(part) for part in value])
