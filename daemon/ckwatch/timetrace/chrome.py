"""The traces of several passes as one, for chrome://tracing and Perfetto.

Format: "Trace Event Format" of the Chromium project. Each pass is a process of its own, and all share one clock: clang
writes when its own began (`beginningOfTime`, µs since 1970).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckwatch.timetrace.summary import TimeTraceError, events_of, is_total


def joined(passes: Sequence[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events of all passes, (name, decoded trace) each, in the order of the passes. Raises TimeTraceError.

    The sums that clang adds at the end are left out: each would be a thread.
    """
    begun = [_beginning(trace) for _, trace in passes]
    for number, ((name, trace), began) in enumerate(zip(passes, begun, strict=True), start=1):
        yield _metadata(number, "process_name", {"name": name})
        yield _metadata(number, "process_sort_index", {"sort_index": number})
        yield _metadata(number, "thread_name", {"name": "clang"})
        for event in events_of(trace):
            if is_total(event) or event["ph"] == "M":
                continue
            moved = {**event, "pid": number, "tid": 1, "ts": event["ts"] + began - min(begun)}
            if "id" in moved:
                moved["id2"] = {"local": str(moved.pop("id"))}  # an id is everybody's, and both passes count from 0
            yield moved


def _metadata(process: int, name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": 1, "ts": 0, "name": name, "args": values}


def _beginning(trace: Any) -> int:
    events_of(trace)
    began = trace.get("beginningOfTime", 0)
    if not isinstance(began, int):
        raise TimeTraceError("`beginningOfTime` is no number")
    return began
