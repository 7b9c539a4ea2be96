"""`ckwatch.tune`, with a run that finds what the test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from lsprotocol import types

from cases.tuning_spaces import record
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch.tuning.dispatch import DispatchSet, dispatch_set
from ckwatch.tuning.plan import TuningStep
from ckwatch.tuning.results import BestInstance, EvaluatedPoint, EvaluationStatus, ShapeResult, TuningRecord
from ckwatch_lsp.commands.arguments import CommandTargets
from ckwatch_lsp.commands.running_tasks import RunningTasks
from ckwatch_lsp.commands.tune import STOP, WRITE, TuneCommand
from ckwatch_lsp.session.folders import WorkspaceFolder
from lsp.figures.desk import Desk, desk
from lsp.figures.made_up import unit

KERNEL_FILE = '[[sweep]]\nname = "s"\ntune = true\nparameters = { Tile = [1, 2] }\n'
NAMED = {"unit": "k/one@gfx942"}
FAILED = ShapeResult(shape="square", status=EvaluationStatus.COMPILE_FAILED, reason="no MFMA\nfor this")


def measured(median_us: float, shape: str = "square") -> ShapeResult:
    return ShapeResult(shape=shape, status=EvaluationStatus.MEASURED, median_us=median_us)


class MadeUpTuning:
    """A run that finds these results, one for each instance `s_1`, `s_2`, …; where `endless`, it never ends."""

    def __init__(self, *results: ShapeResult, shapes: tuple[str, ...] = ("square",), endless: bool = False) -> None:
        self.tuned = SimpleNamespace(kernel=SimpleNamespace(instances=[SimpleNamespace(name="s_3")]))
        self.ended = ""
        self.points: list[EvaluatedPoint] = []
        self.error: CkwatchError | None = None
        self.waits = anyio.Event()
        self.written = 0
        self.refused = 0
        self._results = results
        self._shapes = shapes
        self._endless = endless

    @property
    def measured(self) -> int:
        return len(self.points)

    @property
    def record(self) -> TuningRecord:
        return record(*self.points, shapes=self._shapes)

    def best(self, shape: str) -> BestInstance | None:
        return self.record.best(shape)

    def dispatch_set(self) -> DispatchSet | None:
        times = {shape: own for shape, own in self.record.times().items() if own}
        return dispatch_set(times) if times else None

    async def write_winners(self) -> list[str]:
        self.written += 1
        if self.written <= self.refused:
            raise CkwatchError("it is not taken", "mend it")
        return ["s_1"]

    async def __aiter__(self) -> AsyncIterator[TuningStep]:
        for number, result in enumerate(self._results, 1):
            point = EvaluatedPoint(
                order=number, seconds=0.0, instance=f"s_{number}", parameters={}, results=(result,), device="hip:0"
            )
            self.points.append(point)
            best = self.best(result.shape)
            is_best = best is not None and best.instance == point.instance
            yield TuningStep(point, result, is_best, known=False, measured=number, seconds=0.0)
        if self._endless:
            self.waits.set()
            await anyio.sleep_forever()
        if self.error is not None:
            raise self.error
        self.ended = "the whole space was tried"


class TuningClients:
    """Clients of a daemon that has one run. `asked` are the kernels with the archs that they were tuned for."""

    def __init__(self, run: MadeUpTuning) -> None:
        self.run = run
        self.asked: list[tuple[str, str | None]] = []

    @asynccontextmanager
    async def tune(self, kernel: str, *, arch: str | None) -> AsyncIterator[MadeUpTuning]:
        self.asked.append((kernel, arch))
        yield self.run

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Client]:
        yield cast("Client", self)

    def __call__(self, _root: Path) -> AbstractAsyncContextManager[Client]:
        return self.open()


def commands(made: Desk, run: MadeUpTuning) -> TuningClients:
    clients = TuningClients(run)
    session, editor = made.session, made.editor
    session.editor = editor
    TuneCommand(session, CommandTargets(session, made.active), RunningTasks(session), clients)
    return clients


async def tune(made: Desk, argument: dict[str, Any] = NAMED) -> Any:
    answer = await made.editor.commands["ckwatch.tune"](argument)
    await made.settle()
    return answer


def shown(made: Desk, what: str) -> list[tuple[object, ...]]:
    return [call[1:] for call in made.editor.calls if call[0] == what]


async def test_what_was_found_is_told_and_written_down() -> None:
    run = MadeUpTuning(measured(301.44), FAILED, measured(400.0))
    async with desk() as made:
        clients = commands(made, run)
        await made.report(unit())
        assert await tune(made) == {
            "kernel": "k", "running": False, "cancelled": False, "measured": 3,
            "best": {"square": {"instance": "s_1", "time_us": 301.44}},
        }  # fmt: skip
        assert clients.asked == [("k", "gfx942")]
        assert shown(made, "choose") == [(types.MessageType.Info, "tuned k: square 301.4 µs with s_1", (WRITE,))]
        assert shown(made, "show_message") == [(types.MessageType.Info, "wrote s_1 to k.kernel.toml")]
        assert run.written == 1


async def test_nothing_is_written_that_is_not_wanted() -> None:
    run = MadeUpTuning(measured(301.44))
    async with desk() as made:
        commands(made, run)
        await made.report(unit())
        made.editor.choices = [None]
        await tune(made)
        assert run.written == 0


async def test_progress_says_what_is_best_so_far() -> None:
    run = MadeUpTuning(FAILED, measured(300.0), measured(310.0), endless=True)
    async with desk() as made, anyio.create_task_group() as tasks:
        commands(made, run)
        await made.report(unit())
        tasks.start_soon(tune, made)
        await run.waits.wait()
        await made.settle()
        [(_, begun, cancel)] = shown(made, "begin_progress")
        assert isinstance(begun, types.WorkDoneProgressBegin)
        assert (begun.title, begun.percentage) == ("Tuning k", None)
        assert begun.message == "3 measured, square: 300 µs s_2"
        cast("Any", cancel)()
    assert shown(made, "choose") == [
        (types.MessageType.Info, "tuning k was stopped after 3 measurements: square 300 µs with s_2", (WRITE,))
    ]


@pytest.mark.parametrize("choice", [None, STOP])
async def test_one_run_at_a_time_which_the_second_may_stop(choice: str | None) -> None:
    run = MadeUpTuning(measured(300.0), endless=True)
    async with desk() as made, anyio.create_task_group() as tasks:
        clients = commands(made, run)
        await made.report(unit())
        tasks.start_soon(tune, made)
        await run.waits.wait()
        made.editor.choices = [choice]
        await tune(made)
        assert shown(made, "choose")[0] == (
            types.MessageType.Info, "k is being tuned: 1 measured, square: 300 µs s_1", (STOP,)
        )  # fmt: skip
        assert len(shown(made, "choose")) == (1 if choice is None else 2)
        assert clients.asked == [("k", "gfx942")]
        tasks.cancel_scope.cancel()


async def test_the_winner_that_the_file_has_is_not_offered() -> None:
    async with desk() as made:
        commands(made, MadeUpTuning(measured(300.0), measured(290.0), measured(200.0)))
        await made.report(unit())
        await tune(made)
        assert shown(made, "show_message") == [(types.MessageType.Info, "tuned k: square 200 µs with s_3")]
        assert shown(made, "choose") == []


async def test_a_kernel_that_nothing_could_be_timed_of() -> None:
    async with desk() as made:
        commands(made, MadeUpTuning(FAILED))
        await made.report(unit())
        assert (await tune(made))["best"] == {"square": None}
        assert shown(made, "show_message") == [(types.MessageType.Warning, "tuned k: square none. no MFMA")]


async def test_many_shapes_are_counted() -> None:
    shapes = tuple("abcdef")
    async with desk() as made:
        commands(made, MadeUpTuning(*(measured(100.0, shape) for shape in shapes), shapes=shapes))
        await made.report(unit())
        await tune(made)
        text = str(shown(made, "choose")[0][1])
        assert text.endswith("; d 100 µs with s_4; and 2 more shapes")


async def test_errors_end_the_run_and_another_may_follow() -> None:
    run = MadeUpTuning(measured(300.0))
    run.error = CkwatchError("the device has gone", "plug it in")
    async with desk() as made:
        clients = commands(made, run)
        await made.report(unit())
        for _ in range(2):
            with pytest.raises(CkwatchError, match="the device has gone"):
                await tune(made)
        assert len(clients.asked) == 2
        assert shown(made, "choose") == []


async def test_a_file_that_does_not_take_the_winners_is_asked_about_again() -> None:
    run = MadeUpTuning(measured(300.0))
    run.refused = 1
    async with desk() as made:
        commands(made, run)
        await made.report(unit())
        await tune(made)
        assert shown(made, "choose")[1] == (types.MessageType.Warning, "it is not taken. mend it.", (WRITE,))
        assert run.written == 2


def opened(made: Desk, root: Path) -> str:
    """A kernel file without units in a workspace."""
    (root / "k.kernel.toml").write_text(KERNEL_FILE)
    made.session.folders[root] = WorkspaceFolder(root, made.session.on_daemon_change)
    made.session.folders[root].client = cast("Client", made.client)
    return made.open(str(root / "k.kernel.toml"), KERNEL_FILE)


async def test_a_file_without_units_is_tuned(tmp_path: Path) -> None:
    async with desk() as made:
        clients = commands(made, MadeUpTuning(measured(300.0)))
        await tune(made, {"uri": opened(made, tmp_path)})
        assert clients.asked == [("k", None)]


async def test_what_is_not_saved_is_not_tuned_and_not_written_over(tmp_path: Path) -> None:
    run = MadeUpTuning(measured(300.0))
    async with desk() as made:
        clients = commands(made, run)
        uri = opened(made, tmp_path)
        await made.change(uri, "# changed\n" + KERNEL_FILE)
        with pytest.raises(CkwatchError, match=r"k\.kernel\.toml has unsaved changes: what is tuned is the saved file"):
            await tune(made, {"uri": uri})
        assert clients.asked == []
        await made.change(uri, KERNEL_FILE)
        made.editor.choices = [WRITE, None]
        await made.editor.commands["ckwatch.tune"]({"uri": uri})
        await made.change(uri, "# changed\n" + KERNEL_FILE)
        await made.settle()
        kind, text, titles = shown(made, "choose")[-1]
        assert (kind, titles) == (types.MessageType.Warning, (WRITE,))
        assert str(text).startswith("k.kernel.toml has unsaved changes")
        assert run.written == 0


async def test_there_is_no_daemon() -> None:
    async with desk() as made:
        clients = commands(made, MadeUpTuning())
        await made.report(unit())
        made.folder.client = None
        with pytest.raises(CkwatchError, match="there is no daemon for /ws yet"):
            await tune(made)
        assert clients.asked == []


async def test_a_file_of_no_workspace() -> None:
    async with desk() as made:
        commands(made, MadeUpTuning())
        uri = made.open("/elsewhere/k.kernel.toml", KERNEL_FILE)
        with pytest.raises(CkwatchError, match="belongs to no workspace"):
            await tune(made, {"uri": uri})
