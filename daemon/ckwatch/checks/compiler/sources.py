"""The texts that the messages of a compiler are about: the rendered file, the workspace's own headers, and others."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, Inclusion, byte_column, position_in
from ckwatch.checks.places import ReadLine, RenderedFile, source_span
from ckwatch.model.compiler_flags import GivenFlag
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language, language_of
from ckwatch.model.text import LineIndex, Span

HEADERS_SEARCHED = 64
HEADER_LINES = 20_000
"""How many own headers are searched for a symbol, and how much of each."""

_CK_HEADER = re.compile(r"/(?:ck|ck_tile|cutlass|cute)/")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CompilerInputs:
    """The inputs of a compiler besides the rendered text: the flags of `ckwatch.toml` and the kernel file with their
    places, the folders of the workspace's own headers, the folder of the built-in templates, and those in which ROCm's
    libraries lie, if they are there, the places of the archs of `ckwatch.toml`, and the parameters with which the unit
    last compiled, if that is known."""

    flags: tuple[GivenFlag, ...] = ()
    folders: tuple[str, ...] = ()
    built_in: str = ""
    libraries: tuple[str, ...] = ()
    arch_spans: Mapping[str, Span] = field(default_factory=dict)
    worked: Mapping[str, ParameterValue] | None = None


NO_INPUTS = CompilerInputs()


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of one unit's compile, as far as `read_line` can read them."""

    unit: Unit
    rendered: RenderedFile
    read_line: ReadLine
    inputs: CompilerInputs

    @property
    def is_cuda(self) -> bool:
        """True where nvcc compiles."""
        return language_of(self.unit.kernel.template) is Language.CU

    @property
    def is_hip(self) -> bool:
        """True where hipcc compiles."""
        return language_of(self.unit.kernel.template) is Language.HIP

    def is_built_in(self, path: str) -> bool:
        """Return True if a file is one of the built-in templates."""
        return bool(self.inputs.built_in) and path.startswith(f"{self.inputs.built_in}/")

    def is_own_header(self, path: str) -> bool:
        """Return True if a header is one of the workspace's own; a copy of CK in it is not."""
        below = any(path.startswith(f"{folder}/") for folder in self.inputs.folders)
        return below and not _CK_HEADER.search(path) and not self.is_built_in(path)

    def is_users(self, path: str) -> bool:
        """Return True for the rendered file and own headers."""
        return self.rendered.is_at(path) or self.is_own_header(path)

    def has_library(self, header: str) -> bool:
        """Return True if the compiler finds a header of ROCm's libraries."""
        return any(self.read_line(f"{folder}/{header}", 0) is not None for folder in self.inputs.libraries)

    def line_at(self, path: str, number: int) -> str | None:
        """A line of the rendered file or of a header."""
        return self.rendered.line(number) if self.rendered.is_at(path) else self.read_line(path, number)

    def line_of(self, message: ClangMessage) -> str:
        """The line at which a message stands, "" when it has no place."""
        return "" if message.position is None else self.line_at(message.path, message.position.line - 1) or ""

    def column_of(self, message: ClangMessage) -> int:
        """The column at which a message stands, in code points; 0 when it has no place."""
        return 0 if message.position is None else position_in(self.line_of(message), message.position).column

    def at_column(self, message: ClangMessage, column: int) -> ClangMessage:
        """The message at another column of its line, in code points, without ranges."""
        if message.position is None:
            return message
        place = ClangPosition(message.position.line, byte_column(self.line_of(message), column))
        return replace(message, position=place, ranges=())

    def position_at(self, path: str, offset: int) -> ClangPosition:
        """A place as a compiler names it, by its offset in a file."""
        at = LineIndex(self.text_of(path)).position(offset)
        return ClangPosition(at.line + 1, byte_column(self.line_at(path, at.line) or "", at.column))

    def span_of(self, message: ClangMessage) -> Span | None:
        """The span of a message in its template or header; None when it has none."""
        if self.rendered.is_at(message.path):
            place = self.rendered.place(message)
            return None if place is None else place.span
        return None if not message.path or message.path.startswith("<") else source_span(self.line_at, message)

    def text_of(self, path: str) -> str:
        """The text of the rendered file or of a header."""
        if self.rendered.is_at(path):
            return self.rendered.source_map.text
        lines: list[str] = []
        while len(lines) < HEADER_LINES and (line := self.read_line(path, len(lines))) is not None:
            lines.append(line)
        return "\n".join(lines)

    def users_texts(self) -> Iterator[tuple[str, str]]:
        """The rendered file, the own headers that it includes, and what these include, with their texts."""
        for path, text, _ in self._included():
            yield path, text

    def way_to(self, header: str) -> tuple[Inclusion, ...] | None:
        """The inclusions that lead to an own header, outermost first; None when it is not included from own files."""
        steps = {path: step for path, _, step in self._included() if step is not None}
        if header not in steps:
            return None
        way = [steps[header]]
        while way[0].path in steps:
            way.insert(0, steps[way[0].path])
        return tuple(way)

    def _included(self) -> Iterator[tuple[str, str, Inclusion | None]]:
        """The files of `users_texts`, each with the line that includes it first."""
        seen: dict[str, Inclusion] = {}
        pending = [self.rendered.path]
        while pending:
            path = pending.pop(0)
            text = self.text_of(path)
            yield path, text, seen.get(path)
            beside = [path.rpartition("/")[0]] if not self.rendered.is_at(path) else []
            for include in _INCLUDE.finditer(text) if len(seen) < HEADERS_SEARCHED else ():
                candidates = (
                    posixpath.normpath(f"{folder}/{include[1]}") for folder in (*beside, *self.inputs.folders)
                )
                header = next((one for one in candidates if self.read_line(one, 0) is not None), None)
                if header is not None and header not in seen:
                    seen[header] = Inclusion(path, text.count("\n", 0, include.start(1)) + 1)
                    pending.append(header)
