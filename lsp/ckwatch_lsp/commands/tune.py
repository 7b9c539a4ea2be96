"""`ckwatch.tune`: the best instance of a kernel for each shape, looked for in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from lsprotocol import types

from ckwatch.client import Client, connect
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.commands.arguments import CommandTargets
from ckwatch_lsp.commands.running_tasks import RunningTask, RunningTasks
from ckwatch_lsp.protocol.server import sentence_of
from ckwatch_lsp.session.documents import is_saved
from ckwatch_lsp.session.session import Session

if TYPE_CHECKING:
    from ckwatch.tuning.runner import Tuning

WRITE, STOP = "Write into the kernel file", "Stop"

SHAPES_SHOWN = 4
"""Of the shapes in a message; more are counted."""


OpenClient = Callable[[Path], AbstractAsyncContextManager[Client]]


def own_client(root: Path) -> AbstractAsyncContextManager[Client]:
    """A client beside the editor's, which sees no instance that is tried."""
    return connect(root, start=False, client_name="lsp tune")


class TuneCommand:
    """One run per kernel at a time. Cancelling the request or its progress ends the run; what it measured is kept, and
    the next run goes on from there."""

    def __init__(
        self, session: Session, targets: CommandTargets, tasks: RunningTasks, open_client: OpenClient = own_client
    ) -> None:
        self._session = session
        self._targets = targets
        self._tasks = tasks
        self._open_client = open_client
        self._running: dict[str, tuple[RunningTask, str]] = {}
        """By the paths of kernel files, with how far they are."""
        session.editor.add_command("ckwatch.tune", self.tune)

    async def tune(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Tune a kernel for all of its shapes: the best instance and its time for each, in µs.

        While that goes on, the user is asked whether it should stop. Raises CkwatchError.
        """
        folder, path, arch = await self._targets.kernel_file(argument)
        kernel = Path(path).name.removesuffix(".kernel.toml")
        if path in self._running:
            await self._ask_to_stop(path, kernel)
            return {"kernel": kernel, "running": path in self._running}
        root = folder.ready.root
        await self._check_saved(path, "what is tuned is the saved file")
        run: Tuning | None = None
        units = folder.units_at(path)
        with self._tasks.begin(f"Tuning {kernel}", folder, units, endless=True) as task:
            self._running[path] = (task, "")
            try:
                async with self._open_client(root) as client, client.tune(kernel, arch=arch) as run:
                    await self._follow(task, path, run)
            finally:
                del self._running[path]
        if run is not None:
            self._session.start(self._tell, path, run)
        best = {} if run is None else {shape: run.best(shape) for shape in run.record.run.shapes}
        return {
            "kernel": kernel, "running": False, "cancelled": task.cancelled,
            "measured": 0 if run is None else run.measured,
            "best": {
                shape: None if one is None else {"instance": one.instance, "time_us": one.median_us}
                for shape, one in best.items()
            },
        }  # fmt: skip

    async def _follow(self, task: RunningTask, path: str, run: Tuning) -> None:
        best: dict[str, str] = {}
        async for step in run:
            shape = step.result.shape
            if step.best and step.result.median_us is not None:
                best[shape] = f"{step.result.median_us:.4g} µs {step.point.instance}"
            words = f"{step.measured} measured, {shape}: {best.get(shape, 'nothing yet')}"
            self._running[path] = (task, words)
            task.report(words, 0, 0)

    async def _ask_to_stop(self, path: str, kernel: str) -> None:
        task, words = self._running[path]
        text = f"{kernel} is being tuned" + (f": {words}" if words else "")
        if await self._session.editor.choose(types.MessageType.Info, text, (STOP,)) == STOP:
            task.scope.cancel()

    async def _check_saved(self, path: str, why: str) -> None:
        for document in self._session.documents.at(path):
            if not await to_thread.run_sync(is_saved, path, document.text):
                raise CkwatchError(f"{Path(path).name} has unsaved changes: {why}", "Save it, and try again.")

    async def _tell(self, path: str, run: Tuning) -> None:
        """Show the result; with an action that writes it down, until that is done or the user dismisses it."""
        text, found = summary(run)
        if not found:
            kind = types.MessageType.Warning if run.ended else types.MessageType.Info
            self._session.editor.show_message(kind, text)
            return
        if not unwritten(run):
            self._session.editor.show_message(types.MessageType.Info, text)
            return
        kind = types.MessageType.Info
        while await self._session.editor.choose(kind, text, (WRITE,)) == WRITE:
            try:
                await self._check_saved(path, "the winners would be lost with the next save")
                written = await run.write_winners()
            except CkwatchError as error:
                kind, text = types.MessageType.Warning, sentence_of(error)
                continue
            what = f"wrote {', '.join(written)} to" if written else "all winners are in"
            self._session.editor.show_message(types.MessageType.Info, f"{what} {Path(path).name}")
            return


def unwritten(run: Tuning) -> list[str]:
    """The instances of the smallest set that the kernel file did not have when the run began."""
    chosen, present = run.dispatch_set(), {instance.name for instance in run.tuned.kernel.instances}
    return [] if chosen is None else [name for name in dict.fromkeys(chosen.instances) if name not in present]


def summary(run: Tuning) -> tuple[str, bool]:
    """`tuned gemm: square 301.4 µs with s_128_64; …`, and whether anything was found; a run that did not end says how
    far it got."""
    record = run.record
    best = {shape: run.best(shape) for shape in record.run.shapes}
    words = [
        f"{shape} " + ("none" if one is None else f"{one.median_us:.4g} µs with {one.instance}")
        for shape, one in best.items()
    ]
    more = len(words) - SHAPES_SHOWN
    shown = "; ".join([*words[:SHAPES_SHOWN], *([f"and {count(more, 'more shape')}"] if more > 0 else [])])
    if run.ended:
        text = f"tuned {record.run.kernel}: {shown}"
    else:
        text = f"tuning {record.run.kernel} was stopped after {count(run.measured, 'measurement')}: {shown}"
    found = any(one is not None for one in best.values())
    return (text if found else f"{text}. {_why_none(run)}".rstrip()), found


def _why_none(run: Tuning) -> str:
    reasons = [result.reason for point in run.record.points for result in point.results if result.reason]
    return reasons[-1].partition("\n")[0] if reasons else ""
