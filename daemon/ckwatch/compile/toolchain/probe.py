"""Ask a compiler what it is, once: answers are kept on disk until the file changes.

An answer is keyed by path, size, modification time and inode of the file it is about, so finding a toolchain again
starts no process and reads no big file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ckwatch.model.errors import ToolchainError
from ckwatch.system.async_processes import ExitReason, ProcessResult, run_process
from ckwatch.system.durable_files import replace_file
from ckwatch.system.processes import ProcessStartError, run_blocking
from ckwatch.system.user_files import digest_file, read_file

_FORMAT = 1
_LIMIT = 500
_ANSWER_S = 60.0


class ProbeCache:
    """Answers about files, kept in one JSON file; without a writable place it simply forgets.

    A lost or damaged cache costs time, never a wrong answer.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answers: dict[str, str] = {}
        self._changed = False
        if path is not None:
            try:
                data = json.loads(read_file(path))
                if isinstance(data, dict) and data.get("format") == _FORMAT:
                    self._answers = {str(key): str(value) for key, value in data["answers"].items()}
            except (OSError, ValueError, KeyError, AttributeError):
                pass

    def ask(self, question: str, files: Iterable[Path], answer: Callable[[], str]) -> str:
        """The kept answer to `question` about `files` as they are now, else that of `answer`."""
        key = json.dumps([question, [_state(path) for path in files]])
        if key not in self._answers:
            self._answers[key] = answer()
            self._changed = True
        return self._answers[key]

    def save(self) -> None:
        """Write what is new, atomically; a place that cannot be written is no error."""
        if self._path is None or not self._changed:
            return
        kept = dict(list(self._answers.items())[-_LIMIT:])
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            content = json.dumps({"format": _FORMAT, "answers": kept})
            replace_file(self._path, content.encode(), mode=0o600, flushed=False)
        self._changed = False


def ask_program(arguments: list[str], env: Mapping[str, str]) -> str:
    """Return a program's standard output. Raises `ToolchainError` when it cannot be started, fails or hangs."""
    name = arguments[0]
    try:
        done = run_blocking(arguments, environment=env, timeout_s=_ANSWER_S)
    except TimeoutError as error:
        raise ToolchainError(f"{name} did not answer within {_ANSWER_S:g} s") from error
    except ProcessStartError as error:
        raise ToolchainError(error.message, "Run `ckwatch doctor`.") from error
    if done.returncode:
        printed = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise ToolchainError(
            f"{' '.join(arguments)} failed with status {done.returncode}: {' / '.join(printed) or 'no message'}",
            "The compiler itself does not run here. Reinstall it: `ckwatch toolchain install --force`, or ROCm.",
        )
    return done.stdout


async def run_tool(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    timeout_s: float | None = None,
    meanwhile: Callable[[], Coroutine[Any, Any, object]] | None = None,
) -> ProcessResult:
    """As `run_process`, for a program that must end in time: raises ToolchainError also when it does not."""
    done = await run_process(
        arguments, environment=environment, folder=folder, timeout_s=timeout_s, meanwhile=meanwhile
    )
    if done.exit_reason in (ExitReason.TIMED_OUT, ExitReason.STALLED):
        what = "used the processor" if done.exit_reason is ExitReason.TIMED_OUT else "did nothing"
        raise ToolchainError(f"{done.arguments[0]} {what} for {timeout_s:g} s and was stopped")
    return done


def content_hash(paths: Iterable[Path], cache: ProbeCache) -> str:
    """A hash of what is in the files, in the order given, whatever they are called."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(cache.ask("sha256", [path], lambda path=path: digest_file(path)).encode())  # type: ignore[misc]
    return digest.hexdigest()


def _state(path: Path) -> list[object]:
    try:
        stat = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino]
