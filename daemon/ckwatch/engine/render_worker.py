"""The render worker: `python -m ckwatch.engine.render_worker FOLDER…` reads requests from stdin, answers on stdout.

It renders, checks what it rendered, and keeps it on disk for the next daemon: all that an edit of a template that
thousands of units read takes, in as many processes as there are cores.

What a render looks up is written when that differs from what the last finished render of its template looked up: a
worker that is killed has said what the unit depends on.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import ckwatch_templates
from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.engine.render_request import (
    KERNELS_SENT,
    WRITERS_SENT,
    Received,
    RenderAnswer,
    RenderRequest,
    SentChecks,
)
from ckwatch.headers.searched_headers import searched_headers
from ckwatch.model.kernels import Kernel, Unit
from ckwatch.render.cache import RenderCache
from ckwatch.render.outcome import LENGTH_BYTES, Lookups, RenderOutcome
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.writers import Writers

ADDRESS_SPACE_LIMIT_BYTES = 2 * 1024**3

BUILTIN = str(ckwatch_templates.ROOT)


class RenderWork:
    """Answers requests."""

    def __init__(self, folders: tuple[Path, ...], report: Callable[[Lookups], None]) -> None:
        self._folders = folders
        self._renderer = Renderer(folders, report)
        self._kernels: Received[Kernel] = Received(KERNELS_SENT)
        self._writers: Received[Writers] = Received(WRITERS_SENT)
        self._contents = ContentHashes(None)
        self._caches: dict[Path, RenderCache] = {}

    def unit(self, request: RenderRequest) -> Unit:
        """The unit that is asked for."""
        return Unit(self._kernels.value(request.number, request.kernel), request.instance, request.arch)

    def answer(self, unit: Unit, request: RenderRequest) -> tuple[RenderAnswer, Callable[[], None] | None]:
        """The answer, and what is to be done when it is sent."""
        checks, folders = request.checks, request.header_folders
        self._renderer.header_folders = folders
        if checks is None:
            return RenderAnswer(self._renderer.render(unit, request.limits, request.overlays), is_clean=False), None
        writers = self._writers.value(checks.number, checks.writers)
        cache = None if checks.cache is None else self._cache(checks.cache)
        kept = None if cache is None else cache.get(unit, folders)
        outcome = kept or self._renderer.render(unit, request.limits, request.overlays)
        try:
            clean = kept is not None
            if not clean:
                outcome, clean = _checked(unit, outcome, checks, folders)
        except Exception:  # noqa: BLE001  # ours, and no fault of the template
            return RenderAnswer(outcome, is_clean=False, broken=traceback.format_exc()), None
        clean = clean and writers.foreign(outcome.templates, request.overlays, BUILTIN) is None
        if not clean or cache is None or kept is not None:
            return RenderAnswer(outcome, is_clean=clean), None
        return RenderAnswer(outcome, is_clean=True), lambda: cache.put(unit, outcome, folders)

    def _cache(self, folder: Path) -> RenderCache:
        known = self._caches.get(folder)
        if known is None:
            known = self._caches[folder] = RenderCache(folder, self._folders, self._contents.digest)
        return known


def _checked(
    unit: Unit, outcome: RenderOutcome, checks: SentChecks, header_folders: tuple[Path, ...]
) -> tuple[RenderOutcome, bool]:
    """The outcome with what the checks read of headers; True if the template has no error and the checks find none."""
    from ckwatch.checks.static_checks import static_checks  # a first render that is not checked need not wait for it

    if outcome.rendered is None or outcome.diagnostics:
        return outcome, False
    headers = searched_headers(unit.kernel.flags, header_folders)
    checked = static_checks(unit, outcome, rules=checks.rules, builtin=BUILTIN, passed=checks.passed, headers=headers)
    return outcome.with_headers(headers), checked.ok and not checked.diagnostics


def serve(folders: tuple[Path, ...], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the other side closes the pipe."""
    finished: dict[str, Lookups] = {}
    template = ""

    def send(answer: RenderAnswer | Lookups) -> None:
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        answers.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        answers.flush()

    def report(lookups: Lookups) -> None:
        known = finished.get(template)
        if known is None or lookups.missed - known.missed or lookups.read.items() - known.read.items():
            send(lookups)

    work = RenderWork(folders, report)
    while len(head := requests.read(LENGTH_BYTES)) == LENGTH_BYTES:
        length = int.from_bytes(head, "big")
        data = requests.read(length)
        if len(data) < length:
            return  # the other side has ended
        request: RenderRequest = pickle.loads(data)  # noqa: S301  # from our own parent
        unit = work.unit(request)
        template = unit.kernel.template
        answer, afterwards = work.answer(unit, request)
        finished[template] = Lookups(dict(answer.outcome.read), set(answer.outcome.missed))
        send(answer)
        if afterwards is not None:
            afterwards()


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
