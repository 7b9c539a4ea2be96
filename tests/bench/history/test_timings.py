"""Timings come back from a real file; which are the latest, a baseline, or dropped."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benches.timing_records import DEVICE, failed, measured, record, report, samples
from ckwatch.bench.history.database import MIGRATIONS, HistoryError
from ckwatch.bench.history.runs import History
from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import DETERMINISTIC_FAILURES, BenchmarkReport, FailureKind
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.roofline import CacheState
from helpers.own_timings import OwnTimings

UNIT, OTHER = "gemm/m128@gfx942", "gemm/m256@gfx942"
ELSEWHERE = replace(DEVICE, pci="0000:08:00.0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/history.sqlite"


@pytest.fixture
def timings(path: Path) -> OwnTimings:
    made = OwnTimings(path, busy_timeout_s=0.05)
    made.open()
    return made


def without_numbers(records: list[TimingRecord]) -> list[TimingRecord]:
    return [replace(one, id=0) for one in records]


def on(device: DeviceFacts) -> BenchmarkReport:
    return report(measured(UNIT), device=device)


@pytest.mark.parametrize(
    "one",
    [
        record(),
        record(times_us=[0.1, 12.319999933242798, 1e9, 1e-3]),
        record(report=report(measured(UNIT, samples(), samples(CacheState.HOT, 1.0)), measured("library", samples()))),
        record(report=report(measured(UNIT, samples(clocks_mhz=(), discarded=3)))),
        record(report=report(), problem=None, commit=None, parameters={}, sizes={}, runtime={}),
        record("gemm ü \udcff/ö@gfx942", shape="größe", contestant="ours"),
        failed(),
        failed(kind=FailureKind.NO_DEVICE),
        record(report=report(measured(UNIT), device=replace(DEVICE, machine="gpu-box"))),
    ],
)
def test_what_is_added_comes_back(path: Path, timings: OwnTimings, one: TimingRecord) -> None:
    assert timings.add([one, replace(one, shape="other")]) == [1, 2]
    timings.close()
    again = OwnTimings(path)
    again.open()
    found = again.one(1)
    assert found == replace(one, id=1)
    assert found is not None
    assert {name: type(value) for name, value in found.parameters.items()} == {
        name: type(value) for name, value in one.parameters.items()
    }
    assert [kept.id for kept in again.of_unit(one.unit)] == [2, 1]
    again.close()


def test_what_is_no_text_or_no_number_is_kept_as_well_as_can_be(timings: OwnTimings) -> None:
    given_report = report(notes=("of a file: \udcff",), seconds=math.inf)
    timings.add([record(report=given_report)])
    found = timings.one(1)
    assert found is not None
    assert found.report is not None
    assert (found.report.notes, found.report.seconds) == (("of a file: ?",), math.inf)


def test_records_are_added_together_or_not_at_all(timings: OwnTimings) -> None:
    with pytest.raises(HistoryError, match="NOT NULL"):
        timings.add([record(), record(taken_at=math.nan)])
    assert timings.of_unit(UNIT) == []
    assert timings.add([]) == []


def test_a_device_of_another_machine_is_another_one(timings: OwnTimings) -> None:
    far = replace(DEVICE, machine="gpu-box")
    first, second = record(), replace(record(artifact_key="a2"), report=on(far))
    assert first.place == (DEVICE.identity, DEVICE.description), "as before there were machines"
    assert second.place == (DEVICE.identity, DEVICE.description, "gpu-box")
    assert first.product == second.product
    timings.add([first, second])
    assert len(timings.latest(UNIT)) == 2
    assert timings.previous(replace(second, id=2)) is None


def test_records_from_before_there_were_machines_are_read(timings: OwnTimings, path: Path) -> None:
    timings.add([record()])
    with closing(sqlite3.connect(path)) as connection, connection:
        (content,) = connection.execute("SELECT content FROM timing").fetchone()
        assert ',"machine":""' in content
        connection.execute("UPDATE timing SET content = ?", (content.replace(',"machine":""', ""),))
    found = timings.one(1)
    assert found == replace(record(), id=1)


def test_of_unit(timings: OwnTimings) -> None:
    every = [record(shape="small"), record(shape="large"), failed(shape="small"), record(OTHER)]
    timings.add(every)
    assert without_numbers(timings.of_unit(UNIT)) == [every[2], every[1], every[0]]
    assert without_numbers(timings.of_unit(UNIT, "small")) == [every[2], every[0]]
    assert without_numbers(timings.of_unit(UNIT, "small", 1)) == [every[2]]
    assert timings.of_unit("nobody") == []
    assert timings.one(99) is None


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([record(), record(artifact_key="a2")], [1]),
        ([record(), failed()], [1, 0]),
        ([failed(), record()], [1]),
        ([record(), failed(), failed()], [2, 0]),
        ([record(shape="large"), record(), failed(shape="large")], [2, 1, 0]),
        ([record(report=on(ELSEWHERE)), record(), record()], [2, 0]),
        ([record(report=on(replace(DEVICE, description="another"))), record()], [1, 0]),
        ([failed(kind=FailureKind.NO_DEVICE), record(report=on(ELSEWHERE))], [1]),
        ([failed()], [0]),
        ([record(OTHER)], []),
    ],
)
def test_latest(timings: OwnTimings, added: list[TimingRecord], expected: list[int]) -> None:
    timings.add(added)
    assert without_numbers(timings.latest(UNIT)) == [added[index] for index in expected]


def test_of_kernel(timings: OwnTimings) -> None:
    other_kernel = record("gemm2/m128@gfx942")
    every = [record(), record(OTHER), other_kernel, record(shape="large"), failed(OTHER), record()]
    timings.add(every)
    assert without_numbers(timings.of_kernel("gemm")) == [every[5], every[4], every[3], every[1]]
    assert without_numbers(timings.of_kernel("gemm", "large")) == [every[3]]
    assert timings.of_kernel("gem") == []


def test_by_key(timings: OwnTimings) -> None:
    assert timings.by_key("b1") is None
    for kind in FailureKind:
        timings.add([failed(kind=kind, benchmark_key=kind.name)])
        assert (timings.by_key(kind.name) is not None) == (kind in DETERMINISTIC_FAILURES)
    timings.add([record(), record(taken_at=7.0), failed(kind=FailureKind.LOST)])
    found = timings.by_key("b1")
    assert found is not None
    assert found.taken_at == 7.0


def test_baselines(timings: OwnTimings) -> None:
    assert timings.baselines() == []
    assert timings.baseline(UNIT) == []
    assert timings.set_baseline(UNIT, "empty", 1.0) == 0
    assert timings.baselines() == []
    old = [record(), record(shape="large"), failed(shape="broken"), record(OTHER)]
    timings.add(old)
    assert timings.set_baseline(UNIT, "v1", 10.0) == 2
    assert timings.set_baseline(OTHER, "v1", 10.0) == 1
    timings.add([record(artifact_key="a2"), record(artifact_key="a3")])
    assert without_numbers(timings.baseline(UNIT)) == [old[1], old[0]]
    assert timings.set_baseline(UNIT, "v2", 20.0) == 2
    assert [one.artifact_key for one in timings.baseline(UNIT)] == ["a3", "a1"]
    assert [one.artifact_key for one in timings.baseline(UNIT, "v1")] == ["a1", "a1"]
    assert without_numbers(timings.baseline(OTHER)) == [old[3]]
    assert timings.baseline(OTHER, "v2") == []
    assert [(one.name, one.set_at, one.units, one.timings) for one in timings.baselines()] == [
        ("v2", 20.0, 1, 2),
        ("v1", 10.0, 2, 3),
    ]
    # set once more, it means something else
    assert timings.set_baseline(UNIT, "v1", 30.0) == 2
    assert [one.artifact_key for one in timings.baseline(UNIT)] == ["a3", "a1"]
    assert timings.remove_baseline("v1") == 2
    assert timings.remove_baseline("v1") == 0
    assert [one.name for one in timings.baselines()] == ["v2"]


def test_the_artifact_of_a_baseline(timings: OwnTimings) -> None:
    assert timings.baseline_artifact(UNIT) is None
    timings.add([record(artifact_key="a1"), record(OTHER, artifact_key="o1")])
    timings.set_baseline(UNIT, "v1", 10.0)
    timings.set_baseline(OTHER, "v1", 10.0)
    timings.add([record(artifact_key="a2"), record(shape="large", artifact_key="a2")])
    assert timings.baseline_artifact(UNIT) == ("v1", "a1")
    timings.set_baseline(UNIT, "v2", 20.0)
    assert timings.baseline_artifact(UNIT) == ("v2", "a2"), "the one that was set last"
    assert timings.baseline_artifact(OTHER) == ("v1", "o1")
    assert timings.units_of_baseline("v1") == sorted([UNIT, OTHER])
    assert timings.units_of_baseline("v2") == [UNIT]
    assert timings.units_of_baseline("v3") == []
    timings.remove_baseline("v2")
    assert timings.baseline_artifact(UNIT) == ("v1", "a1")


def test_pruning_keeps_the_newest_and_baselines(timings: OwnTimings) -> None:
    timings.add([record(artifact_key="first"), failed(artifact_key="f0")])
    timings.set_baseline(UNIT, "b", 1.0)
    timings.add([record(artifact_key=f"a{number}") for number in range(4)])
    timings.add([failed(artifact_key="f1"), record(OTHER), record(shape="large"), record(report=on(ELSEWHERE))])
    timings.prune(2)
    assert [one.artifact_key for one in timings.of_unit(UNIT, "small")] == ["a1", "f1", "a3", "a2", "f0", "first"]
    timings.remove_baseline("b")
    timings.prune(0)
    assert [one.artifact_key for one in timings.of_unit(UNIT, "small")] == ["a1", "f1", "a3"]
    assert (len(timings.of_unit(OTHER)), len(timings.of_unit(UNIT, "large"))) == (1, 1)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    added=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.booleans(), st.sampled_from([DEVICE, ELSEWHERE]))
    )
)
def test_latest_of_any_records(
    tmp_path_factory: pytest.TempPathFactory, added: list[tuple[str, str, bool, DeviceFacts]]
) -> None:
    """Return the answer of `latest` in words."""
    records = [
        record(f"k/{unit}@host", shape=shape, report=on(device)) if good else failed(f"k/{unit}@host", shape=shape)
        for unit, shape, good, device in added
    ]
    expected: set[int] = set()
    for unit in "ab":
        for shape in "xy":
            numbers = [at for at, one in enumerate(added, 1) if one[:2] == (unit, shape)]
            good = {added[number - 1][3].pci: number for number in numbers if added[number - 1][2]}
            expected |= {*good.values()} | {*numbers[-1:]}
    timings = OwnTimings(tmp_path_factory.mktemp("any") / "history.sqlite")
    timings.open()
    with closing(timings):
        timings.add(records)
        found = [one.id for unit in "ab" for one in timings.latest(f"k/{unit}@host")]
        assert sorted(found) == sorted(expected)
        assert [one.id for one in timings.of_kernel("k")] == sorted(expected, reverse=True)


def test_one_file_with_the_runs(path: Path) -> None:
    history = History(path)
    history.open()
    history.timings.add([record()] * 201)
    history.prune()
    assert len(history.timings.of_unit(UNIT, limit=999)) == 200
    history.close()
    with pytest.raises(HistoryError, match="not open"):
        history.timings.latest(UNIT)
    history.open()
    assert len(history.timings.latest(UNIT)) == 1
    history.close()


def test_a_history_of_the_version_before_is_brought_up_to_date(path: Path) -> None:
    old = History(path, migrations=MIGRATIONS[:1])
    old.open()
    old.note_start(1.0, 2, "0.1")
    old.close()
    history = History(path)
    history.open()
    with closing(history):
        assert history.note_start(2.0, 3, "0.2") is False
        assert history.timings.add([record()]) == [1]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE timing SET content = 'no JSON'",
        "UPDATE timing SET content = '{}'",
        "UPDATE timing SET samples = x''",
        "UPDATE timing SET samples = substr(samples, 1, 5)",
        "UPDATE timing SET samples = substr(samples, 1, 21)",
    ],
)
def test_a_row_that_is_damaged(path: Path, timings: OwnTimings, damage: str) -> None:
    timings.add([record()])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with closing(timings):
        assert timings.latest(UNIT) == []
        assert timings.add([record()]) == [1]
    assert path.with_name("history.sqlite.damaged-1").exists()


def test_samples_take_eight_bytes_each(path: Path, timings: OwnTimings) -> None:
    many = tuple(100 / 3 + number for number in range(5000))
    with closing(timings):
        timings.add([record(times_us=many) for _ in range(10)])
        found = timings.one(10)
        assert found is not None
        assert found.measured is not None
        assert found.measured.samples[0].times_us == many
    assert path.stat().st_size < 10 * 5000 * 8 + 150_000
