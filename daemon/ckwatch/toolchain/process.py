"""Run a host tool (apt, dpkg-deb, patchelf, a compiler probe) in a session of its own, and leave nothing behind.

anyio kills only the direct child on cancellation; apt and hipcc have children of their own, so the whole group is
killed here.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from ckwatch.errors import ToolchainError


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended; `output` is stdout, `errors` stderr."""

    status: int
    output: str
    errors: str


async def run(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    directory: Path | None = None,
    meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None,
    timeout_s: float | None = None,
) -> Finished:
    """Run to the end and return what it said, whatever its exit status; `meanwhile` runs beside it, to watch it.

    Raises `ToolchainError` when the program is missing or cannot be started, and when it takes over `timeout_s`.
    """
    name = os.fspath(arguments[0])
    try:
        # Cancelled between the start and its answer, only the direct child would be killed.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                [os.fspath(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                cwd=directory,
                env=dict(env),
                start_new_session=True,
            )
    except OSError as error:
        raise ToolchainError(f"cannot start {name}: {error.strerror}") from error
    streams: dict[str, bytes] = {}

    async def collect(name: str, stream: anyio.abc.ByteReceiveStream) -> None:
        streams[name] = b"".join([chunk async for chunk in stream])

    assert process.stdout is not None  # noqa: S101 - opened with pipes
    assert process.stderr is not None  # noqa: S101
    try:
        with anyio.move_on_after(timeout_s) as limit:
            async with anyio.create_task_group() as outer:
                if meanwhile is not None:
                    outer.start_soon(meanwhile)
                async with anyio.create_task_group() as inner:
                    inner.start_soon(collect, "output", process.stdout)
                    inner.start_soon(collect, "errors", process.stderr)
                await process.wait()
                outer.cancel_scope.cancel()
        if limit.cancelled_caught:
            raise ToolchainError(f"{name} took over {timeout_s:g} s and was stopped")
        return Finished(
            process.returncode if process.returncode is not None else -1,
            streams.get("output", b"").decode(errors="replace"),
            streams.get("errors", b"").decode(errors="replace"),
        )
    finally:
        kill_group(process.pid)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def kill_group(group: int) -> None:
    """Kill every process of a session that was started by its leader `group`; those already gone are no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
