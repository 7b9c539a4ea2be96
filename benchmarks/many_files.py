"""10,000 files changed at once, by another process, as `git checkout` does: all templates, all kernel files, and 8,000
others of the workspace.

Goals: one batch, acted upon in under 2 s from the last write (every affected unit is being rendered or waits for it),
the event loop never blocked for over 20 ms. The alternative is watchfiles.awatch as it comes, which only tells of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import anyio
import watchfiles

from benchmarks.choosing import alone, asked_runs
from benchmarks.large_workspace import (
    OTHERS,
    TEMPLATES,
    UNITS,
    LargeWorkspace,
    large_workspace,
    machine_of,
    runtime_of,
    until_at_rest,
)
from benchmarks.lateness import lateness
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.core.events import AnyEvent, FilesChanged
from ckwatch.core.files import is_quiet
from ckwatch.core.phases import Phase
from ckwatch.core.state import State
from ckwatch.engine.answers import Daemon
from ckwatch.engine.watch import Batch
from ckwatch.engine.watched_files import ChangeReporter
from ckwatch.system.async_processes import ProcessResult

MEASURED_CODE = DAEMON_CODE

FILES = 2 * TEMPLATES + OTHERS
LIMIT_S = 120

# Each file is removed and made again, as git does; the moments of the first and the last are told.
CHECKOUT = """
import os, sys, time
texts = {}
for line in open(sys.argv[1]):
    path = line.rstrip("\\n")
    with open(path) as file:
        text = file.read()
    if "edited = " in text:
        before, _, after = text.partition("edited = ")
        text = f"{before}edited = {sys.argv[2]};{after.partition(';')[2]}"
    else:
        text += "# once more\\n"
    texts[path] = text
print(time.monotonic())
for path, text in texts.items():
    os.unlink(path)
    with open(path, "w") as file:
        file.write(text)
print(time.monotonic())
"""


class Watching:
    """Events sent to the daemon, and when it had acted upon each."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.news = 0
        self.quiet_s = 0.0
        self.delivered_s = 0.0

    @property
    def over_s(self) -> float:
        """When all was acted upon, by the monotonic clock; 0 while it is not."""
        return max(self.quiet_s, self.delivered_s) if self.quiet_s and sum(self.batches) >= FILES else 0.0

    @contextmanager
    def batches_noted(self) -> Iterator[None]:
        """Note what the watcher of a daemon that is opened inside tells of."""
        deliver = ChangeReporter.deliver

        async def delivered(changes: ChangeReporter, batch: Batch) -> None:
            await deliver(changes, batch)
            self.batches.append(len(batch.paths))
            self.delivered_s = time.monotonic()

        with mock.patch.object(ChangeReporter, "deliver", delivered):
            yield

    @contextmanager
    def of(self, daemon: Daemon) -> Iterator[None]:
        """Note `FilesChanged`, and the first step after which nothing is left to act upon."""
        runtime = runtime_of(daemon)
        step = runtime._step

        def stepped(event: AnyEvent) -> bool:
            if isinstance(event, FilesChanged):
                self.news += 1
                self.quiet_s = 0.0
            more = step(event)
            if self.news and not self.quiet_s and is_quiet(runtime.state):
                self.quiet_s = time.monotonic()
            return more

        with mock.patch.object(runtime, "_step", stepped):
            yield


async def checkout(paths: list[Path], folder: Path) -> tuple[float, float]:
    """Change the files; the moments of the first and the last write."""
    names = anyio.Path(folder / "checkout.txt")
    await names.write_text("".join(f"{path}\n" for path in paths))
    stamp = str(time.time_ns())
    done = await anyio.run_process([sys.executable, "-S", "-c", CHECKOUT, str(names), stamp])
    began, wrote = done.stdout.split()
    return float(began), float(wrote)


async def never_ending(*_: object, **__: object) -> ProcessResult:
    """A compiler that takes its time, as hipcc does."""
    await anyio.sleep_forever()
    raise AssertionError


def waiting(state: State) -> int:
    """Units that have not been rendered since the change."""
    return sum(unit.phase in (Phase.WAITING, Phase.RENDERING) for unit in state.main.units.values())


async def ours(workspace: LargeWorkspace, paths: list[Path]) -> tuple[float, Watching, float]:
    """Seconds from the last write until all is acted upon, what was told, and the event loop's longest pause in ms."""
    watching = Watching()
    with watching.batches_noted():
        async with workspace.open(never_ending) as daemon, lateness() as late:
            await until_at_rest(daemon)
            with watching.of(daemon), anyio.fail_after(LIMIT_S):
                watching.batches.clear()
                began_s, wrote_s = await checkout(paths, workspace.folder)
                while not watching.over_s:
                    await anyio.sleep(0.1)
                await anyio.sleep(1)  # and nothing comes after it
                took_s = watching.over_s - wrote_s
                print(f"writing {FILES} files took {wrote_s - began_s:.1f} s; told in batches of {watching.batches}")
                print(f"acted upon {took_s:.2f} s after the last write; longest step of the machine "
                      f"{runtime_of(daemon).longest_step_s * 1e3:.1f} ms")  # fmt: skip
                print(f"event loop blocked: {late.described(began_s)}")
                longest_ms = late.longest_ms(began_s)
                state = machine_of(daemon)
                while waiting(state):
                    await anyio.sleep(0.1)
                print(f"all {UNITS} units rendered {time.monotonic() - wrote_s:.1f} s after the last write")
    return took_s, watching, longest_ms


async def theirs(workspace: LargeWorkspace, paths: list[Path]) -> float:
    """Seconds from the last write until watchfiles has told of all."""
    expected, told, batches = {str(path) for path in paths}, set[str](), 0
    last_s = 0.0

    async def watch() -> None:
        nonlocal batches, last_s
        async for changes in watchfiles.awatch(workspace.root):
            told.update(path for _, path in changes)
            batches += 1
            last_s = time.monotonic()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.sleep(2)
        _, wrote_s = await checkout(paths, workspace.folder)
        with anyio.fail_after(LIMIT_S):
            while not expected <= told:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    print(f"watchfiles.awatch: {batches} batches, all told {last_s - wrote_s:.2f} s after the last write")
    return last_s - wrote_s


def measure() -> list[Row]:
    """Three rows."""
    workspace = large_workspace()
    paths = [workspace.template(number) for number in range(TEMPLATES)]
    paths += [workspace.kernel_file(number) for number in range(TEMPLATES)]
    paths += [workspace.other(number) for number in range(OTHERS)]
    texts = [path.read_text() for path in paths]
    took_s, batches, longest_ms, others_s = [], [], [], []
    try:
        for _ in range(asked_runs()):
            seconds, watching, pause_ms = anyio.run(ours, workspace, paths)
            took_s.append(seconds)
            batches.append(float(watching.news))
            longest_ms.append(pause_ms)
            others_s.append(anyio.run(theirs, workspace, paths))
    finally:
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
    name = "watchfiles.awatch as it comes, telling only"
    return [
        row(
            f"{FILES} files changed at once: until acted upon",
            took_s,
            others_s,
            reference_name=name,
            unit="s",
            goal="under 2 s",
            met=lambda seconds, _: seconds < 2,
        ),
        row(
            f"{FILES} files changed at once: batches",
            batches,
            [1.0] * len(batches),
            reference_name="one",
            unit="batches",
            goal="1",
            met=lambda count, _: count == 1,
        ),
        row(
            f"{FILES} files changed at once: event loop blocked at most",
            longest_ms,
            [20.0] * len(longest_ms),
            reference_name="a frame of a terminal or an editor at 50 Hz",
            unit="ms",
            goal="under 20 ms",
            met=lambda ms, _: ms < 20,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
