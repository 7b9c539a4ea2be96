"""Saved compiler logs with the rendered texts that they are about. `README` in their folder says how they were made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckwatch.checks.clang_output import ClangMessage, parse_clang_log
from ckwatch.checks.compiler.diagnose import diagnose
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.kernels import Instance, Kernel, ParameterValue, Unit
from ckwatch.model.source_map import Segment, Site, SiteFrame, SiteKind, SourceMap
from ckwatch.model.text import LineIndex, Position, Span, span
from helpers.units import gemm

LOGS = Path(__file__).parent.parent / "data" / "clang"
KERNEL_FILE = "/ws/gemm.kernel.toml"
TEMPLATE = "/ws/gemm.hip.j2"
_ARGUMENT = re.compile(r"/\* (\w+) \*/ (.*?)(?=,\n|>;)")
_HEADER_LINES: Mapping[str, Mapping[str, str]] = json.loads((LOGS / "header_lines.json").read_text())


def read_header(path: str, line: int) -> str | None:
    """The header lines that were saved with the logs."""
    return _HEADER_LINES.get(path, {}).get(str(line))


def mapped(text: str) -> SourceMap:
    """A map of `text` as if a template of the same lines had printed it, with an expression per named argument."""
    index = LineIndex(text)
    segments: list[Segment] = []

    def add(start: int, end: int, *, name: str = "") -> None:
        if start < end:
            place = Span(TEMPLATE, index.position(start), index.position(end))
            site = Site(SiteKind.EXPRESSION if name else SiteKind.TEXT, place, name, (name,) if name else ())
            segments.append(Segment(start, end, site, -1, place.start, verbatim=not name))

    at = 0
    for match in _ARGUMENT.finditer(text):
        add(at, match.start())
        add(match.start(), match.end(), name=match[1])
        at = match.end()
    add(at, len(text))
    return SourceMap(text, segments, ())


def chained(map_: SourceMap, site: Site, iteration: int = -1) -> SourceMap:
    """The same map with all text inside one frame."""
    segments = [
        Segment(entry.start, entry.end, entry.site, 0, entry.position, entry.verbatim) for entry in map_.segments
    ]
    return SourceMap(map_.text, segments, (SiteFrame(site, -1, iteration),))


def instance_parameters(text: str) -> dict[str, ParameterValue]:
    """The parameters in a rendered GEMM that are numbers, sequences or pipeline names."""
    found: dict[str, ParameterValue] = {}
    for name, value in _ARGUMENT.findall(text):
        if value.isdigit():
            found[name] = int(value)
        elif value.startswith("S<"):
            found[name] = tuple(int(number) for number in value[2:-1].split(","))
        elif name.startswith("BlkGemm"):
            found[name] = value.rsplit("::", 1)[-1]
    return found


def place(parameters: Mapping[str, ParameterValue], name: str) -> Span:
    """Place at which the kernel file of `unit_of` sets a parameter."""
    line = 20 + list(parameters).index(name)
    return span(KERNEL_FILE, line, 0, line, 5)


def unit_of(text: str, siblings: int = 2) -> Unit:
    """The unit that rendered to `text`, in a kernel with `siblings` more instances that have the sound parameters."""
    parameters = instance_parameters(text)
    sound = instance_parameters((LOGS / "gemm.hip").read_text())
    instance = Instance(
        "bad", parameters, span(KERNEL_FILE, 19, 0, 19, 5), {name: place(parameters, name) for name in parameters}
    )
    others = tuple(Instance(f"good{n}", sound, span(KERNEL_FILE, n, 0, n, 1), {}) for n in range(siblings))
    top = span(KERNEL_FILE, 0, 0, 0, 9)
    kernel = Kernel("gemm", KERNEL_FILE, "gemm.hip.j2", top, gemm(), {}, (), (instance, *others), ("gfx942",))
    return Unit(kernel, instance, "gfx942")


def gemm_text(**changes: str) -> str:
    """The rendered GEMM with C++ texts of some template arguments changed."""
    text = (LOGS / "gemm.hip").read_text()
    for name, value in changes.items():
        text, count = re.subn(rf"(/\* {name} \*/ )(?:.*?)(,\n|>;)", rf"\g<1>{value}\g<2>", text)
        assert count == 1, name
    return text


@dataclass(frozen=True)
class Case:
    """A log, the text that was compiled, and its unit."""

    name: str
    text: str
    messages: list[ClangMessage]
    unit: Unit

    @property
    def path(self) -> str:
        """The compiled file as the log names it."""
        return f"/ws/{self.name.split('.')[0]}.hip"

    def diagnose(self, **options: Any) -> tuple[Diagnostic, ...]:
        """Its diagnostics."""
        return diagnose(
            self.messages,
            unit=self.unit,
            source_path=self.path,
            source_map=mapped(self.text),
            read_line=read_header,
            **options,
        )

    def marked(self, found: Span) -> str:
        """The text that a span in the template underlines."""
        index = LineIndex(self.text)
        return self.text[index.offset(found.start) : index.offset(found.end)]

    def parameter_at(self, found: Span) -> str | None:
        """The parameter that a span in the kernel file sets."""
        return next((name for name, own in self.unit.instance.spans.items() if own == found), None)


def case(name: str, siblings: int = 2, **changes: str) -> Case:
    """The log `NAME.log` with its `.hip` file, or with the GEMM whose arguments are changed like this."""
    own = LOGS / f"{name.split('.')[0]}.hip"
    text = own.read_text() if own.exists() else gemm_text(**changes)
    return Case(name, text, parse_clang_log((LOGS / f"{name}.log").read_text()), unit_of(text, siblings))


def at(line: int, column: int) -> Position:
    """A position counted from one, as in logs."""
    return Position(line - 1, column - 1)
