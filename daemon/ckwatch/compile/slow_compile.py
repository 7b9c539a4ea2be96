"""Tells a compile that runs far longer than usual while it still runs, with the stage it is in and its flags.

The processor's time counts, as for the limits: a busy machine makes no compile slow.
"""

from __future__ import annotations

from ckwatch.compile.flags import chosen_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.model.amounts import elapsed
from ckwatch.model.compiler_flags import ENDLESS_ADVICE, endless_flags
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Span

SLOW_COMPILE = "compile/slow"

USUAL_S = 30.0
"""The usual time if no compile of the kernel is known: device passes of docs/compiling.md take 7 to 30 s, one of them
70."""

FAR_LONGER = 3.0
"""So many times as long as usual is reported, and again after each doubling of that."""

SHORTEST_S = 60.0
"""Nothing is reported earlier: what is known may be compiles whose device pass was in the store."""


BUSY_S = 10.0
"""A stage that has had less than half of so much time of the processor is on a busy machine."""


def processor_wait(used_s: float, passed_s: float) -> str:
    """Describe what a stage waits for that has used so much of the processor in `passed_s`; empty if it gets its
    share."""
    return "the processor: the machine is busy" if passed_s >= BUSY_S and used_s < passed_s / 2 else ""


class SlowCompile:
    """One compile, `usual_s` is the longest that is known of its kernel; 0 when none is."""

    def __init__(self, request: CompileRequest, span: Span, usual_s: float) -> None:
        self._request = request
        self._span = span
        self._usual_s = usual_s
        self._report_at_s = max(FAR_LONGER * (usual_s or USUAL_S), SHORTEST_S)

    def take(self, stage: str, used_s: float) -> Diagnostic | None:
        """Return the diagnostic when a process of the compile, in this stage, has used so much of the processor; None
        if there is nothing new."""
        passed_s = 0.0
        while used_s >= self._report_at_s:
            passed_s = self._report_at_s
            self._report_at_s *= 2
        if not passed_s:
            return None
        request = self._request
        others = f"compiles of {request.kernel or 'this kernel'} take {elapsed(self._usual_s)} at most"
        usual = others if self._usual_s else f"compiles usually take less than {elapsed(USUAL_S)}"
        flags = chosen_flags(request)
        message = (
            f"{stage} has used {elapsed(passed_s)} of the processor and goes on; {usual}"
            f"{f'; {ENDLESS_ADVICE}' if endless_flags(flags) else ''} (flags: {' '.join(flags)})"
        )
        return Diagnostic(Severity.WARNING, Source.HOST, SLOW_COMPILE, message, self._span)
