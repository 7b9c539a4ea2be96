"""The lines of a template or header at which an emulated kernel went wrong.

The line tables are those of a second compile (`source_lines`): call chains by the address of an instruction. A finding
stands at the innermost line that says something: in the template where it is the user's own code, in a header where it
is the library's. CK's loops that move a tile or feed the matrix unit say nothing: the line that calls them does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace

from ckwatch.checks.clang_output import ClangPosition
from ckwatch.checks.places import ReadLine, RenderedFile, extent
from ckwatch.codeobject.source_lines import CallChain, SourceFrame, place_in_template, significant_calls
from ckwatch.model.kernels import Kernel
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Span
from ckwatch.model.verification import EmulatedFinding, Verification

_MOVES = re.compile(r"(?:^|/)ck/tensor_operation/gpu/(?:thread|warp)/|/thread_group_tensor_slice_transfer\w*\.hpp$")


_ASSERTION = re.compile(r"(?P<path>\S.*?):(?P<line>\d+): .*Device-side assertion ")
"""The text of `__assert_fail` in hip/amd_detail/hip_assert.h."""


def place_findings(
    verification: Verification, kernel: str, frames: Mapping[int, CallChain], rendered: RenderedFile | None
) -> Verification:
    """The verification with the places of the findings of one kernel, by its symbol; others stay as they are.

    `frames` are the call chains by the kernel's addresses, `rendered` the unit's text and its map.
    """

    def placed(finding: EmulatedFinding) -> EmulatedFinding:
        if finding.kernel != kernel:
            return finding
        place = _place(finding.code_address, frames, rendered)
        other = _place(finding.other_code_address, frames, rendered)
        return replace(finding, place=place or finding.place, other_place=other or finding.other_place)

    return replace(verification, findings=tuple(map(placed, verification.findings)))


def at_inputs(verification: Verification, kernel: Kernel) -> Verification:
    """The verification with findings about an input at its table in the kernel file; the line that they had is their
    other place."""
    order = {name: at for at, (name, _) in enumerate(kernel.operation.inputs)}

    def placed(finding: EmulatedFinding) -> EmulatedFinding:
        span = kernel.operation_spans.get(f"input.{order.get(finding.tensor)}")
        return finding if span is None else replace(finding, place=span, other_place=finding.place)

    return replace(verification, findings=tuple(map(placed, verification.findings)))


def _place(address: int | None, frames: Mapping[int, CallChain], rendered: RenderedFile | None) -> Span | None:
    chain = frames.get(address, ()) if address is not None else ()
    calls = significant_calls(chain)
    if not calls:
        return None
    innermost = next((call for call in reversed(calls) if not _MOVES.search(call.path)), calls[-1])
    if rendered is not None and rendered.is_at(innermost.path):
        found = place_in_template(chain, rendered)
        return None if found is None else found.span
    if not posixpath.isabs(innermost.path) or not innermost.line:
        return None
    start = Position(innermost.line - 1, 0)
    return Span(innermost.path, start, start)


@dataclass(frozen=True, slots=True)
class CallPlace:
    """A line that calls `function` (empty: not known), which was inlined."""

    function: str
    span: Span


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """A line of a program's source, and the lines of it that lead there, the innermost first."""

    span: Span
    calls: tuple[CallPlace, ...] = ()


def place_in_program(chain: CallChain, note: str, read_line: ReadLine) -> ProgramPlace | None:
    """The line of a user's program behind the calls around an instruction, None where no line is known.

    Of a failed assertion it is the line that `note` begins with: the function that prints it was not inlined.
    """
    calls = significant_calls(chain)
    if asserted := _ASSERTION.match(note):
        line = int(asserted["line"])
        return ProgramPlace(_token(SourceFrame("", asserted["path"], line), read_line))
    if not calls:
        return None
    inner = next((call for call in reversed(calls) if not _MOVES.search(call.path)), calls[-1])
    outer = reversed(calls[: calls.index(inner)])
    return ProgramPlace(
        _token(inner, read_line), tuple(CallPlace(call.function, _token(call, read_line)) for call in outer)
    )


def _token(frame: SourceFrame, read_line: ReadLine) -> Span:
    def line_at(line: int) -> str | None:
        return read_line(frame.path, line)

    if frame.column:
        return Span(frame.path, *extent(line_at, ClangPosition(frame.line, frame.column), ()))
    text = line_at(frame.line - 1) or ""
    start = len(text) - len(text.lstrip())
    return Span(frame.path, Position(frame.line - 1, start), Position(frame.line - 1, max(len(text.rstrip()), start)))
