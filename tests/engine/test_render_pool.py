"""A template cannot take the daemon down: workers are stopped and replaced."""

from __future__ import annotations

import math
import os
import pickle
import signal
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from ckwatch.core.effects import RenderPriority
from ckwatch.engine import render_pool
from ckwatch.engine.render_worker import serve
from ckwatch.render.outcome import LENGTH_BYTES, RenderLimits
from fakes.own_renders import RealRenders
from fakes.patience import PATIENCE_S
from helpers.units import place, unit

BOMBS = {
    "memory.hip.j2": "{{ 'x' | center(9000000000) }}",
    "one_call.hip.j2": "{% set text = 'a' * 16000000 %}{% for i in range(9999) %}{% set x = text | wordwrap(7) %}{% endfor %}",
    "rounds.hip.j2": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
}


async def test_bombs_are_stopped_and_the_next_render_works(tmp_path: Path) -> None:
    for name, text in BOMBS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "good.hip.j2").write_text("int x = {{ MPerBlock }};")
    async with RealRenders((tmp_path,)) as pool:
        for name in BOMBS:
            outcome = (await pool.render(unit(name), RenderLimits(time_limit_s=0.5))).outcome
            assert [d.code for d in outcome.diagnostics] == ["template/limit"], name
            good = (await pool.render(unit("good.hip.j2", MPerBlock=4), RenderLimits(time_limit_s=PATIENCE_S))).outcome
            assert good.rendered is not None
            assert good.rendered.text == "int x = 4;"
            assert good.rendered.source_map.segments[1].site.label == "MPerBlock"


async def test_what_a_worker_gets_does_not_grow_with_the_kernel_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    def dumps(value: object, protocol: int) -> bytes:
        data = pickle.dumps(value, protocol)
        sent.append(len(data))
        return data

    monkeypatch.setattr(render_pool, "pickle", SimpleNamespace(**{**vars(pickle), "dumps": dumps}))
    (tmp_path / "t.hip.j2").write_text("{{ MPerBlock }}")
    small = unit("t.hip.j2", MPerBlock=4)
    places = {place(line): place(line) for line in range(2000)}
    kernel = replace(small.kernel, instances=small.kernel.instances * 500, key_spans=places)
    async with RealRenders((tmp_path,)) as pool:
        for one in (small, replace(small, kernel=kernel)):
            assert (await pool.render(one)).outcome.rendered is not None
    assert sent[0] == sent[1]


async def test_a_stopped_render_depends_on_what_it_has_read(tmp_path: Path) -> None:
    texts = {
        "t.hip.j2": "{% include 'x.j2' ignore missing %}{% from 'm.j2' import a %}{% include 'slow.j2' %}",
        "m.j2": "{% macro a() %}{% endmacro %}",
        "slow.j2": "",
    }

    def write() -> dict[str, str]:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return {str(tmp_path / name): sha256(text.encode()).hexdigest() for name, text in texts.items()}

    async def kill_when_read(digests: dict[str, str]) -> None:
        while (known := worker._lookups.get("t.hip.j2")) is None or known.read != digests:  # noqa: ASYNC110  # the worker tells nobody else
            await anyio.sleep(0.01)
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGKILL)

    read = write()
    async with RealRenders((tmp_path,)) as pool:
        worker = pool._all[0]
        usual = (await pool.render(unit("t.hip.j2"), RenderLimits(time_limit_s=PATIENCE_S))).outcome
        assert usual.read == read
        texts["slow.j2"] = BOMBS["rounds.hip.j2"]
        read = write()
        for how in ("a worker that has rendered it before", "a new worker"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill_when_read, read)
                stopped = (await pool.render(unit("t.hip.j2"), RenderLimits(time_limit_s=PATIENCE_S))).outcome
            assert [d.code for d in stopped.diagnostics] == ["template/limit"], how
            assert stopped.read == read, how
            assert stopped.missed == {str(tmp_path / "x.j2")}, how


@pytest.mark.parametrize("path", [None, os.pathsep, f"{os.pathsep}/nowhere", "."])
async def test_modules_beside_the_kernel_files_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    for name in ("pickle", "random", "types", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the working folder was imported')")
    (tmp_path / "t.hip.j2").write_text("{{ [7, 7] | random }}")
    monkeypatch.chdir(tmp_path)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    async with RealRenders((tmp_path,)) as pool:
        outcome = (await pool.render(unit("t.hip.j2"))).outcome
    assert outcome.rendered is not None, outcome.diagnostics
    assert outcome.rendered.text == "7"


@pytest.mark.parametrize("begun", [b"\0" * 3, (500).to_bytes(LENGTH_BYTES, "big") + b"\x80\x05"])
def test_a_worker_whose_parent_was_killed_while_it_asked_ends(tmp_path: Path, begun: bytes) -> None:
    answers = BytesIO()
    serve((tmp_path,), BytesIO(begun), answers)
    assert answers.getvalue() == b""


async def test_a_killed_worker_is_reported_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "slow.hip.j2").write_text(BOMBS["rounds.hip.j2"])
    (tmp_path / "good.hip.j2").write_text("fine")
    async with RealRenders((tmp_path,)) as pool:
        await pool.start()
        worker = pool._all[0]
        assert worker._process is not None
        pid = worker._process.pid
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill_later, pid)
            outcome = (await pool.render(unit("slow.hip.j2"), RenderLimits(time_limit_s=30))).outcome
        assert "SIGKILL" in outcome.diagnostics[0].message
        assert (await pool.render(unit("good.hip.j2"))).outcome.rendered is not None


async def kill_later(pid: int) -> None:
    await anyio.sleep(0.3)
    os.kill(pid, signal.SIGKILL)


async def test_cancelling_kills_the_worker(tmp_path: Path) -> None:
    (tmp_path / "slow.hip.j2").write_text(BOMBS["rounds.hip.j2"])
    async with RealRenders((tmp_path,)) as pool:
        await pool.start()
        process = pool._all[0]._process
        assert process is not None
        with anyio.move_on_after(0.5) as scope:
            await pool.render(unit("slow.hip.j2"), RenderLimits(time_limit_s=60))
        assert scope.cancelled_caught
        ended = process.poll()
        assert ended is not None
        assert ended.status == -signal.SIGKILL


async def running_after(pool: RealRenders, first: str, priority: RenderPriority = RenderPriority.OTHERS) -> int:
    """How many workers run when `good.hip.j2` was rendered beside `first`."""
    async with pool, anyio.create_task_group() as tasks:
        await pool.start()
        tasks.start_soon(pool.render, unit(first), RenderLimits(time_limit_s=PATIENCE_S))
        await anyio.wait_all_tasks_blocked()
        assert (await pool.render(unit("good.hip.j2"), priority=priority)).outcome.rendered is not None
        found = sum(worker.runs for worker in pool._all)
        tasks.cancel_scope.cancel()
    return found


@pytest.mark.parametrize(
    ("first", "start_s", "priority", "workers"),
    [
        ("other.hip.j2", math.inf, RenderPriority.OTHERS, 1),
        ("rounds.hip.j2", 0.0, RenderPriority.OTHERS, 2),
        ("rounds.hip.j2", math.inf, RenderPriority.LOOKED_AT, 2),
    ],
)
async def test_a_worker_is_started_when_others_are_busy_for_long(
    tmp_path: Path, first: str, start_s: float, priority: RenderPriority, workers: int
) -> None:
    for name, text in {**BOMBS, "good.hip.j2": "fine", "other.hip.j2": "fine"}.items():
        (tmp_path / name).write_text(text)
    assert await running_after(RealRenders((tmp_path,), 2, start_s=start_s), first, priority) == workers
