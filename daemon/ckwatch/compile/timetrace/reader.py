"""Reads time traces in a process of its own: they have tens of megabytes, and decoding them holds the interpreter.

    python -m ckwatch.compile.timetrace.reader SUMMARIES TARGET (NAME TRACE)…

writes a JSON list with a `TraceSummary` for each trace to SUMMARIES, and all traces as one to TARGET unless that is
empty.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ckwatch.compile.timetrace.summary import TraceSummary, join_traces, summarize
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file

SUMMARIES = TypeAdapter(list[TraceSummary])

UNREADABLE = 3
UNWRITABLE = 4
"""Exit statuses; a line on standard error says why."""


def main(arguments: Sequence[str]) -> int:
    """Do what the module says."""
    summaries, target, *pairs = arguments
    try:
        passes = [
            (name, json.loads(read_file(file, SIDE_FILE_LIMIT_BYTES)))
            for name, file in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        found = [summarize(trace) for _, trace in passes]
    except (OSError, ValueError) as error:  # also UnicodeDecodeError and TimeTraceError
        print(error, file=sys.stderr)
        return UNREADABLE
    try:
        Path(summaries).write_bytes(SUMMARIES.dump_json(found))
        if target:
            write_trace(passes, Path(target))
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        return UNWRITABLE
    return 0


def write_trace(passes: Sequence[tuple[str, Any]], target: Path) -> None:
    """Write the passes as one trace, an event per line."""
    with target.open("w", encoding="utf-8") as file:
        separator = '{"displayTimeUnit": "ms", "traceEvents": [\n'
        for event in join_traces(passes):
            file.write(separator + json.dumps(event, separators=(",", ":")))
            separator = ",\n"
        file.write("\n]}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
