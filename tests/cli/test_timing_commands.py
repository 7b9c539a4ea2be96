"""`bench`, `history`, `compare`, `best`, `baseline` and `export --timings`, with a daemon that is made up.

Its timings are inventions of the tests, in round numbers, of a device called "test device".
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benches.timing_client import TimingClient, connecting_to, numbered
from benches.timing_records import DEVICE, failed, measured, record, report, samples
from ckwatch.bench.history.timings import TimingRecord, Timings
from ckwatch.bench.report import FailureKind, StopReason
from ckwatch.cli import main
from ckwatch.engine.comparison import compare_timings
from ckwatch.engine.queries.ranking import rank_units
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.model.errors import CkwatchError
from ckwatch.model.roofline import CacheState
from ckwatch.model.timings import Comparison, VerdictName
from ckwatch.wire.benchmarks import Baseline, BenchLine, Device, Devices
from ckwatch.wire.state import OutcomeName
from helpers.own_timings import OwnTimings

A, B = "gemm/a@gfx942", "gemm/b@gfx942"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingClient:
    made = TimingClient(tmp_path, A, B)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return made


def timed(unit: str = A, time_us: float = 100.0, **changes: Any) -> TimingRecord:
    return record(unit, [time_us] * 20, problem=None, **changes)


def lines_of(line: BenchLine | TimingRecord) -> list[BenchLine]:
    """The lines of a record, as the daemon sends them."""
    if isinstance(line, BenchLine):
        return [line]
    return [BenchLine(event="timing", unit=one.unit, shape=one.shape, timing=one) for one in record_to_wire(line, "a1")]


def skipped(text: str, unit: str = A, shape: str | None = "small") -> BenchLine:
    return BenchLine(event="skipped", unit=unit, shape=shape, text=text)


def known(record: TimingRecord) -> BenchLine:
    return replace(lines_of(record)[0], known=True)


# bench


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        ([timed()], 0, ["on hip:7, test device, 0000:07:00.0", "100.0 µs", "20 samples", "1 timed in"]),
        ([timed(), timed(B), timed(shape="large")], 0, ["3 timed in"]),
        ([failed()], 1, ["wrong result", "it is wrong result", "1 failed in"]),
        ([failed(kind=FailureKind.LOST)], 2, ["device lost"]),
        ([failed(kind=FailureKind.LOST), failed(B)], 1, ["2 failed"]),
        ([skipped("no hip device\nthink")], 2, ["skipped  1 shape of 1 unit (gemm/a@gfx942): no hip device; think"]),
        (
            [timed(), skipped("no device"), skipped("no device", shape="large"), skipped("no device", B)],
            2,
            ["skipped  3 shapes of 2 units (gemm/a@gfx942, gemm/b@gfx942): no device", "1 timed, 3 skipped"],
        ),
        ([known(timed()), timed(B)], 0, ["1 timed, 1 known already (--force times again) in"]),
        ([timed(report=report(measured(A, samples(stop=StopReason.BUDGET))))], 0, ["did not converge"]),
        ([], 0, ["nothing to do in"]),
        ([BenchLine(event="began", unit=A, shape="small"), BenchLine(event="stage", unit=A, text="warm-up")], 0, []),
    ],
)
def test_bench(
    client: TimingClient, capsys: Capture, lines: list[BenchLine | TimingRecord], status: int, said: list[str]
) -> None:
    client.lines = [one for line in lines for one in lines_of(line)]
    assert client.run("bench") == status
    captured = capsys.readouterr()
    for words in said:
        assert words in captured.out
    assert (captured.err, client.left_bench) == ("", True)


@pytest.mark.parametrize(
    ("outcome", "status"), [("failed", 1), ("faulted", 2), ("checked", 2), (None, 2), ("built", 0)]
)
def test_units_that_were_not_begun(
    client: TimingClient, capsys: Capture, outcome: OutcomeName | None, status: int
) -> None:
    client.there = [replace(unit, outcome=outcome) for unit in client.there]
    client.lines = [skipped("why not", shape=None)]
    assert client.run("bench") == status
    assert "skipped  1 unit (gemm/a@gfx942): why not" in capsys.readouterr().out


def test_bench_without_a_compiler(client: TimingClient, capsys: Capture) -> None:
    client.lines = [skipped("no compiler", shape=None)]
    client.no_compiler = "there is no hipcc\nget one"
    assert client.run("bench") == 2
    assert capsys.readouterr().err == "ckwatch: error: there is no hipcc\nckwatch: help: get one\n"


def test_bench_passes_on_what_is_asked(client: TimingClient) -> None:
    assert (
        client.run("bench", "gemm/a", "gemm/b", "--shape", "s 1", "--shape", "l", "--device", "hip:1", "--force") == 0
    )
    assert client.of("bench") == [(("gemm/a", "gemm/b"), ["s 1", "l"], "hip:1", True)]
    client.asked.clear()
    assert client.run("bench") == 0
    assert client.of("bench") == [((), None, None, False)]


def test_bench_says_what_comparisons_say(client: TimingClient, capsys: Capture) -> None:
    (timing,) = record_to_wire(timed(), "a1")
    rows: tuple[tuple[VerdictName, float, str], ...] = (("SLOW", 1.1, "previous"), ("FAST", 0.9, "library"))
    found = tuple(
        Comparison(verdict=verdict, ratio=ratio, against=against, other_median_us=90.0)
        for verdict, ratio, against in rows
    )
    shown = replace(timing, comparisons=found, verified=False)
    client.lines = [BenchLine(event="timing", unit=A, shape="small", timing=shown)]
    assert client.run("bench") == 0
    out = capsys.readouterr().out
    assert "not verified  SLOW 1.100 × previous  FAST 0.900 × library" in out


def test_bench_says_which_device_timed_what(client: TimingClient, capsys: Capture) -> None:
    elsewhere = report(measured(B), device=replace(DEVICE, machine="gpu-box"))
    client.lines = [*lines_of(timed()), *lines_of(timed(B, report=elsewhere)), *lines_of(timed(shape="large"))]
    assert client.run("bench") == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith("on ")]
    assert heads == [f"on hip:7{where}, test device, 0000:07:00.0" for where in ("", " on gpu-box")]
    assert [line.partition("20 samples")[2].strip() for line in lines if "samples" in line] == [
        "", "hip:7 on gpu-box", "hip:7",
    ]  # fmt: skip


def test_bench_says_whose_lock_was_in_the_way(client: TimingClient, capsys: Capture) -> None:
    client.warnings = {"device": "the lock of hip:7 is held by bob\nask bob", "memory": "low"}
    client.lines = lines_of(timed())
    assert client.run("bench") == 0
    assert " warning  the lock of hip:7 is held by bob; ask bob\n1 timed in" in capsys.readouterr().out
    assert client.run("bench", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["warning"] == client.warnings["device"]
    client.lines = [known(timed())]
    assert client.run("bench") == 0
    assert "bob" not in capsys.readouterr().out


def test_bench_speaks_json(client: TimingClient, capsys: Capture) -> None:
    client.lines = [
        BenchLine(event="began", unit=A, shape="small"),
        *lines_of(timed()),
        skipped("no device", B),
        *lines_of(failed(B, shape="large")),
    ]
    assert client.run("bench", "--json") == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["start", "began", "timing", "skipped", "timing", "summary"]
    assert lines[0]["schema"] == 1
    assert lines[1] == {"event": "began", "unit": A, "shape": "small", "text": ""}
    assert lines[2]["timing"]["median_us"] == 100.0
    assert lines[3] == {"event": "skipped", "unit": B, "shape": "small", "shapes": 0, "text": "no device"}
    assert lines[4]["timing"]["failure"] == "wrong result"
    summary = {"timed": 1, "failed": 1, "skipped": 1, "exit_status": 1}
    assert summary.items() <= lines[5].items()


def test_no_figure_of_a_stand_in_is_shown(client: TimingClient, capsys: Capture) -> None:
    stand_in = replace(DEVICE, description="stand-in for a device")
    one = timed(report=report(measured(A, samples(CacheState.COLD, 123.0)), device=stand_in))
    client.lines, client.records = lines_of(one), [one]
    client.ranked = rank_units([one], {A: "a1"}, {})
    for arguments in (("bench",), ("history", A), ("best", "gemm")):
        assert client.run(*arguments) == 0
        out = capsys.readouterr().out
        assert "no figures" in out
        assert "123" not in out


def test_devices(client: TimingClient, capsys: Capture) -> None:
    assert client.run("bench", "--devices") == 0
    assert capsys.readouterr().out == "no device to time kernels on\n"
    device = Device(name="hip:7", description="test device", arch="gfx942", pci="0000:07:00.0", driver="0")
    client.found = Devices(devices=(device,), absent={"cuda": "no driver\nget one"}, host="here")
    assert client.run("bench", "--devices") == 0
    assert capsys.readouterr().out.splitlines() == [
        "here",
        "  DEVICE  ARCH    NAME         PCI           DRIVER",
        "  hip:7   gfx942  test device  0000:07:00.0  0",
        "  no cuda: no driver; get one",
    ]
    assert client.run("bench", "--devices", "--json") == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["pci"] == "0000:07:00.0"
    assert client.run("bench", "--devices", "--force") == 2
    assert client.of("devices") == [(True,)] * 3


# history


def test_history(client: TimingClient, capsys: Capture) -> None:
    client.records = numbered(
        [timed(time_us=100.0, artifact_key="a0"), timed(time_us=200.0), failed(A), timed(shape="large", time_us=3000.0)]
    )
    assert client.run("history", "gemm/a") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [A, "", "small, cold cache, hip:7, test device, 0000:07:00.0", "  ▁█  100.0 µs … 200.0 µs"]
    assert lines[4].split()[:2] == ["TAKEN", "MEDIAN"]
    rows = [line.split() for line in lines[5:8]]
    assert [row[2:4] for row in rows] == [["100.0", "µs"], ["200.0", "µs"], ["wrong", "result"]]
    assert "stale" in lines[5]
    assert "c0ffee-dirty" in lines[5]
    assert lines[7].endswith("it is wrong result")
    assert lines[9:10] == ["large, cold cache, hip:7, test device, 0000:07:00.0"]
    assert "3.000 ms" in lines[11]
    assert client.of("timings") == [(A, None, 50)]


def test_history_of_nothing_and_of_failures_only(client: TimingClient, capsys: Capture) -> None:
    assert client.run("history", "gemm/b") == 0
    assert "no timings" in capsys.readouterr().out
    client.records = [failed(B, kind=FailureKind.NO_DEVICE)]
    assert client.run("history", "gemm/b", "--shape", "small", "-n", "7") == 0
    assert "no device" in capsys.readouterr().out
    assert client.of("timings")[-1] == (B, "small", 7)


def test_history_of_a_unit_that_is_gone(client: TimingClient, capsys: Capture) -> None:
    client.records = [timed("gone/x@gfx942")]
    assert client.run("history", "gone/x@gfx942") == 0
    assert "100.0 µs" in capsys.readouterr().out
    for word in ("gone/x", "other/x@gfx942"):
        assert client.run("history", word) == 2
        assert f"no kernel, instance or unit is called '{word}'" in capsys.readouterr().err


def test_history_of_several_units_is_refused(client: TimingClient, capsys: Capture) -> None:
    assert client.run("history", "gemm") == 2
    assert "'gemm' matches 2 units" in capsys.readouterr().err


def test_history_speaks_json(client: TimingClient, capsys: Capture) -> None:
    client.records = numbered([timed(time_us=1.0), failed(A), timed(time_us=2.0)])
    assert client.run("history", A, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["schema"], printed["unit"]) == (1, A)
    assert [(one["id"], one["median_us"], one["failure"]) for one in printed["timings"]] == [
        (1, 1.0, None),
        (2, 0.0, "wrong result"),
        (3, 2.0, None),
    ]


def test_plots(client: TimingClient, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    client.records = numbered([timed(time_us=1.0), failed(A), timed(time_us=2.0)])
    client.ranked = rank_units([timed(A), timed(B)], {A: "a1", B: "a1"}, {})
    for number, arguments in enumerate([("history", A), ("best", "gemm"), ("best", "gemm", "--chart", "roofline")]):
        assert client.run(*arguments, "--plot", f"größe {number}.svg") == 0
        assert capsys.readouterr().out.endswith(f"wrote {tmp_path}/größe {number}.svg\n")
        assert "<svg" in (tmp_path / f"größe {number}.svg").read_text()


def test_nothing_to_plot(client: TimingClient, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    client.records = [failed(A)]
    client.ranked = rank_units([failed(A)], {A: "a1"}, {})
    for arguments in (("history", A), ("best", "gemm"), ("best", "gemm", "--chart", "roofline")):
        assert client.run(*arguments, "--plot", "x.svg") == 2
        assert "has no timings to plot" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("history", A, "--plot", "x.pdf"), "must end in .svg or .png"),
        (("best", "gemm", "--plot", "gone/x.svg"), "there is no folder"),
        (("best", "gemm", "--chart", "roofline"), "--chart needs --plot"),
        (("bench", "--devices", "gemm"), "only lists"),
        (("export",), "no unit is given"),
        (("export", A, "--samples"), "--samples needs --timings"),
        (("export", A, "--shape", "s"), "--shape and --device are for choosing among instances"),
        (("export", A, "--device", "cpu"), "--shape and --device are for choosing among instances"),
        (("export", A, "--autotune", "--timings", "json"), "--autotune and --device cannot be used with --timings"),
        (("export", "--timings", "csv", "--samples"), "--samples cannot be written as CSV"),
        (("export", "--timings", "csv", "--name", "x"), "--name and --json cannot be used with --timings"),
        (("export", "--timings", "json", "--json"), "--name and --json cannot be used with --timings"),
        (("baseline", "set", "a:b"), "'a:b' is not a valid baseline name"),
        (("baseline", "set", " a"), "is not a valid baseline name"),
        (("baseline", "set", "a/../b"), "is not a valid baseline name"),
        (("baseline", "set", "x" * 121), "is not a valid baseline name"),
        (("baseline", "set", "a\udcff"), "'a?' is not a valid baseline name"),
    ],
)
def test_mistakes_are_reported_before_anything_is_done(
    client: TimingClient, capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    assert client.run(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "ckwatch: help: " in captured.err or "must end" in message or "no folder" in message
    assert client.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("baseline",),
        ("baseline", "set"),
        ("compare", "a"),
        ("history", "a", "-n", "0"),
        ("export", "--timings", "xml"),
        ("best", "gemm", "--plot", "x.svg", "--chart", "pie"),
    ],
)
def test_the_parser_refuses(client: TimingClient, arguments: tuple[str, ...], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        client.run(*arguments)
    assert ended.value.code == 2
    assert "usage: ckwatch" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench",),
        ("bench", "--devices"),
        ("history", A),
        ("compare", A, B),
        ("best", "gemm"),
        ("baseline", "set", "v1"),
        ("baseline", "list"),
        ("baseline", "remove", "v1"),
        ("export", "--timings", "csv"),
    ],
)
def test_what_the_daemon_refuses_is_reported(client: TimingClient, capsys: Capture, arguments: tuple[str, ...]) -> None:
    client.records = [timed()]
    client.fault = CkwatchError("it cannot be done", "do without")
    assert client.run(*arguments, "-C", "/some/where", "--no-daemon", "--trust") == 2
    assert capsys.readouterr().err == "ckwatch: error: it cannot be done\nckwatch: help: do without\n"
    assert client.of("connected") == [(Path("/some/where"), (), True, True)]


# compare


@pytest.fixture
def timings(tmp_path: Path) -> Iterator[Timings]:
    made = OwnTimings(tmp_path / "history.sqlite")
    made.open()
    yield made
    made.close()


def test_compare(client: TimingClient, timings: Timings, capsys: Capture) -> None:
    timings.add([timed(A, 110.0), timed(A, 50.0, shape="large"), timed(B, 100.0)])
    keys = {unit: timings.latest(unit)[0].artifact_key for unit in (A, B)}
    client.compared = compare_timings(timings, A, B, present=keys)
    assert client.run("compare", "gemm/a", "gemm/b") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{A}  against  {B}",
        "  SHAPE  CACHE         A         B    A / B  VERDICT",
        f"  large  cold   50.00 µs                     {B} has no timing on this shape",
        "  small  cold   110.0 µs  100.0 µs  1.100 ×  SLOW",
    ]
    assert client.of("compare") == [(A, B, None)]
    assert client.run("compare", "gemm/a", "gemm/b", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["ours"], printed["theirs"]) == (A, B)
    assert [row["comparison"] and row["comparison"]["verdict"] for row in printed["compared"]] == [None, "SLOW"]


def test_compare_names_the_unit_that_has_changed_since(client: TimingClient, timings: Timings, capsys: Capture) -> None:
    timings.add([timed(A, 110.0), timed(B, 100.0)])
    key = timings.latest(A)[0].artifact_key
    for present, end in (({A: key, B: key}, "SLOW"), ({A: key}, f"stale: {B}"), ({}, f"stale: {A} and {B}")):
        client.compared = compare_timings(timings, A, B, present=present)
        assert client.run("compare", "gemm/a", "gemm/b") == 0
        assert capsys.readouterr().out.rstrip().endswith(end)


@pytest.mark.parametrize("other", ["previous", "library", "baseline", "baseline:v 1"])
def test_compare_with_what_is_no_unit(client: TimingClient, other: str) -> None:
    assert client.run("compare", "gemm/a", other, "--shape", "small") == 0
    assert client.of("compare") == [(A, other, "small")]


# best


def test_best(client: TimingClient, capsys: Capture) -> None:
    slow = replace(timed(B, 200.0), report=report(measured(B, samples(CacheState.COLD, *range(150, 251)))))
    units = {A: "a1", B: "a1", "gemm/c@gfx942": None}
    client.ranked = rank_units([timed(A), slow], units, {"gemm/c@gfx942": "128 is not divisible by 96"})
    assert client.run("best", "gemm") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["gemm", "", "small, gfx942, cold cache, hip:7, test device, 0000:07:00.0"]
    assert lines[3].split() == ["RANK", "INSTANCE", "MEDIAN", "ERROR", "CLOCK", "COMPARED"]
    assert lines[4].split()[:4] == ["1", "a", "100.0", "µs"]
    assert lines[5].split()[:4] == ["2", "b", "200.0", "µs"]
    assert "SLOW 2.000 × a" in lines[5]
    assert lines[4].split()[-1].count("█") == 17
    assert lines[5].endswith("┤")
    assert lines[6] == "  ✗  c  128 is not divisible by 96"
    assert client.run("best", "gemm", "--json", "--shape", "small", "--cache", "hot") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(row["instance"], row["rank"]) for row in printed["ranked"]] == [("a", 1), ("b", 2), ("c", None)]
    assert client.of("best") == [("gemm", None), ("gemm", "small", "hot")]


def test_best_and_compare_across_devices(client: TimingClient, timings: Timings, capsys: Capture) -> None:
    elsewhere = report(
        measured(B, samples(CacheState.COLD, *[200.0] * 20)), device=replace(DEVICE, name="hip:1", pci="0000:99:00.0")
    )
    records = [timed(A), timed(B, report=elsewhere)]
    client.ranked = rank_units(records, {A: "a1", B: "a1"}, {})
    assert client.run("best", "gemm") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "small, gfx942, cold cache, test device",
        "  ranked across hip:1, hip:7, by which times differ too",
    ]
    assert "on hip:7" in lines[5]
    assert "on hip:1, SLOW 2.000 × a, the other on hip:7" in lines[6]
    timings.add(records)
    client.compared = compare_timings(timings, A, B, present={A: "a1", B: "a1"})
    assert client.run("compare", "gemm/a", "gemm/b") == 0
    assert "FAST     the other on hip:1" in capsys.readouterr().out


def test_best_on_a_narrow_terminal_has_no_bars(
    client: TimingClient, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    client.ranked = rank_units([timed(A), timed(B, 110.0)], {A: "a1", B: "a1"}, {})
    assert client.run("best", "gemm") == 0
    assert "█" not in capsys.readouterr().out


def test_best_of_nothing(client: TimingClient, capsys: Capture) -> None:
    assert client.run("best", "gemm") == 0
    assert "no timings" in capsys.readouterr().out


# baseline


def test_baselines(client: TimingClient, capsys: Capture) -> None:
    assert client.run("baseline", "list") == 0
    assert "no baseline" in capsys.readouterr().out
    assert client.run("baseline", "set", "v 1") == 0
    assert client.run("baseline", "set", "v2", "gemm/a") == 0
    assert capsys.readouterr().out.splitlines() == [
        "baseline 'v 1' is set to the latest timings of 2 units",
        "baseline 'v2' is set to the latest timings of 1 unit",
    ]
    assert client.of("set_baseline") == [("v 1", ()), ("v2", ("gemm/a",))]
    client.known = [Baseline(name="v 1", set_at=1e9, units=2, timings=1)]
    assert client.run("baseline", "list") == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "SET", "UNITS", "TIMINGS"]
    assert line.startswith("v 1   2001-09-0")
    assert client.run("baseline", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["baselines"][0]["units"] == 2
    assert client.run("baseline", "remove", "v 1") == 0
    assert "baseline 'v 1' is removed; it had timings of 3 units" in capsys.readouterr().out
    assert client.run("baseline", "remove", "v 1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "name": "v 1", "units": 3}
    assert client.run("baseline", "set", "v", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "name": "v", "units": [A, B]}


# export


def test_timings_as_json(client: TimingClient, capsys: Capture) -> None:
    both = report(measured(A, samples(CacheState.COLD, 1.0, 2.0), samples(CacheState.HOT, 3.0)))
    client.records = numbered([timed(report=both), failed(B), timed(B)])
    assert client.run("export", "--timings", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema"] == 1
    assert [(one["id"], one["unit"], one["cache"]) for one in printed["timings"]] == [
        (1, A, "cold"),
        (1, A, "hot"),
        (2, B, ""),
        (3, B, "cold"),
    ]
    assert "times_us" not in printed["timings"][0]
    assert client.run("export", "--timings", "json", "--samples", "gemm/a") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [one["times_us"] for one in printed["timings"]] == [[1.0, 2.0], [3.0]]
    assert printed["timings"][0]["versions"] == {"driver": "0"}
    assert client.of("timing") == [(1,)]


def test_timings_as_csv(client: TimingClient, tmp_path: Path, capsys: Capture) -> None:
    client.records = numbered(
        [timed(), timed(B, parameters={"Other": "=1+1", "Swap": False}, sizes={"K": 3}), failed(B)]
    )
    assert client.run("export", "--timings", "csv", "--out", "ü 1.csv") == 0
    assert capsys.readouterr().out == f"wrote {tmp_path}/ü 1.csv\n"
    text = (tmp_path / "ü 1.csv").read_text(encoding="utf-8")
    first, second, failure = csv.DictReader(io.StringIO(text))
    assert (first["unit"], first["median_us"], first["sizes.M"], first["sizes.K"]) == (A, "100.0", "10", "")
    assert (first["parameters.Cluster"], first["parameters.Swap"], first["parameters.Pipe"]) == (
        "4 64 1", "true", "v3 ü",
    )  # fmt: skip
    assert (second["sizes.K"], second["parameters.Other"], second["parameters.Swap"]) == ("3", "'=1+1", "false")
    assert (second["tflops"], second["failure"]) == ("", "")
    assert (failure["failure"], failure["message"]) == ("wrong result", "it is wrong result")
    assert [path.name for path in tmp_path.iterdir()] == ["ü 1.csv"]


def test_no_timings_have_a_head_nevertheless(client: TimingClient, capsys: Capture) -> None:
    client.there = []
    assert client.run("export", "--timings", "csv") == 0
    assert capsys.readouterr().out.startswith("id,unit,kernel,")
    assert client.run("export", "--timings", "json") == 0
    assert json.loads(capsys.readouterr().out)["timings"] == []


def test_timings_of_one_unit_and_of_one_that_is_gone(client: TimingClient, capsys: Capture) -> None:
    client.records = numbered([timed(), timed(B), timed("gone/x@gfx942"), timed(shape="large")])
    for word, expected in (("gemm/a", [A, A]), ("gemm", [A, A, B]), ("gone/x@gfx942", ["gone/x@gfx942"])):
        assert client.run("export", "--timings", "json", word) == 0
        assert [one["unit"] for one in json.loads(capsys.readouterr().out)["timings"]] == expected
    assert client.run("export", "--timings", "json", "gemm/a", "--shape", "large") == 0
    assert [one["shape"] for one in json.loads(capsys.readouterr().out)["timings"]] == ["large"]
    assert client.run("export", "--timings", "json", "nobody") == 2


def test_a_file_that_cannot_be_written(client: TimingClient, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "folder").mkdir()
    for target in ("gone/x.csv", "folder"):
        assert client.run("export", "--timings", "csv", "--out", target) == 2
        assert f"cannot write {target}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_without_timings_a_module_is_exported(client: TimingClient, tmp_path: Path) -> None:
    given: list[Any] = []

    async def run_export(options: argparse.Namespace, _client: object, _output: object) -> int:
        given.append(options)
        return 7

    command = ["export", A, "--out", str(tmp_path), "--name", "gemm", "--arch", "gfx90a", "--json"]
    assert main(command, connected=connecting_to(client), export_module=run_export) == 7
    (options,) = given
    found = (options.unit, options.out, options.name, options.arch, options.json)
    assert found == (A, tmp_path, "gemm", ["gfx90a"], True)
