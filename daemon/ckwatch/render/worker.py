"""The render worker: `python -m ckwatch.render.worker FOLDER…` reads requests from stdin, writes results to stdout.

What a render looks up is written when that differs from what the last finished render of its template looked up: a
worker that is killed has said what the unit depends on.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ckwatch.model.kernels import Unit
from ckwatch.render.outcome import LENGTH_BYTES, Lookups, RenderLimits, RenderOutcome
from ckwatch.render.renderer import Renderer

ADDRESS_SPACE_LIMIT_BYTES = 2 * 1024**3


def serve(folders: tuple[Path, ...], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the other side closes the pipe."""
    finished: dict[str, Lookups] = {}
    template = ""

    def send(answer: RenderOutcome | Lookups) -> None:
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        answers.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        answers.flush()

    def report(lookups: Lookups) -> None:
        known = finished.get(template)
        if known is None or lookups.missed - known.missed or lookups.read.items() - known.read.items():
            send(lookups)

    renderer = Renderer(folders, report)
    while len(head := requests.read(LENGTH_BYTES)) == LENGTH_BYTES:
        length = int.from_bytes(head, "big")
        data = requests.read(length)
        if len(data) < length:
            return  # the other side has ended
        request: tuple[Unit, RenderLimits, dict[str, str]] = pickle.loads(data)  # noqa: S301  # from our own parent
        unit, limits, overlays = request
        template = unit.kernel.template
        outcome: RenderOutcome = renderer.render(unit, limits, overlays)
        finished[template] = Lookups(dict(outcome.read), set(outcome.missed))
        send(outcome)


def main() -> None:
    """Keep stdout for answers only: whatever else writes there goes to stderr."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_LIMIT_BYTES, ADDRESS_SPACE_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(BrokenPipeError):  # the client has gone
        serve(tuple(Path(argument) for argument in sys.argv[1:]), sys.stdin.buffer, answers)
    os._exit(0)  # there is nothing to close but that pipe


if __name__ == "__main__":
    main()
