"""The sandboxed Jinja2 environment: undefined names are errors, output carries its origin, work is bounded.

Its code generator yields `MappedText` constants instead of string constants, passes what an expression prints
through `environment.print_value(value, site)`, and brackets includes, loops, blocks and calls with marks. Every
statement also records which source offset it belongs to, so that a run-time error finds its tag, not only its line.

Bounds are checked where templates spend time and memory: each round of a loop, each printed value, each `*`, `**`, `+`
and `~`. What slips through (a filter that builds gigabytes in one C call) is stopped by the limits of the worker
process (`ckwatch.render.worker_pool`).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateNotFound, nodes, pass_eval_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.filters import FILTERS
from jinja2.lexer import Lexer
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ckwatch.model.arithmetic import INTEGER_LIMIT_BITS
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.render.lexer import LocatedLine, LocatingLexer, TemplateSource
from ckwatch.render.loader import Lookups, RecordingLoader
from ckwatch.render.mapped_text import (
    MappedText,
    SiteMark,
    aligned,
    concat,
    join,
    printed,
    verbatim,
)


@dataclass(frozen=True, slots=True)
class ModuleTables:
    """What a generated module refers to, and where its lines came from."""

    source: TemplateSource
    texts: tuple[MappedText, ...]
    sites: tuple[Site, ...]
    opens: tuple[SiteMark, ...]
    closes: tuple[SiteMark, ...]
    code_lines: tuple[int, ...]
    code_offsets: tuple[int, ...]

    def offset_of_code_line(self, line: int) -> int:
        """The template offset of the statement that line `line` of the generated code belongs to; -1 if unknown."""
        index = bisect_right(self.code_lines, line) - 1
        return self.code_offsets[index] if index >= 0 else -1


class _LoopRound:
    """Stands in a loop's body for the beginning of a round; its `repr` is the generated code."""

    def __init__(self, loop: nodes.For) -> None:
        self.loop = loop
        self.code = "None"

    def __repr__(self) -> str:
        return self.code


def mark_rounds(template: nodes.Template) -> None:
    """Put a mark at the beginning of every loop body."""
    for loop in template.find_all(nodes.For):
        mark = nodes.Output([nodes.Const(_LoopRound(loop), lineno=loop.lineno)], lineno=loop.lineno)
        loop.body.insert(0, mark)


class MappingCodeGenerator(CodeGenerator):
    """Generates modules whose output carries its origins."""

    environment: TemplateEnvironment

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._source = self.environment.source_in_compilation
        self._texts: list[MappedText] = []
        self._sites: list[Site] = []
        self._site_numbers: dict[Site, int] = {}
        self._extends: nodes.Extends | None = None

    def newline(self, node: nodes.Node | None = None, extra: int = 0) -> None:
        # The base class skips a line number equal to the last one; two tags of one line are two places here.
        self._last_line = -1
        super().newline(node, extra)

    def writeline(self, x: str, node: nodes.Node | None = None, extra: int = 0) -> None:
        # The parent's body is entered at the end of the child, by a line that no node is named for.
        if node is None and x.startswith("yield from parent_template."):
            node = self._extends
        super().writeline(x, node, extra)

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        super().visit_Template(node, frame)
        located = [(code_line, line.offset) for line, code_line in self.debug_info if isinstance(line, LocatedLine)]
        key = self.environment.keep_tables(
            ModuleTables(
                self._source,
                tuple(self._texts),
                tuple(self._sites),
                tuple(SiteMark(site, opens=True) for site in self._sites),
                tuple(SiteMark(site, opens=False) for site in self._sites),
                tuple(code_line for code_line, _ in located),
                tuple(offset for _, offset in located),
            )
        )
        self.writeline(f"_tables = environment.tables_of({key})")
        self.writeline("_texts, _sites = _tables.texts, _tables.sites")
        self.writeline("_opens, _closes = _tables.opens, _tables.closes")
        self.writeline("_print = environment.print_value")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.Const) and isinstance(node.value, _LoopRound):
            raise nodes.Impossible
        const = super()._output_child_to_const(node, frame, finalize)
        if isinstance(node, nodes.TemplateData):
            return verbatim(const, self._text_site(node, const))
        return printed(const, self._site(node, _kind(node)))

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        self._texts.append(concat(group))
        return f"_texts[{len(self._texts) - 1}]"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if isinstance(node, nodes.Const) and isinstance(node.value, _LoopRound):
            node.value.code = f"_opens[{self._site_number(node.value.loop, SiteKind.LOOP)}]"
            self.write("environment.begin_round(")
            return
        self.write("_print(")
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_pre(node, frame, finalize)

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if isinstance(node, nodes.Const) and isinstance(node.value, _LoopRound):
            self.write(")")
            return
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_post(node, frame, finalize)
        self.write(f", _sites[{self._site_number(node, _kind(node))}])")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super().visit_Concat(node, frame)
            return
        self.write("environment.concatenate((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:
        site = self._enter(node, SiteKind.INCLUDE, frame)
        super().visit_Include(node, frame)
        self._leave(site, frame)

    def visit_Extends(self, node: nodes.Extends, frame: Frame) -> None:
        self._extends = node
        self._enter(node, SiteKind.EXTENDS, frame)
        super().visit_Extends(node, frame)

    def visit_Block(self, node: nodes.Block, frame: Frame) -> None:
        if frame.toplevel and self.has_known_extends:
            super().visit_Block(node, frame)
            return
        site = self._enter(node, SiteKind.BLOCK, frame)
        super().visit_Block(node, frame)
        self._leave(site, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        super().visit_For(node, frame)
        self._leave(self._site_number(node, SiteKind.LOOP), frame)

    def visit_CallBlock(self, node: nodes.CallBlock, frame: Frame) -> None:
        site = self._enter(node, SiteKind.CALL, frame)
        super().visit_CallBlock(node, frame)
        self._leave(site, frame)

    def visit_FilterBlock(self, node: nodes.FilterBlock, frame: Frame) -> None:
        site = self._enter(node, SiteKind.FILTER, frame)
        super().visit_FilterBlock(node, frame)
        self._leave(site, frame)

    def _enter(self, node: nodes.Node, kind: SiteKind, frame: Frame) -> int:
        number = self._site_number(node, kind)
        self.simple_write(f"_opens[{number}]", frame, node)
        return number

    def _leave(self, number: int, frame: Frame) -> None:
        self.simple_write(f"_closes[{number}]", frame)

    def _site_number(self, node: nodes.Node, kind: SiteKind) -> int:
        site = self._site(node, kind)
        number = self._site_numbers.get(site)
        if number is None:
            number = self._site_numbers[site] = len(self._sites)
            self._sites.append(site)
        return number

    def _text_site(self, node: nodes.Node, text: str) -> Site:
        start = _offset(node)
        return Site(SiteKind.TEXT, self._source.span(start, start + len(text)), "text")

    def _site(self, node: nodes.Node, kind: SiteKind) -> Site:
        offset = _offset(node)
        tag = self._source.tag_at(offset)
        if tag is None:
            return Site(kind, self._source.span(offset, offset + 1), kind.value)
        names = tuple(dict.fromkeys(name for name, _ in tag.names))
        return Site(kind, self._source.span(tag.start, tag.end), tag.body, names)


def _kind(node: nodes.Expr) -> SiteKind:
    return SiteKind.CALL if isinstance(node, nodes.Call) else SiteKind.EXPRESSION


def _offset(node: nodes.Node) -> int:
    """The offset of a node; operators made by the parser may carry a plain line number, their operands do not."""
    if isinstance(node.lineno, LocatedLine):
        return node.lineno.offset
    for child in node.iter_child_nodes():
        if isinstance(child.lineno, LocatedLine):
            return child.lineno.offset
    return 0


SEQUENCE_LIMIT = 1_000_000
"""Longest list or tuple that `*` and `+` may make in a template."""


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
        self._tables: dict[int, ModuleTables] = {}
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

    def keep_tables(self, tables: ModuleTables) -> int:
        """Hand `tables` to the module that is being generated; it fetches them by the returned key."""
        self._tables_made += 1
        self._tables[self._tables_made] = tables
        return self._tables_made

    def tables_of(self, key: int) -> ModuleTables:
        """Called by a generated module when it is executed."""
        return self._tables.pop(key)

    def print_value(self, value: object, site: Site) -> MappedText:
        """Called by generated code for `{{ … }}`."""
        self.budget.step()
        return printed(value, site)

    def begin_round(self, mark: SiteMark) -> SiteMark:
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
    """Plain text that was made with mapped text as an argument: which part of it came from there is unknown."""
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
