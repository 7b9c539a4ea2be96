"""Jinja2's code generator, taught to say where text comes from.

The generated module yields `MappedText` constants instead of string constants, passes what an expression prints
through `environment.print_value(value, site)`, and brackets includes, loops, blocks and calls with marks. Every
statement also records which source offset it belongs to, so that a run-time error finds its tag, not only its line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from ckwatch.render.lexer import Located, TemplateSource
from ckwatch.render.text import MappedText, Mark, concat, verbatim
from ckwatch.render.text import printed as printed_text
from ckwatch.sourcemap import Site, SiteKind

if TYPE_CHECKING:
    from ckwatch.render.environment import TemplateEnvironment


@dataclass(frozen=True, slots=True)
class Tables:
    """What a generated module refers to, and where its lines came from."""

    source: TemplateSource
    texts: tuple[MappedText, ...]
    sites: tuple[Site, ...]
    opens: tuple[Mark, ...]
    closes: tuple[Mark, ...]
    code_lines: tuple[int, ...]
    code_offsets: tuple[int, ...]

    def offset_of_code_line(self, line: int) -> int:
        """The template offset of the statement that line `line` of the generated code belongs to; -1 if unknown."""
        index = bisect_right(self.code_lines, line) - 1
        return self.code_offsets[index] if index >= 0 else -1


class _Round:
    """Stands in a loop's body for the beginning of a round; its `repr` is the generated code."""

    def __init__(self, loop: nodes.For) -> None:
        self.loop = loop
        self.code = "None"

    def __repr__(self) -> str:
        return self.code


def mark_rounds(template: nodes.Template) -> None:
    """Put a mark at the beginning of every loop body."""
    for loop in template.find_all(nodes.For):
        mark = nodes.Output([nodes.Const(_Round(loop), lineno=loop.lineno)], lineno=loop.lineno)
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
        located = [(code_line, line.offset) for line, code_line in self.debug_info if isinstance(line, Located)]
        key = self.environment.keep_tables(
            Tables(
                self._source,
                tuple(self._texts),
                tuple(self._sites),
                tuple(Mark(site, opens=True) for site in self._sites),
                tuple(Mark(site, opens=False) for site in self._sites),
                tuple(code_line for code_line, _ in located),
                tuple(offset for _, offset in located),
            )
        )
        self.writeline(f"_tables = environment.tables_of({key})")
        self.writeline("_texts, _sites = _tables.texts, _tables.sites")
        self.writeline("_opens, _closes = _tables.opens, _tables.closes")
        self.writeline("_print = environment.print_value")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.Const) and isinstance(node.value, _Round):
            raise nodes.Impossible
        const = super()._output_child_to_const(node, frame, finalize)
        if isinstance(node, nodes.TemplateData):
            return verbatim(const, self._text_site(node, const))
        return printed_text(const, self._site(node, _kind(node)))

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        self._texts.append(concat(group))
        return f"_texts[{len(self._texts) - 1}]"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if isinstance(node, nodes.Const) and isinstance(node.value, _Round):
            node.value.code = f"_opens[{self._site_number(node.value.loop, SiteKind.LOOP)}]"
            self.write("environment.begin_round(")
            return
        self.write("_print(")
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_pre(node, frame, finalize)

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if isinstance(node, nodes.Const) and isinstance(node.value, _Round):
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
    if isinstance(node.lineno, Located):
        return node.lineno.offset
    for child in node.iter_child_nodes():
        if isinstance(child.lineno, Located):
            return child.lineno.offset
    return 0
