"""The view of tuning runs: what it shows of a run, and which runs it begins and stops."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from benches.timed_units import HOSTILE, feed_of, unit_row
from cases.tuning_spaces import evaluated, record, run_of, tiles
from ckwatch import CkwatchError
from ckwatch.tuning.report import MOST_LINES
from ckwatch.tuning.results import EvaluationStatus, TuningRecord, TuningRun
from ckwatch.tuning.space import coverage
from ckwatch_web.content import PLACE, UNIT, Action, Block, Choice, Content, Facts, Note, Plot, Table, csv_text
from ckwatch_web.feed import Feed
from ckwatch_web.places import TextPlace
from ckwatch_web.static_html import page
from ckwatch_web.view import Query
from ckwatch_web.views import tuning
from ckwatch_web.views.tuning_run import MOST_POINTS, Texts, blocks_of, coordinates, importance, progress

TEXTS = Texts(units={}, kernel_file=TextPlace("/w/k.kernel.toml", 0))


FOUND = record(
    evaluated(1, {"M": 16, "p": "v1", "same": 7}, {"s": 20.0, "t": 3.0}),
    evaluated(2, {"M": 32, "p": "v3", "same": 7}, {"s": 10.0, "t": EvaluationStatus.WRONG}, reason="differs: at 3"),
    evaluated(3, {"M": 64, "p": "v3", "same": 7}, {"s": EvaluationStatus.COMPILE_FAILED}, reason="no LDS: 70000"),
    shapes=("s", "t"), seconds=60.0, coverage=coverage(tiles(), random.Random(1)),  # noqa: S311
)  # fmt: skip


def table(blocks: tuple[Block, ...], key: str) -> Table:
    return next(block for block in blocks if isinstance(block, Table) and block.key == key)


def plot(blocks: tuple[Block, ...], key: str) -> Plot:
    return next(block for block in blocks if isinstance(block, Plot) and block.key == key)


def facts(blocks: tuple[Block, ...], key: str) -> Mapping[str, str]:
    return dict(next(block for block in blocks if isinstance(block, Facts) and block.key == key).facts)


# A run.


def test_all_that_was_evaluated_on_a_shape_is_a_row() -> None:
    rows = table(blocks_of(FOUND, "s", TEXTS), "points").rows
    assert [(row["instance"], row["status"], row["median"], row["ratio"]) for row in rows] == [
        ("i1", "measured", 20.0, 2.0),
        ("i2", "measured", 10.0, 1.0),
        ("i3", "compile-failed", None, None),
    ]
    assert (rows[2]["reason"], rows[2]["parameter M"], rows[2]["parameter p"]) == ("no LDS: 70000", 64, "v3")
    assert "parameter same" not in rows[0]
    assert [row["instance"] for row in table(blocks_of(FOUND, "t", TEXTS), "points").rows] == ["i1", "i2"]


def test_a_csv_has_parameters_and_places() -> None:
    lines = csv_text(table(blocks_of(FOUND, "s", TEXTS), "points")).splitlines()
    assert lines[0] == (
        'number,instance,to the best,"median, µs","from, µs","to, µs",status,M,p,reason,"after, s",device,place'
    )
    assert lines[2] == "2,i2,1.0,10.0,9.9,10.1,measured,32,v3,,4.0,,/w/k.kernel.toml:1:1"


def test_an_instance_of_the_workspace_is_its_unit() -> None:
    unit = unit_row("i2")
    texts = Texts(units={unit.id: unit}, kernel_file=TextPlace("/w/k.kernel.toml", 0))
    first, second, *_ = table(blocks_of(FOUND, "s", texts), "points").rows
    assert (first[UNIT], first[PLACE]) == (None, "/w/k.kernel.toml:1:1")
    assert (second[UNIT], second[PLACE]) == (unit.id, unit.place)


def test_the_best_of_each_shape_has_an_interval_and_a_confidence() -> None:
    found = record(*FOUND.points, problems={"s": {"M": 64}, "t": {"M": 1}, "u": {}})
    first, second, third = table(blocks_of(found, "s", TEXTS), "best").rows
    assert (first["instance"], first["median"], first["low"], first["high"]) == ("i2", 10.0, 9.9, 10.1)
    assert first["confidence"] == pytest.approx(100.0)
    assert (first["next"], first["next_us"], first["problem"]) == ("i1", 20.0, "M=64")
    assert (second["instance"], second["confidence"], second["next"]) == ("i1", None, "")
    assert third["instance"] == "nothing was measured"


def test_what_holds_for_the_whole_run_is_a_fact() -> None:
    blocks = blocks_of(FOUND, "s", TEXTS)
    found = facts(blocks, "run")
    assert found["evaluated"] == "3 instances of 128"
    assert (found["failed"], found["budget"], found["device"]) == ("2", "10 min", "MI300X: hip:0, hip:1")
    assert "measurements at most" not in found
    assert facts(blocks, "constants") == {"same": "7"}


def test_failures_and_what_was_left_out_have_reasons_and_examples() -> None:
    blocks = blocks_of(FOUND, "s", TEXTS)
    assert [
        (row["status"], row["times"], row["reason"], row["instance"]) for row in table(blocks, "failures").rows
    ] == [
        ("wrong", 1, "differs: at 3", "i2"),
        ("compile-failed", 1, "no LDS: 70000", "i3"),
    ]
    refused = table(blocks, "refused").rows
    assert refused[0]["rule"] == "`M >= N`"
    assert refused[0]["share"] == pytest.approx(100 * 56 / 128)
    gone = table(blocks, "gone").rows
    assert [(row["parameter"], row["value"]) for row in gone] == [("N", "32"), ("N", "64"), ("N", "128")]
    assert {row["sure"] for row in gone} == {"all points were tried"}


def test_the_best_so_far_falls_in_steps() -> None:
    by_evaluation, by_time = progress(FOUND, "s")
    for drawn, places in ((by_evaluation, [1, 2, 3]), (by_time, [2.0, 4.0, 60.0])):
        stairs, measured, _ = drawn.option["series"]
        assert [one["value"] for one in stairs["data"]] == [
            [at, us] for at, us in zip(places, (20, 10, 10), strict=True)
        ]
        assert stairs["step"] == "end"
        assert len(measured["data"]) == 2
        assert drawn.option["yAxis"]["type"] == "log"
    assert "From 20.00 µs to 10.00 µs in 2 steps; the best, i2, is number 2 of 3" in by_time.summary


def test_far_slower_ones_do_not_press_the_best_together() -> None:
    found = record(*(evaluated(at, {"M": at}, {"s": us}) for at, us in enumerate((10.0, 9.0, 900.0), 1)))
    drawn, _ = progress(found, "s")
    assert drawn.option["yAxis"]["max"] < 30
    assert "1 above 27.00 µs are not drawn" in drawn.summary


def test_parallel_coordinates_have_the_time_at_last() -> None:
    (drawn,) = coordinates(FOUND, "s")
    names = [one["name"] for one in drawn.option["parallelAxis"]]
    assert names == ["M", "p", "time, µs"]
    assert drawn.option["parallelAxis"][1]["data"] == ["v3", "v1"]
    lines = drawn.option["series"][0]["data"]
    assert [(one["name"], one["value"][:3]) for one in lines] == [
        ("i1: 20.00 µs", [0, 1, 20.0]),
        ("i2: 10.00 µs", [1, 0, 10.0]),
    ]


@pytest.mark.parametrize(
    "found",
    [
        record(),
        record(evaluated(1, {"M": 1}, {"s": EvaluationStatus.HUNG}, reason="hung")),
        record(evaluated(1, {}, {"other": 5.0})),
    ],
)
def test_before_there_is_a_time_there_is_no_picture(found: TuningRecord) -> None:
    blocks = blocks_of(found, "s", TEXTS)
    assert not [block.key for block in blocks if isinstance(block, Plot)]
    assert table(blocks, "best").rows[0]["instance"] == "nothing was measured"


def test_equal_times_are_drawn() -> None:
    found = record(*(evaluated(at, {"M": at}, {"s": 5.0}) for at in (1, 2)))
    (drawn,) = coordinates(found, "s")
    colours = drawn.option["visualMap"]
    assert colours["min"] < colours["max"]
    assert len(progress(found, "s")) == 2


def test_thousands_of_instances_are_rows_and_some_are_drawn() -> None:
    rng = random.Random(1)  # noqa: S311  # made-up times
    points = [
        evaluated(at, {f"p{one}": rng.choice((1, 2, 4)) for one in range(12)}, {"s": 100 + rng.random()})
        for at in range(1, 5001)
    ]
    found = record(*points)
    blocks = blocks_of(found, "s", TEXTS)
    assert len(table(blocks, "points").rows) == 5000
    assert len(table(blocks, "points").columns) <= 22
    lines = plot(blocks, "parallel")
    assert len(lines.option["series"][0]["data"]) == MOST_LINES
    assert f"The fastest {MOST_LINES} of 5,000 are drawn" in lines.summary
    steps = plot(blocks, "by-evaluation")
    assert sum(len(one["data"]) for one in steps.option["series"][1:]) == MOST_POINTS
    assert f"the last {MOST_POINTS:,} are drawn" in steps.summary
    assert len(importance(found)[0].option["series"][0]["data"]) == 12


def test_a_name_is_text() -> None:
    points = [
        evaluated(at, {HOSTILE: f"{HOSTILE}{at}"}, {HOSTILE: float(at)}, instance=HOSTILE, reason=HOSTILE)
        for at in (1, 2)
    ]
    failed = evaluated(3, {HOSTILE: HOSTILE}, {HOSTILE: EvaluationStatus.CRASHED}, reason=HOSTILE)
    run = run_of(kernel=HOSTILE, problems={HOSTILE: {"M": 1}}, error=HOSTILE, device=HOSTILE, ended="")
    blocks = blocks_of(replace(record(*points, failed), run=run), HOSTILE, TEXTS)
    chosen = tuning.chosen_of({}, [run], [], {})
    head = (chosen.kernel, chosen.runs, *tuning.actions_of(chosen), tuning.state_of(chosen))
    text = page(Content(title=HOSTILE, blocks=(*head, *blocks)), "Tuning", menu=[], others=[], csv_of={})
    assert "<img" not in text
    for block in blocks:
        if isinstance(block, Plot):
            assert not any(key.startswith(":") for key in _keys(block.option))
            assert block.option["tooltip"]["renderMode"] == "richText"


def _keys(option: Any) -> list[str]:
    if isinstance(option, Mapping):
        return [*option, *(key for one in option.values() for key in _keys(one))]
    return [key for one in option for key in _keys(one)] if isinstance(option, list | tuple) else []


def test_options_are_json() -> None:
    for block in blocks_of(FOUND, "s", TEXTS):
        if isinstance(block, Plot):
            json.dumps(block.option, allow_nan=False)


# Which run.


RUNS = [
    run_of(4, kernel="b", ended="", running=True),
    run_of(3, kernel="a", ended="", resumable=False),
    run_of(2, kernel="a", ended="", error="no device"),
    run_of(1, kernel="a"),
]


@pytest.mark.parametrize(
    ("query", "kernel", "run"),
    [
        ({}, "b", 4),
        ({"kernel": "a"}, "a", 3),
        ({"run": "1"}, "a", 1),
        ({"kernel": "b", "run": "4"}, "b", 4),
        ({"kernel": "untuned"}, "untuned", None),
    ],
)
def test_the_newest_run_is_shown_unless_the_address_says_another(query: Query, kernel: str, run: int | None) -> None:
    chosen = tuning.chosen_of(query, RUNS, ["a", "untuned"], {})
    assert chosen.kernel.value == kernel
    assert list(chosen.kernel.options) == ["a", "b", "untuned"]
    assert (None if chosen.run is None else chosen.run.id) == run


@pytest.mark.parametrize(
    ("query", "label", "enabled", "words"),
    [
        ({"run": "4"}, "Resume run 4", False, "Running in another process: Ctrl-C"),
        ({"run": "3"}, "Resume run 3", False, "Only the program that gave its instances"),
        ({"run": "2"}, "Resume run 2", True, "Interrupted by an error: no device. `ckwatch tune a`"),
        ({"run": "1"}, "Another run like 1", True, "Ended: the budget is used up."),
        ({"kernel": "c"}, "Resume", False, "c has not been tuned. `ckwatch tune c`"),
    ],
)
def test_what_can_be_done_about_a_run(query: Query, label: str, enabled: bool, words: str) -> None:
    chosen = tuning.chosen_of(query, RUNS, ["c"], {})
    actions = {block.key: block for block in tuning.actions_of(chosen) if isinstance(block, Action)}
    assert (actions["resume"].label, actions["resume"].enabled) == (label, enabled)
    assert actions["tune"].enabled
    assert not actions["stop"].enabled
    assert words in tuning.state_of(chosen).text


def test_all_that_changes_something_is_only_there_where_that_is_allowed() -> None:
    blocks = tuning.actions_of(tuning.chosen_of({}, RUNS, [], {}))
    assert all(isinstance(block, Action | Choice) and block.changes for block in blocks)


# Beginning and stopping.


class Journal:
    """A client with runs, one of which goes on as long as `tune` is open."""

    def __init__(self, *runs: TuningRun) -> None:
        self.runs = list(runs)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.problem: Exception | None = None
        self.finished = anyio.Event()

    async def tuning_runs(self) -> list[TuningRun]:
        return self.runs

    async def tuning_record(self, _number: int) -> TuningRecord:
        return FOUND

    async def workspace(self) -> Any:
        return SimpleNamespace(kernel_names={"/w/k.kernel.toml": "k"})

    @asynccontextmanager
    async def tune(self, kernel: str, **options: Any) -> AsyncIterator[Any]:
        self.asked.append((kernel, options))
        if self.problem is not None:
            raise self.problem
        yield SimpleNamespace(id=7, finish=self.finished.wait)

    @asynccontextmanager
    async def tuning_changes(self) -> AsyncIterator[AsyncIterator[None]]:
        send, receive = anyio.create_memory_object_stream[None]()
        async with send, receive:  # nothing comes
            yield receive


@asynccontextmanager
async def serving(journal: Journal) -> AsyncIterator[Feed]:
    """A feed that owns jobs and follows no daemon."""
    feed = Feed(cast("Any", journal))
    feed._follow = anyio.sleep_forever  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.run)
        await anyio.lowlevel.checkpoint()
        yield feed
        tasks.cancel_scope.cancel()


async def shown(feed: Feed, **query: str) -> tuple[Block, ...]:
    return (await tuning.show(feed, query)).blocks


def action(blocks: tuple[Block, ...], key: str) -> Action:
    return next(block for block in blocks if isinstance(block, Action) and block.key == key)


def state(blocks: tuple[Block, ...]) -> Note:
    return next(block for block in blocks if isinstance(block, Note) and block.key == "state")


async def test_a_run_is_resumed_with_its_options_and_stopped() -> None:
    run = run_of(7, ended="")
    journal = Journal(run)
    async with serving(journal) as feed:
        before = tuning.depends(feed, {})
        assert "run 7 goes on" in await tuning.resume(feed, {})
        assert journal.asked == [
            (
                "k",
                {
                    "shapes": ("s",), "arch": "gfx942", "devices": ("hip:0", "hip:1"), "strategy": "local", "seed": 1,
                    "budget_s": 600.0, "measurements": None, "patience": 40, "racing": True, "jobs": None,
                },
            )
        ]  # fmt: skip
        assert tuning.depends(feed, {}) != before
        journal.runs = [run_of(7, ended="", running=True)]
        blocks = await shown(feed)
        assert "begun on this page" in state(blocks).text
        assert action(blocks, "stop").enabled
        assert not action(blocks, "tune").enabled
        with pytest.raises(CkwatchError, match="goes on already"):
            await tuning.tune(feed, {})
        assert await tuning.stop(feed, {}) == "run 7 is stopped, and can be resumed"
        journal.runs = [run]
        assert action(await shown(feed), "resume").enabled
        with pytest.raises(CkwatchError, match="runs none"):
            await tuning.stop(feed, {})


@pytest.mark.parametrize(("budget", "seconds"), [({}, 1200.0), ({"budget": "300"}, 300.0), ({"budget": "none"}, None)])
async def test_a_first_run_has_a_budget(budget: Query, seconds: float | None) -> None:
    journal = Journal()
    async with serving(journal) as feed:
        feed.connected = True
        assert "k has not been tuned" in state(await shown(feed)).text
        await tuning.tune(feed, budget)
        assert journal.asked == [("k", {"budget_s": seconds})]
        journal.finished.set()
        await feed.jobs[tuning.job_name("k")].ended.wait()
        assert feed.jobs[tuning.job_name("k")].error is None


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (CkwatchError("no device", "plug one in"), "no device (plug one in)"),
        (RuntimeError("oops"), "a mistake in ckwatch"),
    ],
)
async def test_a_run_that_fails_says_why(problem: Exception, words: str) -> None:
    journal = Journal(run_of())
    journal.problem = problem
    async with serving(journal) as feed:
        with pytest.raises(CkwatchError, match=words.partition(" (")[0]):
            await tuning.tune(feed, {})
        note = state(await shown(feed))
        assert words in note.text
        assert note.kind == "error"
        assert action(await shown(feed), "tune").enabled


async def test_a_run_of_the_page_ends_with_its_server() -> None:
    async with serving(Journal(run_of())) as feed:
        await tuning.tune(feed, {})
        job = feed.jobs[tuning.job_name("k")]
        assert not job.ended.is_set()
    assert job.ended.is_set()
    assert job.error is None


async def test_without_kernels_the_view_says_how_to_get_one() -> None:
    (note,) = (block for block in await shown(feed_of([], tuning_runs=[])) if isinstance(block, Note))
    assert "`ckwatch init`" in note.text
