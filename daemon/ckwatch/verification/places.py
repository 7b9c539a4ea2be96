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

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.source_lines import CallChain, place_in_template, significant_calls
from ckwatch.model.text import Position, Span
from ckwatch.model.verification import EmulatedFinding, Verification

_MOVES = re.compile(r"(?:^|/)ck/tensor_operation/gpu/(?:thread|warp)/|/thread_group_tensor_slice_transfer\w*\.hpp$")


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
