"""Timings on several devices at once, here and on other machines. Workers are stand-ins: no figure here was measured."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.daemon_bench import KERNEL, Bench, build, following
from ckwatch.bench.job import Job
from ckwatch.bench.report import (
    BenchmarkFailure,
    BenchmarkReport,
    ContestantResult,
    Devices,
    FailureKind,
    NumericsVerification,
    Samples,
)
from ckwatch.bench.worker_session import OnMessage
from ckwatch.core.events import MAIN
from ckwatch.engine import bootstrap
from ckwatch.engine.answers import Daemon
from ckwatch.engine.handlers import measure as handler
from ckwatch.engine.handlers.measure import OTHERS_WAIT_S, DeviceFarm, MeasureRunner
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
from ckwatch.model.timings import Timing
from engine.timed_workspace import lines_of
from fakes.patience import PATIENCE_S

GPU0 = DeviceFacts(name="hip:0", description="test data", arch="gfx942", pci="0000:c1:00.0")
GPU1 = replace(GPU0, name="hip:1", pci="0000:c2:00.0")
FAR = replace(GPU0, machine="gpu-box")
CPU = DeviceFacts(name="cpu", description="test data", arch="host")
SHAPE = '[[shape]]\nname = "a"\nM = 8\nN = 8\nK = 8\n'
ONE, TWO = "k/one@gfx942", "k/two@gfx942"
RIGHT = NumericsVerification(
    seeds=(1,), compared=1, worst_error=0.0, relative_tolerance=0.0, absolute_tolerance=0.0, reference="test data"
)


@dataclass
class Workers:
    """Stand-ins for the workers of this machine; each measurement waits until `together` of them run.

    `log` has the device and the unit of each; `broken` the devices that cannot be used.
    """

    devices: tuple[DeviceFacts, ...] = (GPU0, GPU1, CPU)
    together: int = 1
    broken: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    mistake: ReferenceMistake | None = None
    lasting: list[LastingStandIn] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    _running: int = 0
    _all_run: anyio.Event = field(default_factory=anyio.Event)

    async def find_devices(self, *_command: object, **_more: object) -> Devices:
        return Devices(devices=self.devices)

    async def measure(self, job: Job, *_artifacts: object, **_more: object) -> BenchmarkReport | BenchmarkFailure:
        device = next(one for one in self.devices if one.identity == job.device)
        return await self.measure_on(device, job)

    def arrive(self) -> None:
        """One more runs."""
        self._running += 1
        if self._running >= self.together:
            self._all_run.set()

    def wait_for(self, count: int) -> None:
        """From now on, measurements wait until so many more run."""
        self.together, self._running, self._all_run = count, 0, anyio.Event()

    async def measure_on(self, device: DeviceFacts, job: Job) -> BenchmarkReport | BenchmarkFailure:
        unit = job.contestants[0].name
        self.log.append((device.label, unit))
        self.waits_s.append(job.lease_wait_s)
        if device.address in self.broken:
            return BenchmarkFailure(kind=FailureKind.BUSY, message=self.broken[device.address])
        if self.mistake is not None:
            message = f"the reference is wrong: {self.mistake.sentence}"
            return BenchmarkFailure(kind=FailureKind.REFERENCE, message=message, mistake=self.mistake)
        self.arrive()
        await self._all_run.wait()
        times_us = tuple([10.0 + len(unit) / 10] * 40)
        measured = tuple(
            ContestantResult(
                contestant=one.name,
                samples=tuple(Samples(cache=cache, times_us=times_us) for cache in job.caches),
                verification=RIGHT,
            )
            for one in job.contestants
        )
        return BenchmarkReport(device=replace(device, machine=""), measured=measured)


class LastingStandIn:
    """Takes the place of `Worker`."""

    def __init__(self, workers: Workers, _start: object) -> None:
        self._workers = workers
        self.jobs = 0
        self.is_closed = False
        workers.lasting.append(self)

    async def ask(self, job: Job, *_artifacts: object, **_more: object) -> BenchmarkReport | BenchmarkFailure:
        self.jobs += 1
        return await self._workers.measure(job)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.is_closed = True


@dataclass
class Farm:
    """Another machine with one GPU."""

    workers: Workers
    problem: str = ""
    there: tuple[DeviceFacts, ...] = (FAR,)
    runner: MeasureRunner = field(init=False)

    def devices(self) -> Sequence[DeviceFacts]:
        return self.there

    async def measure(
        self,
        job: Job,
        artifacts: Sequence[bytes],  # noqa: ARG002  # as the protocol says
        device: DeviceFacts,
        *,
        time_limit_s: float,  # noqa: ARG002
        on_message: OnMessage | None,  # noqa: ARG002
    ) -> BenchmarkReport | BenchmarkFailure:
        if self.problem:
            self.workers.log.append((device.label, job.contestants[0].name))
            self.workers.arrive()
            raise CkwatchError(self.problem)
        return await self.workers.measure_on(device, job)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    made = Workers()
    monkeypatch.setattr(handler, "find_devices", made.find_devices)
    monkeypatch.setattr(handler, "measure", made.measure)
    monkeypatch.setattr(handler, "Worker", partial(LastingStandIn, made))
    return made


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write(
        "ckwatch.toml", (made.root / "ckwatch.toml").read_text() + '[bench]\nwhen = "request"\nlibrary = false\n'
    )
    made.write("k.kernel.toml", KERNEL + SHAPE)
    return made


@pytest.fixture
def farm(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> Farm:
    """A farm that daemons have from their start on."""
    made = Farm(workers)
    fits: DeviceFarm = made

    def make(*parts: Any) -> MeasureRunner:
        made.runner = MeasureRunner(*parts)
        made.runner.farm = fits
        return made.runner

    monkeypatch.setattr(bootstrap, "MeasureRunner", make)
    return made


async def times(daemon: Daemon, *patterns: str, force: bool = True) -> dict[str, Timing]:
    """By unit its timing with a cold cache. All compile to the same code, which is measured once if not by `force`."""
    await build(daemon)
    lines = await lines_of(daemon, *patterns, force=force)
    found = [line.timing for line in lines if line.timing is not None and line.timing.cache == "cold"]
    return {timing.unit: timing for timing in found}


async def times_on(daemon: Daemon, device: str, *patterns: str, race: bool = False) -> list[Timing]:
    """Return the answer to a request that names a device."""
    with anyio.fail_after(PATIENCE_S):
        async with daemon.benchmarks.bench(patterns or None, None, device=device, force=False, race=race) as lines:
            return [line.timing async for line in lines if line.timing is not None]


async def test_two_gpus_time_two_units_at_the_same_time(bench: Bench, workers: Workers) -> None:
    async with bench.open() as daemon:
        await times(daemon, ONE)  # the devices are known from here on
        workers.wait_for(2)
        found = await times(daemon)
    assert {unit: timing.place for unit, timing in found.items()} == {ONE: "hip:0", TWO: "hip:1"}


async def test_the_first_measurements_are_side_by_side_too(bench: Bench, workers: Workers) -> None:
    workers.together = 2
    async with bench.open() as daemon:
        found = await times(daemon)
    assert {timing.place for timing in found.values()} == {"hip:0", "hip:1"}


async def test_what_is_ranked_and_compared_across_devices_says_so(bench: Bench, workers: Workers) -> None:
    workers.together = 2
    async with bench.open() as daemon:
        found = await times(daemon)
        places = {unit: timing.place for unit, timing in found.items()}
        ranked = await daemon.benchmarks.best("k", None)
        assert [row.rank for row in ranked] == [1, 2]
        assert {row.devices for row in ranked} == {("hip:0", "hip:1")}
        second = ranked[1].timing
        assert second is not None
        (against,) = second.comparisons
        assert against.other_device == places[ranked[0].unit]
        compared = await daemon.benchmarks.compare(ONE, TWO, None)
        assert {row.comparison.other_device for row in compared if row.comparison} == {places[TWO]}
        # measured on the same device, nothing is to be said
        await times_on(daemon, places[ONE])
        ranked = await daemon.benchmarks.best("k", None)
        assert {row.devices for row in ranked} == {()}
        compared = await daemon.benchmarks.compare(ONE, TWO, None)
        assert {row.comparison.other_device for row in compared if row.comparison} == {""}


async def test_units_go_back_to_their_devices_also_in_the_next_daemon(bench: Bench, workers: Workers) -> None:
    async with bench.open() as daemon:
        await times_on(daemon, "hip:1", ONE)
    workers.log.clear()
    async with bench.open() as daemon:
        await times(daemon, ONE)
        await times(daemon, ONE)
    assert workers.log == [("hip:1", ONE)] * 2


async def test_a_device_in_use_is_left_for_another(bench: Bench, workers: Workers) -> None:
    workers.broken[GPU0.address] = "somebody computes on it"
    async with bench.open() as daemon:
        found = await times(daemon)
    assert {timing.place for timing in found.values()} == {"hip:1"}
    unit = next(unit for device, unit in workers.log if device == "hip:0")
    waits_s = dict(zip(workers.log, workers.waits_s, strict=True))
    assert waits_s["hip:0", unit] == OTHERS_WAIT_S, "another one may do it"
    assert waits_s["hip:1", unit] > OTHERS_WAIT_S, "no other one may"


@pytest.mark.parametrize("race", [False, True])
async def test_a_mistake_of_a_reference_is_a_diagnostic_and_tried_on_one_device(
    bench: Bench, workers: Workers, race: bool
) -> None:
    path = str(bench.root / "reference.py")
    workers.mistake = ReferenceMistake(kind=MistakeKind.NAN, message="Y[0] is NaN", path=path, line=3)
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        with anyio.fail_after(PATIENCE_S):
            async with daemon.benchmarks.bench((ONE,), None, device=None, force=False, race=race) as lines:
                texts = [line.text async for line in lines if line.text]
        await seen.until(lambda s: path in s.files and [d.code for d in s.files[path].diagnostics] == ["reference/nan"])
    assert texts == ["the reference is wrong: reference.py:3: Y[0] is NaN"]
    assert len({device for device, _ in workers.log}) == 1


async def test_no_device_can_be_used(bench: Bench, workers: Workers) -> None:
    workers.broken = {GPU0.address: "somebody computes on it", GPU1.address: "somebody computes on that, too"}
    async with bench.open() as daemon:
        (line, _) = await lines_of(daemon, ONE)
        assert line.text == "somebody computes on that, too"
    assert workers.log == [("hip:0", ONE), ("hip:1", ONE)]


async def test_another_machine_times_beside_this_one(bench: Bench, workers: Workers, farm: Farm) -> None:
    workers.devices, workers.together = (GPU0, CPU), 2
    farm.there = (FAR, replace(GPU0, machine=socket.gethostname()))
    async with bench.open() as daemon:
        found = await times(daemon)
        assert {timing.place for timing in found.values()} == {"hip:0", "hip:0 on gpu-box"}
        far = next(timing for timing in found.values() if timing.machine)
        listed = await daemon.benchmarks.devices(again=False)
        assert [(one.label, one.address) for one in listed.devices] == [
            ("hip:0", GPU0.address), ("cpu", "cpu"), ("hip:0 on gpu-box", "gpu-box/0000:c1:00.0"),
        ]  # fmt: skip
        known = await times(daemon, force=False)
        assert known[far.unit].id == far.id
        ranked = await daemon.benchmarks.best("k", None)
        assert ranked[0].devices == ("hip:0", "hip:0 on gpu-box")
    workers.log.clear()
    async with bench.open() as daemon:
        await times(daemon, far.unit)
    assert workers.log == [("hip:0 on gpu-box", far.unit)]


async def test_another_machine_is_named(bench: Bench, workers: Workers, farm: Farm) -> None:
    async with bench.open() as daemon:
        found = await times_on(daemon, "gpu-box/hip:0", ONE)
    assert {timing.machine for timing in found} == {"gpu-box"}


async def test_what_another_machine_cannot_is_done_here(bench: Bench, workers: Workers, farm: Farm) -> None:
    workers.devices, workers.together, farm.problem = (GPU0, CPU), 2, "gpu-box cannot be reached"
    async with bench.open() as daemon:
        found = await times(daemon)
    assert {timing.place for timing in found.values()} == {"hip:0"}
    assert [place for place, _ in workers.log].count("hip:0 on gpu-box") == 1


async def test_a_machine_that_is_the_only_one_and_fails_is_one_sentence(
    bench: Bench, workers: Workers, farm: Farm
) -> None:
    workers.devices, farm.problem = (CPU,), "gpu-box cannot be reached"
    async with bench.open() as daemon:
        (line, _) = await lines_of(daemon, ONE)
        assert line.text == "gpu-box cannot be reached"
        farm.there = ()
        (line, _) = await lines_of(daemon, ONE)
        assert line.text == "hip:0 on gpu-box is gone"
        (line, _) = await lines_of(daemon, ONE)
        assert line.text == "no hip device"
        farm.there, farm.problem = (FAR,), ""
        await farm.runner.farm_changed()
        assert (await times(daemon, ONE))[ONE].place == "hip:0 on gpu-box"
        assert (await daemon.units.unit(MAIN, ONE)).diagnostics == ()


async def test_each_device_has_its_worker_for_races(
    bench: Bench, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "RACE_PAUSE_S", 0.0)
    workers.together = 2
    async with bench.open() as daemon, anyio.create_task_group() as tasks:

        async def race(unit: str, device: str) -> None:
            await times_on(daemon, device, unit, race=True)

        tasks.start_soon(race, ONE, "hip:0")
        tasks.start_soon(race, TWO, "hip:1")
    assert sorted(workers.log) == [("hip:0", ONE), ("hip:1", TWO)]
    assert len(workers.lasting) == 2
    assert all(one.is_closed for one in workers.lasting)
