"""The sandboxed Jinja2 environment: undefined names are errors, output carries its origin, work is bounded.

Its code generator yields `Piece` constants instead of string constants; they name the sites that are opened and closed
(includes, loops, blocks, calls) and the expression whose value comes next. Every statement also records which source
offset it belongs to, so that a run-time error finds its tag, not only its line.

Bounds are checked where templates spend time and memory: at the beginning of each loop and every few hundred rounds, at
each call, each `*`, `**`, `+` and `~`, and in the stream of pieces. What slips through (a filter that builds gigabytes
in one C call) is stopped by the limits of the worker process (`ckwatch.engine.render_pool`).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial, wraps
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from jinja2 import (
    StrictUndefined,
    Template,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
    nodes,
    pass_context,
    pass_eval_context,
)
from jinja2.compiler import CodeGenerator, Frame, optimizeconst
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.lexer import Lexer
from jinja2.nodes import EvalContext
from jinja2.runtime import Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, LRUCache, Namespace, missing

from ckwatch.model.arithmetic import INTEGER_LIMIT_BITS
from ckwatch.model.kernels import Operation, Tensor
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.render.hook_calls import Hook, KernelNamespace
from ckwatch.render.hooks import HookError
from ckwatch.render.lexer import LocatedLine, LocatingLexer, TemplateSource
from ckwatch.render.loader import RecordingLoader
from ckwatch.render.mapped_text import MappedText, Piece, Recorder, aligned, join
from ckwatch.render.outcome import Lookups
from ckwatch.render.values import describe, did_you_mean


class ExpressionCode(NamedTuple):
    """The place of an expression's generated code, in lines from 1 and columns of UTF-8."""

    start: tuple[int, int]
    end: tuple[int, int]
    node: nodes.Expr


@dataclass(frozen=True, slots=True)
class ModuleTables:
    """The tables that a generated module refers to, and the origin of its lines and expressions."""

    source: TemplateSource
    pieces: tuple[Piece, ...]
    code_lines: tuple[int, ...]
    code_offsets: tuple[int, ...]
    expressions: tuple[ExpressionCode, ...]

    def expression_at(self, start: tuple[int, int], end: tuple[int, int]) -> nodes.Expr | None:
        """The smallest expression whose generated code holds what stands from `start` to `end`."""
        around = [one for one in self.expressions if one.start <= start and end <= one.end]
        around.sort(key=lambda one: (one.end[0] - one.start[0], one.end[1] - one.start[1]))
        return around[0].node if around else None

    def offset_of_code_line(self, line: int) -> int:
        """The template offset of the statement that line `line` of the generated code belongs to; -1 if unknown."""
        index = bisect_right(self.code_lines, line) - 1
        return self.code_offsets[index] if index >= 0 else -1


def _check_loop_controls(template: nodes.Node, *, in_loop: bool = False) -> None:
    """Raises TemplateSyntaxError for `break` and `continue` outside of loops."""
    for child in template.iter_child_nodes():
        if isinstance(child, nodes.Break | nodes.Continue) and not in_loop:
            word = type(child).__name__.lower()
            raise TemplateSyntaxError(f"`{word}` stands outside of a loop", child.lineno)
        inner = isinstance(child, nodes.For) or (in_loop and not isinstance(child, nodes.Macro | nodes.CallBlock))
        _check_loop_controls(child, in_loop=inner)


ROUNDS = "rounds of a loop"
"""The filter that bounds loops; no template can name it."""


class _LoopRound:
    """Stands in a loop's body for the beginning of a round."""

    def __init__(self, loop: nodes.For) -> None:
        self.loop = loop


def mark_rounds(template: nodes.Template) -> None:
    """Put a mark at the beginning of every loop body, and a bound on what is looped over."""
    for loop in template.find_all(nodes.For):
        mark = nodes.Const(_LoopRound(loop), lineno=loop.lineno)
        if loop.body and isinstance(loop.body[0], nodes.Output):
            loop.body[0].nodes.insert(0, mark)
        else:
            loop.body.insert(0, nodes.Output([mark], lineno=loop.lineno))
        loop.iter = nodes.Filter(loop.iter, ROUNDS, [], [], None, None, lineno=loop.iter.lineno)


_SMALL = 1 << 62
"""The product of two integers below it is far from `INTEGER_LIMIT_BITS`."""


def _quick_operator(operator: str, condition: str) -> Callable[[CodeGenerator, nodes.BinExpr, Frame], None]:
    """Generated code that calls `call_binop` only where the operands are no integers that meet `condition`."""

    @optimizeconst
    def visit(self: CodeGenerator, node: nodes.BinExpr, frame: Frame) -> None:
        operands = (node.left, node.right)
        names = [str(one.value) if _is_small(one) else self.temporary_identifier() for one in operands]
        left, right = names
        self.write(f"({left} {operator} {right} if ")
        for operand, name in zip(operands, names, strict=True):
            if name.isidentifier():
                self.write(f"type({name} := ")
                self.visit(operand, frame)
                self.write(") is ")
        self.write("int")
        self.write("".join(condition.format(name) for name in names if name.isidentifier()))
        self.write(f" else environment.call_binop(context, {operator!r}, {left}, {right}))")

    return visit


def _is_small(node: nodes.Expr) -> TypeGuard[nodes.Const]:
    return isinstance(node, nodes.Const) and type(node.value) is int and 0 <= node.value < _SMALL


class MappingCodeGenerator(CodeGenerator):
    """Generates modules whose output carries its origins."""

    environment: TemplateEnvironment
    visit_Add = _quick_operator("+", "")  # noqa: N815  # the base class names it
    visit_Mul = _quick_operator("*", f" and -{_SMALL} < {{}} < {_SMALL}")  # noqa: N815

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._source = self.environment.source_in_compilation
        self._pieces: list[Piece] = []
        self._sites: dict[Site, Site] = {}
        self._extends: nodes.Extends | None = None
        self._expressions: list[ExpressionCode] = []
        self._column = 0
        self._depth = 0  # of expressions
        self._attempting = self.environment.attempt is not None

    def write(self, x: str) -> None:
        if self._new_lines:
            self._column = 4 * self._indentation
        super().write(x)
        self._column += len(x.encode())

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(node, nodes.Expr):
            return super().visit(node, *args, **kwargs)
        attempted = self._attempting and not self._depth and not isinstance(node, _CANNOT_FAIL)
        if attempted and getattr(node, "ctx", "load") == "load":
            self._attempt(lambda: self.visit(node, *args, **kwargs))
            return None
        start = (self.code_lineno, self._column)
        self._depth += 1
        result = super().visit(node, *args, **kwargs)
        self._depth -= 1
        self._expressions.append(ExpressionCode(start, (self.code_lineno, self._column), node))
        return result

    def _attempt(self, write: Callable[[], Any], otherwise: str = "") -> None:
        """Call `write`, and retry with another value if it raises an error."""
        self._depth += 1
        self.write("environment.attempt(lambda: ")
        write()
        self.write(f"{otherwise})")
        self._depth -= 1

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
                tuple(self._pieces),
                tuple(code_line for code_line, _ in located),
                tuple(offset for _, offset in located),
                tuple(self._expressions),
            )
        )
        self.writeline(f"_tables = environment.tables_of({key})")
        if self._pieces:
            names = ", ".join(f"_piece_{number}" for number in range(len(self._pieces)))
            self.writeline(f"{names}, = _tables.pieces")
        self.writeline("_mapped, _print = environment.mapped_text_type, environment.printed")
        self.writeline("_note, _noting = environment.mapped_values.append, environment.noting")

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:
        """As the base class, with pieces: constants that also say what comes next."""
        if frame.require_output_check:
            if self.has_known_extends:
                return
            self.writeline("if parent_template is None:")
            self.indent()
        # Each item is a piece or an expression; an expression is announced by the piece before it.
        items: list[Piece | nodes.Expr] = []
        for child in node.nodes:
            if isinstance(child, nodes.Const) and isinstance(child.value, _LoopRound):
                items.append(Piece(opens=self._site(child.value.loop, SiteKind.LOOP)))
                continue
            constant = self._constant(child, frame)
            if constant is None:
                if not items or not isinstance(items[-1], Piece):
                    items.append(Piece())
                items[-1].prints = self._site(child, _kind(child))  # type: ignore[union-attr]  # a piece is the last
                items.append(child)
            elif items and isinstance(last := items[-1], Piece) and last.site is None and not last:
                items[-1] = Piece(constant, constant.site, copied=constant.copied, opens=last.opens)
            else:
                items.append(constant)
        self._write_items(items, node.nodes[0], frame)
        if frame.require_output_check:
            self.outdent()

    def _write_items(self, items: list[Piece | nodes.Expr], first: nodes.Node, frame: Frame) -> None:
        """One event of all `items`, which begin with a piece."""
        pieces = [item if isinstance(item, Piece) else None for item in items]
        self.environment.recorder.keep(*pieces)  # type: ignore[arg-type]  # see above
        self._begin_event(frame, first)
        self.indent()
        for item in items:
            if isinstance(item, Piece):
                self.writeline(f"{self._piece(item)},")
                continue
            self.newline(item)
            if self._attempting:
                self._attempt(partial(self._write_value, item, frame), ", ''")
            else:
                self._write_value(item, frame)
            self.write(",")
        self.outdent()
        self.writeline(")" if frame.buffer is None else "))")

    def _write_value(self, item: nodes.Expr, frame: Frame) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            finalize = self._make_finalize()
            self.write("_noting(")
            self._output_child_pre(item, frame, finalize)
            self.visit(item, frame)
            self._output_child_post(item, frame, finalize)
            self.write(")")
        else:
            self.write("(_value if (_type := type(_value := ")
            self.visit(item, frame)
            self.write(
                ")) is str else str(_value) if _type is int or _type is bool"
                " else _note(_value) or _value if _type is _mapped else _print(_value))"
            )

    def _begin_event(self, frame: Frame, node: nodes.Node | None) -> None:
        self.writeline("yield (" if frame.buffer is None else f"{frame.buffer}.append((", node)

    def start_write(self, frame: Frame, node: nodes.Node | None = None) -> None:
        # The base class writes single values with it.
        piece = self.environment.recorder.keep(Piece(), None)
        self._begin_event(frame, node)
        self.write(f"{self._piece(piece)}, _noting(")

    def end_write(self, frame: Frame) -> None:
        self.write("))" if frame.buffer is None else ")))")

    def simple_write(self, s: str, frame: Frame, node: nodes.Node | None = None) -> None:
        # The base class hands events on with it.
        self.writeline(f"yield {s}" if frame.buffer is None else f"{frame.buffer}.append({s})", node)

    def _constant(self, node: nodes.Expr, frame: Frame) -> Piece | None:
        """Return the constant that `node` always prints, or None if it is known only at run time."""
        finalize = self._make_finalize()._replace(const=self.environment.printed)
        try:
            text = self._output_child_to_const(node, frame, finalize)
        except Exception:  # noqa: BLE001  # whatever it is, it is shown when it runs
            return None
        if isinstance(node, nodes.TemplateData):
            return Piece(text, self._text_site(node, text), copied=True)
        return Piece(text, self._site(node, _kind(node)))

    def _piece(self, piece: Piece) -> str:
        """The generated code of a constant."""
        self._pieces.append(piece)
        return f"_piece_{len(self._pieces) - 1}"

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
        self._enter(node, SiteKind.INCLUDE, frame)
        if not node.with_context:  # what an earlier render wrote may be written again
            self.writeline("_note(None)")
        super().visit_Include(node, frame)
        self._leave(node, SiteKind.INCLUDE, frame)

    def visit_Extends(self, node: nodes.Extends, frame: Frame) -> None:
        self._extends = node
        self._enter(node, SiteKind.EXTENDS, frame)
        super().visit_Extends(node, frame)

    def visit_Block(self, node: nodes.Block, frame: Frame) -> None:
        if frame.toplevel and self.has_known_extends:
            super().visit_Block(node, frame)
            return
        self._enter(node, SiteKind.BLOCK, frame)
        super().visit_Block(node, frame)
        self._leave(node, SiteKind.BLOCK, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        super().visit_For(node, frame)
        self._leave(node, SiteKind.LOOP, frame)

    def visit_CallBlock(self, node: nodes.CallBlock, frame: Frame) -> None:
        self._enter(node, SiteKind.CALL, frame)
        super().visit_CallBlock(node, frame)
        self._leave(node, SiteKind.CALL, frame)

    def visit_FilterBlock(self, node: nodes.FilterBlock, frame: Frame) -> None:
        self._enter(node, SiteKind.FILTER, frame)
        super().visit_FilterBlock(node, frame)
        self._leave(node, SiteKind.FILTER, frame)

    def _enter(self, node: nodes.Node, kind: SiteKind, frame: Frame) -> None:
        self._write_piece(Piece(opens=self._site(node, kind)), frame, node)

    def _leave(self, node: nodes.Node, kind: SiteKind, frame: Frame) -> None:
        self._write_piece(Piece(closes=self._site(node, kind)), frame)

    def _write_piece(self, piece: Piece, frame: Frame, node: nodes.Node | None = None) -> None:
        self.environment.recorder.keep(piece)
        self.simple_write(f"({self._piece(piece)},)", frame, node)

    def _text_site(self, node: nodes.Node, text: str) -> Site:
        start = _offset(node)
        return Site(SiteKind.TEXT, self._source.span(start, start + len(text)), "text")

    def _site(self, node: nodes.Node, kind: SiteKind) -> Site:
        """The site of `node`: one object for one place, by which sites are compared."""
        offset = _offset(node)
        tag = self._source.tag_at(offset)
        if tag is None:
            site = Site(kind, self._source.span(offset, offset + 1), kind.value)
        else:
            names = tuple(dict.fromkeys(name for name, _ in tag.names))
            site = Site(kind, self._source.span(tag.start, tag.end), tag.body, names)
        return self._sites.setdefault(site, site)


_CANNOT_FAIL = (nodes.Const, nodes.TemplateData, nodes.Name, nodes.NSRef)


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


class TemplateUndefined(StrictUndefined):
    """As Jinja2's, without the classes of ours in what it says."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        of: object = self._undefined_obj
        name: object = self._undefined_name
        if self._undefined_hint or of is missing:
            return super()._undefined_message
        whole = "`kernel`" if isinstance(of, KernelNamespace) else describe(of)
        if not isinstance(name, str):
            return f"{whole} has no element {name!r}" if isinstance(name, int) else f"{whole} has no such element"
        names = of if isinstance(of, Mapping) else [one for one in dir(of) if not one.startswith("_")]
        known = (one for one in names if isinstance(one, str))
        return f"{whole} has no attribute '{name}'{did_you_mean(name, known)}"


class Budget:
    """The limits of one render; `start` begins a new one."""

    def __init__(self) -> None:
        self.output_limit = 0
        self._deadline = 0.0
        self._time_limit_s = 0.0

    def start(self, time_limit_s: float, output_limit: int) -> None:
        """Allow `time_limit_s` seconds and `output_limit` characters from now on."""
        self.output_limit = output_limit
        self._time_limit_s = time_limit_s
        self._deadline = time.monotonic() + time_limit_s

    def step(self) -> None:
        """Raises RenderLimitError after the deadline."""
        if time.monotonic() > self._deadline:
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


class MappingModule(TemplateModule):
    """An imported template, whose body is a stream of events."""

    def __str__(self) -> str:
        return str(self._concat(self._body_stream))

    def __init__(self, template: Template, context: Context) -> None:
        super().__init__(template, context)
        self._concat = template.environment.concat


class MappingTemplate(Template):
    """A template, whose imported module is one of ours."""

    def make_module(
        self,
        vars: dict[str, Any] | None = None,  # noqa: A002  # the base class names it
        shared: bool = False,
        locals: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> MappingModule:
        return MappingModule(self, self.new_context(vars, shared, locals))


ROUNDS_PER_CHECK = 256

TEMPLATES_KEPT = 400

PIECES_KEPT = 200_000
"""Constants of generated code that are kept; templates are compiled anew beyond that."""


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Loads, compiles and runs templates; one render at a time.

    `on_lookup` gets what the render has looked up whenever that has grown: before a template is compiled, which may
    take longer than a render may.
    """

    code_generator_class = MappingCodeGenerator
    intercepted_binops = frozenset({"*", "**", "+", "%"})
    template_class = MappingTemplate
    mapped_text_type = MappedText
    loader: RecordingLoader

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(
            loader=RecordingLoader(folders, {}),
            undefined=TemplateUndefined,
            keep_trailing_newline=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            cache_size=TEMPLATES_KEPT,
        )
        self.budget = Budget()
        self.recorder = Recorder()
        # While it is there, templates hand it their expressions, and go on with what it gives. They are other code.
        self.attempt: Callable[..., Any] | None = None
        self._usual_templates = self.cache
        self._attempting_templates = LRUCache(TEMPLATES_KEPT)
        # What generated code met as a value, in a render; as long as it is empty no search for such values is needed.
        self.mapped_values: list[MappedText | None] = []
        self.lookups = Lookups()
        self.on_lookup: Callable[[Lookups], None] = lambda _lookups: None
        self.loader.on_found = self._record
        self.sources: dict[str, TemplateSource] = {}
        self.source_in_compilation: TemplateSource
        # What the present render has compiled: it is compiled once more, in other code, where the render fails.
        self.parsed: dict[tuple[str, str | None, str | None], nodes.Template] = {}
        self._locating_lexer = LocatingLexer(self)
        self._tables: dict[int, ModuleTables] = {}
        self._tables_made = 0
        self.filters = {name: _mapping_filter(name, function) for name, function in FILTERS.items()}
        self.filters.update({"indent": _indent, "join": _join, ROUNDS: self._rounds})

    @property
    def lexer(self) -> Lexer:
        return self._locating_lexer

    @property
    def sources_read(self) -> list[TemplateSource]:
        """The templates that the present render has read."""
        return [source for path, source in self.sources.items() if path in self.lookups.read]

    def concat(self, events: Iterable[Any]) -> MappedText:
        return self.recorder.concat(events, self.budget.output_limit, self.budget.text, self.mapped_values)

    def start(self, time_limit_s: float, output_limit: int) -> None:
        """Begin a render that may take `time_limit_s` seconds and make `output_limit` characters."""
        self.budget.start(time_limit_s, output_limit)
        self.mapped_values.clear()
        if len(self.recorder) > PIECES_KEPT and self._usual_templates is not None:
            self._usual_templates.clear()
            self._attempting_templates.clear()
            self.recorder = Recorder()

    def begin_attempts(self, attempt: Callable[..., Any]) -> None:
        """Use templates that hand their expressions to `attempt`, until `end_attempts`."""
        self.attempt = attempt
        self.cache = self._attempting_templates  # type: ignore[assignment]  # which it is registered as
        for template in self._attempting_templates.values():
            template._module = None  # which may hold undefined names of an earlier time

    def end_attempts(self) -> None:
        """Use the usual templates again."""
        self.attempt = None
        self.cache = self._usual_templates

    def compile(
        self, source: Any, name: Any = None, filename: Any = None, raw: Any = False, defer_init: Any = False
    ) -> Any:
        if isinstance(source, str):
            path = filename or name or "<string>"
            known = self.sources.get(path)
            if known is None or known.text != source:
                try:
                    known = self.sources[path] = TemplateSource(path, source, self.lexer)
                except TemplateSyntaxError as error:
                    error.source = source
                    raise
            self.source_in_compilation = known
        return super().compile(source, name, filename, raw, defer_init)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        key = (source, name, filename)
        if (known := self.parsed.get(key)) is not None:
            return known
        template = super()._parse(source, name, filename)
        try:
            _check_loop_controls(template)
        except TemplateSyntaxError as error:
            error.name, error.filename = name, filename
            raise
        mark_rounds(template)
        self.parsed[key] = template
        return template

    def _load_template(self, name: str, globals: MutableMapping[str, Any] | None) -> Template:  # noqa: A002
        try:
            template = super()._load_template(name, globals)
        except TemplateNotFound as error:
            if error.name == name:
                self.lookups.missed.update(self.loader.last_missed)
                self.on_lookup(self.lookups)
            raise
        self._record(name)  # which the loader has not, of a template that was compiled before
        return template

    def _record(self, name: str) -> None:
        found = self.loader.found.get(name)
        if found is None or (found.sha256 is not None and self.lookups.read.get(found.path) == found.sha256):
            return
        self.lookups.missed.update(found.missed)
        if found.sha256 is None:
            self.lookups.missed.add(found.path)
        else:
            self.lookups.read[found.path] = found.sha256
        self.on_lookup(self.lookups)

    def keep_tables(self, tables: ModuleTables) -> int:
        """Hand `tables` to the module that is being generated; it fetches them by the returned key."""
        self._tables_made += 1
        self._tables[self._tables_made] = tables
        return self._tables_made

    def tables_of(self, key: int) -> ModuleTables:
        """Called by a generated module when it is executed."""
        return self._tables.pop(key)

    def noting(self, value: str) -> str:
        """Called by generated code for a value that may be mapped text."""
        self.mapped_values.append(None)
        return value

    def printed(self, value: object) -> str:
        """Called by generated code for `{{ … }}`: what is printed of a value that is neither text nor an integer."""
        kind = type(value)
        if kind is Hook:
            text = str(value)
            self.mapped_values.append(text if type(text) is MappedText else None)
            return text
        if isinstance(value, Macro):
            message = f"`{value.name}` is a macro: write {value.name}({', '.join(value.arguments)})"
            raise HookError(message, name=value.name)
        if isinstance(value, Tensor):
            name = value.name
            raise HookError(f"{name} is a tensor: write {name}.name, ptr({name}), dtype({name}) or the like", name=name)
        if isinstance(value, Operation):
            message = "`operation` is not text: write operation.kind, operation.accumulator or the like"
            raise HookError(message, name="operation")
        if isinstance(value, Iterator):
            raise HookError("this is a sequence: `| join` makes text of it")
        if kind in (Namespace, LoopContext, Joiner, Cycler, TemplateReference) or (
            callable(value) and not isinstance(value, Undefined | Hook)
        ):
            name = next((name for name, known in self.globals.items() if known is value), "")
            what = "is a function: call it with (…)" if callable(value) else "is not text"
            raise HookError(f"`{name}` {what}" if name else f"this {what}", name=name)
        return str(value)

    @staticmethod
    @pass_context
    def _rounds(context: Context, values: Any) -> Iterable[Any]:
        """`values`, the time of whose rounds is bounded."""
        environment: TemplateEnvironment = context.environment  # type: ignore[assignment]  # made by this one
        step = environment.budget.step
        step()
        if type(values) not in _COUNTED:
            if not hasattr(values, "__iter__"):
                raise HookError(f"there is nothing to loop over in {describe(values)}")
            return _stepping(iter(values), step)
        if len(values) <= ROUNDS_PER_CHECK:
            return values  # type: ignore[no-any-return]  # what is looped over may be anything
        return chain.from_iterable(_chunks(iter(values), step))

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        if isinstance(obj, Undefined):
            return obj
        message = f"access to attribute {attribute!r} of {describe(obj)} is unsafe"
        return self.undefined(message, name=attribute, obj=obj, exc=SecurityError)

    def concatenate(self, parts: Sequence[object]) -> str:
        """Called by generated code for `a ~ b`."""
        texts = [part if isinstance(part, str) else self.printed(part) for part in parts]
        self.budget.text(sum(map(len, texts)))
        return join("", texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.budget.step()
        if operator == "*":
            _check_product(self.budget, left, right)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            if left.bit_length() * right > INTEGER_LIMIT_BITS:
                raise RenderLimitError(f"a power of more than {INTEGER_LIMIT_BITS} bits")
        elif isinstance(left, str) and isinstance(right, str):
            self.budget.text(len(left) + len(right))
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            _check_sequence(len(left) + len(right))
        result = super().call_binop(context, operator, left, right)
        if operator == "%" and type(result) is str:
            return _approximate(result, right if isinstance(right, tuple) else (right,), {})
        return result

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.budget.step()
        result = super().call(context, obj, *args, **kwargs)
        return _approximate(result, args, kwargs) if type(result) is str else result


_COUNTED = frozenset({list, tuple, dict, range, str, MappedText})
"""Types that can be consumed in chunks without a visible difference."""


def _chunks(values: Iterator[Any], step: Callable[[], None]) -> Iterator[tuple[Any, ...]]:
    while chunk := tuple(islice(values, ROUNDS_PER_CHECK)):
        step()
        yield chunk


def _stepping(values: Iterator[Any], step: Callable[[], None]) -> Iterator[Any]:
    for value in values:
        step()
        yield value


def _check_product(budget: Budget, left: Any, right: Any) -> None:
    for value, count in ((left, right), (right, left)):
        if isinstance(count, int):
            if isinstance(value, str | bytes):
                budget.text(len(value) * count)
            elif isinstance(value, list | tuple):
                _check_sequence(len(value) * count)
            elif isinstance(value, int) and value.bit_length() + count.bit_length() > INTEGER_LIMIT_BITS:
                raise RenderLimitError(f"a product of more than {INTEGER_LIMIT_BITS} bits")


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


def _indent(s: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Jinja2's `indent`, which would keep the origin of the first line only."""
    text = s if isinstance(s, str) else str(s)
    result = str(FILTERS["indent"](str.__str__(text), width, first, blank))
    return aligned(result, text) if isinstance(text, MappedText) else result


@pass_eval_context
def _join(eval_ctx: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """Jinja2's `join`, keeping the origin of each part."""
    if eval_ctx.autoescape or attribute is not None:
        return str(FILTERS["join"](eval_ctx, value, d, attribute))
    if not hasattr(value, "__iter__"):
        raise HookError(f"`join` takes a list, not {describe(value)}")
    environment: TemplateEnvironment = eval_ctx.environment  # type: ignore[assignment]  # made by this one
    return join(str(d), [part if isinstance(part, str) else environment.printed(part) for part in value])
