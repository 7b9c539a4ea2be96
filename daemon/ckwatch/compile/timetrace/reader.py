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
            events = (json.dumps(event, separators=(",", ":")) for event in join_traces(passes))
            with Path(target).open("w", encoding="utf-8") as file:
                file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
                file.writelines(f",\n{event}" if number else event for number, event in enumerate(events))
                file.write("\n]}\n")
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        return UNWRITABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
