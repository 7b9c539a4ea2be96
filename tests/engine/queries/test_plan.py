"""The steps of a build, before it is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.daemon_bench import Bench, build
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import UnknownUnitError


async def steps(daemon: Daemon, *patterns: str) -> dict[str, str]:
    """The step of each unit."""
    return {one.unit.partition("/")[2]: one.step for one in await daemon.units.plan(MAIN, patterns or None)}


async def test_the_steps_of_a_build(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.open() as daemon:
        assert await steps(daemon) == {"one@gfx942": "compile", "two@gfx942": "compile"}
        await build(daemon, "k/one")
        assert await steps(daemon) == {"one@gfx942": "nothing", "two@gfx942": "compile"}
        assert await steps(daemon, "k/two") == {"two@gfx942": "compile"}
        (one,) = await daemon.units.plan(MAIN, ["k/one"])
        assert one.why == "built: nothing to do"
        assert one.cause
        with pytest.raises(UnknownUnitError):
            await daemon.units.plan(MAIN, ["none"])


async def test_what_has_errors_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("templates/macros.j2", "{{ missing }}")
    async with bench.open() as daemon:
        assert set((await steps(daemon)).values()) == {"refuse"}
        assert not bench.runs
