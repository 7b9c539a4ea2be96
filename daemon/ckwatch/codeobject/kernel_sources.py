"""The declarations of a code object's kernels in the text that was compiled and in the headers of its own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ckwatch.checks.device_code.declarations import KernelDeclaration, kernel_declarations
from ckwatch.checks.device_code.launch_sizes import LaunchSize, Range, size_of_launches
from ckwatch.checks.places import RenderedFile, SourcePlace
from ckwatch.codeobject.kernel_names import scoped_name
from ckwatch.codeobject.limit_hints import SourceEdit
from ckwatch.codeobject.report import KernelReport
from ckwatch.codeobject.source_lines import plain_name
from ckwatch.model.diagnostics import Fix
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.source_map import SiteKind
from ckwatch.model.text import LineIndex, Span


class SourceTexts:
    """A rendered text behind the headers that it includes: offsets are those in all of them, one after the other."""

    def __init__(self, rendered: RenderedFile, headers: Mapping[str, str]) -> None:
        self.rendered = rendered
        self._paths = [*headers, ""]
        self._starts: list[int] = []
        self.text = ""
        for text in (*headers.values(), rendered.source_map.text):
            self._starts.append(len(self.text))
            self.text += f"{text}\n"
        self._headers = headers

    @property
    def rendered_start(self) -> int:
        """The offset at which the rendered text begins."""
        return self._starts[-1]

    def edited(self, edits: Sequence[SourceEdit]) -> str | None:
        """The rendered text after `edits`; None where one of them is in a header."""
        if any(edit.start < self.rendered_start for edit in edits):
            return None
        text = self.rendered.source_map.text
        for edit in sorted(edits, key=lambda one: one.start, reverse=True):
            start, end = edit.start - self.rendered_start, edit.end - self.rendered_start
            text = f"{text[:start]}{edit.text}{text[end:]}"
        return text

    def line(self, path: str, number: int) -> tuple[int, int] | None:
        """The offsets of a line, numbered from 1, of one of the texts; None where it is in none."""
        if number < 1:
            return None
        own = "" if self.rendered.is_at(path) else path
        if own not in self._paths:
            return None
        at = self._paths.index(own)
        start, end = self._starts[at], self._starts[at + 1] if at + 1 < len(self._starts) else len(self.text)
        for _ in range(number - 1):
            start = self.text.find("\n", start, end) + 1
            if not start:
                return None
        return start, max(self.text.find("\n", start, end), start)

    def place(self, start: int, end: int) -> SourcePlace | None:
        """The place of [`start`, `end`) in the template or header."""
        if start >= self.rendered_start:
            return self.rendered.place_at(start - self.rendered_start, end - self.rendered_start)
        return SourcePlace(self._span_in_header(start, end))

    def fix(self, edit: SourceEdit) -> Fix | None:
        """The edit of the template or header; None where an expression printed the text."""
        if edit.start < self.rendered_start:
            return Fix(self._span_in_header(edit.start, edit.end), edit.text)
        lines = self.rendered.source_map.lines
        start, end = (lines.position(at - self.rendered_start) for at in (edit.start, edit.end))
        span = self.rendered.exact_span(start, end)
        return None if span is None else Fix(span, edit.text)

    def printed_by(self, within: Range) -> str | None:
        """The first expression that printed some of the text; None where there is none."""
        start, end = (at - self.rendered_start for at in within)
        if start < 0:
            return None
        while start < end:
            segment = self.rendered.source_map.segment_at(start)
            if segment is None:
                return None
            if not segment.verbatim:
                return segment.site.label if segment.site.kind is SiteKind.EXPRESSION else ""
            start = max(segment.end, start + 1)
        return None

    def _span_in_header(self, start: int, end: int) -> Span:
        at = bisect_right(self._starts, start) - 1
        path, begin = self._paths[at], self._starts[at]
        lines = LineIndex(self._headers[path])
        return Span(path, lines.position(start - begin), lines.position(end - begin))


@dataclass(frozen=True, slots=True)
class LimitedKernel:
    """A kernel of a code object, the declarations that may be its own, and the size of its launches if it is known."""

    kernel: KernelReport
    declared: tuple[KernelDeclaration, ...]
    size: LaunchSize | None


@dataclass(frozen=True, slots=True)
class BoundText:
    """The number of threads in a bound: as it is compiled, and as the template has it."""

    compiled: str
    written: str


def kernel_sources(kernels: Sequence[KernelReport], texts: SourceTexts) -> list[LimitedKernel]:
    """The kernels that the texts declare."""
    declared = kernel_declarations(texts.text)
    found = []
    for kernel in kernels:
        name = plain_name(scoped_name(kernel.resources.symbol)).rpartition("::")[2]
        own = tuple(one for one in declared if one.name == name)
        if own:
            found.append(LimitedKernel(kernel, own, size_of_launches(texts.text, name)))
    return found


def bound_text(texts: SourceTexts, declared: KernelDeclaration, size: LaunchSize) -> BoundText | None:
    """The size of a kernel's launches as a bound has it in all instances of the template; None where that is not known.

    It is the number where no expression printed any of it, else that expression, or a constant that is declared before
    the kernel.
    """
    number = str(size.threads)
    if all(texts.printed_by(one) is None for one in size.written):
        return BoundText(number, number)
    if size.block is None or declared.insert_at < texts.rendered_start:
        return None
    text = texts.text[slice(*size.block)]
    printed = texts.printed_by(size.block)
    if printed is not None:
        return BoundText(number, f"{{{{ {printed} }}}}") if printed and text == number else None
    values = [end for start, end in size.written if (start, end) != size.block]
    known_before = text.isidentifier() and values and max(values) < declared.insert_at
    return BoundText(text, text) if known_before and not declared.macro else None
