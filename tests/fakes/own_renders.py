"""Renders in the test's own process: a worker takes 0.3 s of a core to start, and hundreds of tests open an engine.

`tests/engine/test_render_pool.py` and the tests that start `ckwatch` have the real workers.
"""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from ckwatch.engine.render_pool import RenderPool, RenderWorker
from ckwatch.engine.render_request import KERNELS_SENT, WRITERS_SENT, RenderAnswer, RenderRequest, Sent
from ckwatch.engine.render_worker import RenderWork
from ckwatch.model.kernels import Unit


class RealRenders(RenderPool):
    """Has processes, also in tests."""

    make_worker = RenderWorker


class OwnRenders(RenderWorker):
    """Has no limits, and ends what it has begun."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        super().__init__(folders)
        self._work = RenderWork(folders, lambda _lookups: None)

    @property
    def runs(self) -> bool:
        return True

    async def start(self) -> None:
        """Be there already."""

    async def aclose(self) -> None:
        """Begin anew, as a process would: what was cancelled may not have come here."""
        self._work = RenderWork(self._folders, lambda _lookups: None)
        self._kernels, self._writers = Sent(KERNELS_SENT), Sent(WRITERS_SENT)
        self._lookups.clear()

    async def _exchange(self, _unit: Unit, request: RenderRequest) -> RenderAnswer:
        return await to_thread.run_sync(self._answer_now, request)

    def _answer_now(self, request: RenderRequest) -> RenderAnswer:
        answer, afterwards = self._work.answer(self._work.unit(request), request)
        if afterwards is not None:
            afterwards()
        return answer
