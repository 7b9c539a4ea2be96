"""Tuning runs as other clients see them: while they go on, when they have ended, and when their process was killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread
from blockbuster import blockbuster_ctx

from ckwatch.client import Client
from ckwatch.client.tuning_changes import SeenRuns, TuningChanges
from ckwatch.model.errors import CkwatchError
from ckwatch.tuning.importance import best_so_far, importance_of, parallel_coordinates
from ckwatch.tuning.journal import RUNS_KEPT, TuningJournal, journal_path, record_of, runs_of
from ckwatch.tuning.report import html_report
from ckwatch.tuning.results import EvaluationStatus, TuningRun
from ckwatch.tuning.runner import Tuning
from ckwatch.wire.benchmarks import Device, Devices
from fakes.patience import PATIENCE_S
from fakes.tuning_stand_in import FakeTunedClient, numbers, tuning, workspace


def cost(unit: str, shape: str) -> float | str:
    """The fewer the faster; a third fails, in two ways."""
    m, n, thread = numbers(unit)
    if thread == 2:
        return "compile" if m == 8 else "crashed"
    return 100.0 + m + n + thread + len(shape)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace(tmp_path)


class RunsHere:
    """Runs of a workspace, each with a journal of its own as in a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @asynccontextmanager
    async def __call__(self, **options: Any) -> AsyncIterator[Tuning]:
        journal = TuningJournal(await to_thread.run_sync(journal_path, self.root))
        client = FakeTunedClient(options.pop("cost", cost))
        run = await to_thread.run_sync(partial(tuning, self.root, client, journal, **options))
        try:
            yield run
        finally:
            run.close()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(journal.close)

    async def finished(self, **options: Any) -> Tuning:
        """A run that has ended."""
        async with self(**options) as run:
            await run.run()
            return run

    async def interrupted(self, measured: int, **options: Any) -> Tuning:
        """A run that was ended after so many measurements."""
        async with self(**options) as run, anyio.create_task_group() as tasks:
            tasks.start_soon(run.run)
            async for step in run:
                if step.measured == measured:
                    tasks.cancel_scope.cancel()
        return run

    def all(self) -> list[TuningRun]:
        return runs_of(self.root, None)


@pytest.fixture
def runs(root: Path) -> RunsHere:
    return RunsHere(root)


async def test_a_run_that_has_ended_is_all_there(runs: RunsHere) -> None:
    run = await runs.finished(strategy="all", patience=None, measurements=1000, devices=2, seed=3)
    (brief,) = runs.all()
    assert (brief.kernel, brief.arch, brief.device, brief.devices) == ("slow", "host", "a stand-in", ("cpu0", "cpu1"))
    assert (brief.strategy, brief.seed, brief.measurements, brief.jobs, brief.racing) == ("all", 3, 1000, 2, True)
    assert brief.shapes == ("one", "two")
    assert brief.problems["two"]["M"] == 128
    assert (brief.running, brief.ended) == (False, "the whole space was tried")
    assert (brief.measured, brief.points) == (run.measured, len(run.record.points))
    assert brief.began_at <= brief.last_active
    assert brief.resumable
    for shape in brief.shapes:
        best = run.best(shape)
        assert best is not None
        assert (brief.best[shape].instance, brief.best[shape].median_us) == (best.instance, best.median_us)
    record = record_of(runs.root, brief.id)
    assert record.points == run.record.points
    statuses = {result.status for point in record.points for result in point.results}
    assert {EvaluationStatus.COMPILE_FAILED, EvaluationStatus.CRASHED} <= statuses
    assert record.coverage == run.tuned.coverage
    assert record.run.ended == brief.ended
    assert best_so_far(record, "one")
    assert parallel_coordinates(record, "one").lines
    assert importance_of(record)
    assert "Parameter importance" in html_report(record)


async def test_a_run_goes_on_beside_it(runs: RunsHere) -> None:
    async with runs(patience=None, measurements=1000) as run, anyio.create_task_group() as tasks:
        await tasks.start(run.run)
        (brief,) = runs.all()
        assert (brief.id, brief.running, brief.ended) == (run.id, True, "")
        async for step in run:
            if step.measured == 5:
                break
        with anyio.fail_after(PATIENCE_S):
            while not (await to_thread.run_sync(record_of, runs.root, run.id)).points:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    (brief,) = runs.all()
    assert (brief.running, brief.ended) == (False, "")
    assert record_of(runs.root, run.id).points == run.record.points


async def test_an_interrupted_run_goes_on_as_the_same_one(runs: RunsHere) -> None:
    first = await runs.interrupted(6, strategy="random", seed=7, patience=50, jobs=3, measurements=15)
    (brief,) = runs.all()
    found = first.record.points
    options = {
        name: getattr(brief, name) for name in ("strategy", "seed", "patience", "jobs", "measurements", "racing")
    }
    again = await runs.finished(**options, budget_s=brief.budget_s)
    (after,) = runs.all()
    assert (again.id, after.id, after.began_at) == (brief.id, brief.id, brief.began_at)
    assert after.seconds > brief.seconds
    assert after.measured == 15
    record = record_of(runs.root, after.id)
    assert record.points == again.record.points
    kept = {point.order: point for point in record.points}
    assert [(kept[one.order].instance, kept[one.order].seconds, kept[one.order].device) for one in found] == [
        (one.instance, one.seconds, one.device) for one in found
    ]
    assert len(kept) == len(record.points) > len(found)


async def test_a_run_that_goes_on_never_shows_less_than_before(runs: RunsHere) -> None:
    await runs.interrupted(8)
    (before,) = runs.all()
    async with runs() as run, anyio.create_task_group() as tasks:
        await tasks.start(run.run)
        tasks.cancel_scope.cancel()
    (after,) = runs.all()
    assert after.id == before.id
    assert (after.measured, after.points, after.best) == (before.measured, before.points, before.best)
    assert len(record_of(runs.root, after.id).points) == before.points


async def test_results_that_do_not_count_any_more_are_dropped_at_the_end(runs: RunsHere) -> None:
    await runs.interrupted(8, seed=1)
    path = journal_path(runs.root)
    with sqlite3.connect(path) as journal:
        journal.execute("UPDATE tuning_point SET number = 100, parameters = '{\"MPerBlock\": 1}' WHERE number = 1")
        journal.execute("UPDATE result SET artifact = artifact || 'before'")
    journal.close()
    again = await runs.finished(seed=1, measurements=4)
    assert record_of(runs.root, again.id).points == again.record.points


async def test_another_run_of_these_options_is_a_run_of_its_own(runs: RunsHere) -> None:
    first = await runs.finished(measurements=4)
    second = await runs.finished(measurements=4)
    third = await runs.interrupted(5)
    anew = await runs.finished(measurements=4, again=True)
    assert [run.id for run in runs.all()] == [anew.id, third.id, second.id, first.id]
    assert len(record_of(runs.root, second.id).points) == len(second.record.points)
    async with runs() as one, runs() as other, anyio.create_task_group() as tasks:
        await tasks.start(one.run)
        await tasks.start(other.run)
        assert one.id == third.id
        assert other.id > anew.id
        tasks.cancel_scope.cancel()


async def test_what_interrupted_a_run_is_said_until_it_goes_on(runs: RunsHere) -> None:
    with pytest.raises(CkwatchError):
        await runs.finished(cost=lambda _unit, _shape: "device lost")
    (run,) = runs.all()
    assert (run.running, run.ended) == (False, "")
    assert "could not be timed on cpu0" in run.error
    again = await runs.finished(measurements=3)
    assert [(run.id, run.error) for run in runs.all()] == [(again.id, "")]
    assert again.id == run.id


async def test_instances_of_a_program_are_not_resumable(runs: RunsHere) -> None:
    common = {"NPerBlock": 32, "KPerBlock": 64, "NPerThread": 16, "MPerThread": 4}
    await runs.finished(listed={f"mine_{m}_32_4": {"MPerBlock": m, **common} for m in (8, 16)})
    assert [run.resumable for run in runs.all()] == [False]


async def test_only_the_newest_are_kept(runs: RunsHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckwatch.tuning.journal.RUNS_KEPT", 2)
    assert RUNS_KEPT > 100
    ids = [(await runs.finished(measurements=2, seed=seed)).id for seed in range(4)]
    assert [run.id for run in runs.all()] == ids[:1:-1]
    with pytest.raises(CkwatchError, match=f"there is no tuning run {ids[0]}"):
        record_of(runs.root, ids[0])


OLD = """
CREATE TABLE result (
  kernel TEXT NOT NULL, parameters TEXT NOT NULL, artifact TEXT NOT NULL, problem TEXT NOT NULL, device TEXT NOT NULL,
  status TEXT NOT NULL, median_us REAL, low_us REAL, high_us REAL, reason TEXT NOT NULL, taken_at REAL NOT NULL,
  PRIMARY KEY (artifact, problem, device, parameters)
) WITHOUT ROWID;
CREATE TABLE run (name TEXT PRIMARY KEY, seconds REAL NOT NULL, ended TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO run VALUES ('x', 5.0, '');
"""


async def test_a_file_of_an_earlier_version_is_used(runs: RunsHere) -> None:
    await runs.finished(measurements=6)
    path = journal_path(runs.root)
    with sqlite3.connect(path) as journal:
        rows = journal.execute("SELECT * FROM result").fetchall()
    journal.close()
    path.unlink()
    with sqlite3.connect(path) as journal:
        journal.executescript(OLD)
        journal.executemany("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    journal.close()
    assert runs.all() == []
    async with runs(measurements=6) as run:
        await run.run()
        known = [step.known async for step in run if step.result.status is EvaluationStatus.MEASURED]
    assert known
    assert all(known)
    with sqlite3.connect(path) as journal:
        journal.execute("INSERT OR REPLACE INTO run VALUES ('y', 1.0, '')")  # as the earlier version does
    journal.close()


async def test_what_is_not_there(runs: RunsHere) -> None:
    assert runs.all() == []
    with pytest.raises(CkwatchError, match="there is no tuning run 1"):
        record_of(runs.root, 1)
    assert not journal_path(runs.root).exists()
    await runs.finished(measurements=1)
    assert runs_of(runs.root, "other") == []
    assert len(runs_of(runs.root, "slow")) == 1
    with pytest.raises(CkwatchError, match="there is no tuning run 77"):
        record_of(runs.root, 77)


async def test_a_damaged_file(runs: RunsHere) -> None:
    path = journal_path(runs.root)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(CkwatchError, match="the results of tuning cannot be kept"):
        runs.all()


class WholeTunedClient(FakeTunedClient):
    """A client as `Client.tune` needs one."""

    def __init__(self, root: Path) -> None:
        super().__init__(cost)
        self.root = root

    async def devices(self) -> Devices:
        there = (Device(name=f"cpu:{number}", description="a stand-in", arch="host") for number in range(2))
        return Devices(devices=tuple(there), absent={})

    @asynccontextmanager
    async def adding_to(self, _path: str) -> AsyncIterator[object]:
        yield self.overlay

    async def best(self, _kernel: str) -> list[object]:
        return []

    async def imported_timings(self, _kernel: str, *, arch: str) -> list[object]:  # noqa: ARG002  # as the client's
        return []


@pytest.mark.usefixtures("nothing_blocks")
async def test_tune_with_what_a_run_says_goes_on_with_it(root: Path) -> None:
    client = cast("Client", WholeTunedClient(root))
    async with Client.tune(
        client,
        "slow",
        shapes=["two"],
        devices=["cpu:1", "cpu:0"],
        seed=5,
        strategy="random",
        patience=30,
        measurements=9,
    ) as tuning:
        number = tuning.id
        async for step in tuning:
            if step.measured == 3:
                break
    (run,) = await Client.tuning_runs(client)
    assert (run.id, run.running, run.ended, run.shapes) == (number, False, "", ("two",))
    async with Client.tune(
        client,
        run.kernel,
        shapes=run.shapes,
        arch=run.arch,
        devices=run.devices,
        strategy=run.strategy,
        seed=run.seed,
        budget_s=run.budget_s,
        measurements=run.measurements,
        patience=run.patience,
        racing=run.racing,
        jobs=run.jobs,
    ) as again:
        assert again.id == number
        record = await again.finish()
    (run,) = await Client.tuning_runs(client, "slow")
    assert (run.id, run.measured, run.ended) == (number, 9, "all measurements of the budget are done")
    assert (await Client.tuning_record(client, number)).points == record.points


@asynccontextmanager
async def changes_of(root: Path) -> AsyncIterator[TuningChanges]:
    """Changes, the first of which was given."""
    async with anyio.create_task_group() as tasks, TuningChanges(tasks, root) as changes:
        with anyio.fail_after(PATIENCE_S):
            await anext(changes)
        yield changes


async def until(changes: TuningChanges, root: Path, reached: Callable[[list[TuningRun]], bool]) -> None:
    """Wait for changes until the runs are so."""
    with anyio.fail_after(PATIENCE_S), blockbuster_ctx("ckwatch.client"):
        while not reached(await to_thread.run_sync(runs_of, root, None)):
            await anext(changes)


async def test_changes_are_told_from_the_first_run_on(runs: RunsHere) -> None:
    async with changes_of(runs.root) as changes:
        async with runs(measurements=6) as run, anyio.create_task_group() as tasks:
            await tasks.start(run.run)
            await until(changes, runs.root, lambda found: any(one.running for one in found))
            await until(changes, runs.root, lambda found: found[0].points > 1)
        await until(changes, runs.root, lambda found: bool(found[0].ended))
        async with runs() as other, anyio.create_task_group() as tasks:
            await tasks.start(other.run)
            await until(changes, runs.root, lambda found: len(found) == 2)
            tasks.cancel_scope.cancel()
        await until(changes, runs.root, lambda found: not found[0].running)


async def test_reading_is_no_change(runs: RunsHere) -> None:
    await runs.finished(measurements=3)
    told: list[str] = []
    journal = TuningJournal(journal_path(runs.root))
    async with anyio.create_task_group() as tasks:
        seen = SeenRuns(journal, tasks, lambda: told.append("changed"))
        for _ in range(3):
            await seen.look()
            runs.all()
        assert told == ["changed"]
        await runs.finished(measurements=3)
        await seen.look()
        assert told == ["changed", "changed"]
    journal.close()


KILLED = """
import sys, time
from pathlib import Path
from ckwatch.tuning.journal import TuningJournal
from ckwatch.tuning.journal import journal_path
from ckwatch.tuning.results import TuningRun
from ckwatch.tuning.space import SpaceCoverage

journal = TuningJournal(journal_path(Path(sys.argv[1])))
run = TuningRun(
    id=0, kernel="slow", arch="host", device="d", devices=("cpu0",), problems={"one": {"M": 1}}, strategy="all", seed=0,
    budget_s=None, measurements=None, patience=None, racing=True, jobs=None, resumable=True, began_at=1.0, last_active=2.0,
)
journal.begin("name", run, SpaceCoverage(1, 1, 1, (), ()), anew=False)
print("begun", flush=True)
time.sleep(1000)
"""


@contextmanager
def run_elsewhere(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a process of its own, which has begun."""
    command = [sys.executable, "-c", KILLED, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        try:
            yield process
        finally:
            process.kill()


async def test_a_run_whose_process_is_killed_is_interrupted(root: Path) -> None:
    async with changes_of(root) as changes, AsyncExitStack() as stack:
        process = await to_thread.run_sync(stack.enter_context, run_elsewhere(root))
        await until(changes, root, lambda found: [one.running for one in found] == [True])
        process.send_signal(signal.SIGKILL)
        await until(changes, root, lambda found: [(one.running, one.ended) for one in found] == [(False, "")])
        process.wait()
        again = await to_thread.run_sync(stack.enter_context, run_elsewhere(root))
        await until(changes, root, lambda found: [one.running for one in found] == [True])
        again.kill()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_either_event_loop(backend: str, root: Path) -> None:
    async def main() -> None:
        async with changes_of(root) as changes:
            await to_thread.run_sync(anyio.run, partial(RunsHere(root).finished, measurements=3))
            await until(changes, root, lambda found: bool(found and found[0].ended))
            changes.close()
            assert [None async for _ in changes] == []

    anyio.run(main, backend=backend)


async def test_a_loop_ends_when_it_is_closed(root: Path) -> None:
    async with anyio.create_task_group() as tasks:
        changes = TuningChanges(tasks, root)
        async for _ in changes:
            changes.close()
        unused = TuningChanges(tasks, root)
        unused.close()
        assert [None async for _ in unused] == []


async def test_a_journal_that_cannot_be_read_ends_it(root: Path) -> None:
    path = journal_path(root)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 100)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(CkwatchError, match="the results of tuning cannot be kept"):
            await anext(TuningChanges(tasks, root))


async def test_a_journal_that_is_removed_and_made_anew(runs: RunsHere) -> None:
    await runs.finished(measurements=3)
    async with changes_of(runs.root) as changes:
        path = journal_path(runs.root)
        for one in path.parent.glob(f"{path.name}*"):
            one.unlink()
        await until(changes, runs.root, lambda found: found == [])
        await runs.finished(measurements=2)
        await until(changes, runs.root, lambda found: len(found) == 1 and bool(found[0].ended))
