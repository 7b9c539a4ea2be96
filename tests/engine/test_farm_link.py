"""The farm of a workspace whose settings change."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio

from ckwatch.core.events import MAIN
from ckwatch.engine.handlers.farm_link import FarmLink
from ckwatch.workspace.settings import FarmSection


class Unreachable(FarmLink):
    """Follows nothing, and notes what it is to follow."""

    followed: list[str | None]

    async def _follow(self, settings: FarmSection) -> str | None:
        self.followed.append(settings.scheduler)
        return None


async def test_a_farm_that_a_load_brings_is_followed() -> None:
    loader = SimpleNamespace(workspaces={}, on_loaded=lambda: None)
    link = Unreachable(Path("/"), cast("Any", loader), cast("Any", None), lambda _event: None)
    link.followed = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        await anyio.wait_all_tasks_blocked()
        assert not link.followed
        farm = FarmSection(scheduler="tcp://127.0.0.1:1")
        loader.workspaces = {MAIN: SimpleNamespace(settings=SimpleNamespace(farm=farm))}
        loader.on_loaded()
        await anyio.wait_all_tasks_blocked()
        assert link.followed == ["tcp://127.0.0.1:1"]
        tasks.cancel_scope.cancel()
