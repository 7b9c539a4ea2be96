"""Events of folders, by the `watchfiles` library in a process of its own, and messages about its limits."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from ckwatch.engine.watch import notify_process
from ckwatch.engine.watch.places import Hints
from ckwatch.model.delays import WATCH_RING, WATCH_SINGLE_STEP, WATCH_STEP
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.processes import PIPE, ProcessStartError
from ckwatch.system.python_process import module_environment, script_command

Notify: TypeAlias = Callable[[Collection[str], bool], AbstractAsyncContextManager[AsyncIterator[Hints]]]
"""Watches folders (real paths), with everything in them if so asked. Entered, it watches. What is iterated are paths at
which something may have happened. Both raise OSError for what cannot be watched, or no longer."""


@asynccontextmanager
async def watchfiles_process(folders: Collection[str], recursive: bool) -> AsyncGenerator[AsyncIterator[Hints], None]:
    """A `Notify`."""
    library = importlib.util.find_spec("watchfiles")
    request = {
        "library": list(library.submodule_search_locations or ()) if library is not None else [],
        "folders": list(folders),
        "recursive": recursive,
        "step_ms": round(1000 * (WATCH_STEP if recursive else WATCH_SINGLE_STEP).seconds),
        "ring_ms": round(1000 * WATCH_RING.seconds),
    }
    try:
        command = script_command(notify_process.__file__)
        process = await start_process(command, environment=module_environment(), stdin=PIPE, stderr=None)
    except ProcessStartError as error:
        raise OSError(errno.EIO, str(error)) from error
    try:
        lines = _lines(process)
        await process.write(json.dumps(request).encode() + b"\n")
        await anext(lines)
        yield lines
    finally:
        await process.kill()
        process.poll()
        process.close()


async def _lines(process: AsyncProcess) -> AsyncGenerator[Hints, None]:
    rest = b""
    while chunk := await process.read_stdout():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            hints = json.loads(line)
            if isinstance(error := hints.get("error"), list):
                raise as_os_error(*error)
            yield hints
    raise OSError(errno.EIO, "the process that watches files has ended")


_NUMBER = re.compile(r"\(os error (\d+)\)")


def as_os_error(name: str, text: str) -> OSError:
    """The error of a class and a text, which is all that the library says."""
    if name == "FileNotFoundError":
        return FileNotFoundError(errno.ENOENT, text)
    if name == "PermissionError":
        return PermissionError(errno.EACCES, text)
    found = _NUMBER.search(text)
    number = int(found[1]) if found else errno.ENOSPC if "watch limit" in text else errno.EIO
    return OSError(number, os.strerror(number) if number != errno.EIO else text)


_LIMITS_FOLDER = Path("/proc/sys/fs/inotify")
ENOUGH_WATCHES = 524_288
ENOUGH_INSTANCES = 1_024


def describe_shortage(error: OSError) -> tuple[str, str]:
    """The message and the hint for an error of inotify. Reads one small file of `/proc`."""
    if error.errno == errno.ENOSPC:
        return _limit("max_user_watches", "file watches", ENOUGH_WATCHES)
    if error.errno == errno.EMFILE:
        message, hint = _limit("max_user_instances", "inotify instances (or of open files)", ENOUGH_INSTANCES)
        return message, f"{hint}\nIf that changes nothing, raise the number of open files: ulimit -n 4096"
    return (
        f"Folders cannot be watched ({error.strerror or error}); they are polled instead.",
        "Changes are noticed a little later. It is tried again every few seconds.",
    )


def _limit(name: str, what: str, enough: int) -> tuple[str, str]:
    try:
        now = int((_LIMITS_FOLDER / name).read_text())
    except (OSError, ValueError):
        now = 0
    number = max(enough, 2 * now)
    known = f" ({now})" if now else ""
    return (
        f"The limit of {what}{known} is reached; some folders are polled instead.",
        (
            f"sudo sysctl fs.inotify.{name}={number}\n"
            f"To keep it: echo fs.inotify.{name}={number} | sudo tee /etc/sysctl.d/60-ckwatch.conf"
        ),
    )
