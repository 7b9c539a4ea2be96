"""`ckwatch check` and `ckwatch build` where the daemon has the answer at once.

They do without an event loop, pydantic and rich, which take longer to load than a check of what was just saved takes.

What needs more is left to `ckwatch.cli.build`: a daemon that is to be started, trust that is to be asked for, a client
with a view of its own, compilers that run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ckwatch.cli.build_results import FinishedUnit, finish, unix_time_of
from ckwatch.cli.command_words import TEMPLATE_END, dependency, is_private, path_of, patterns_of, start_of
from ckwatch.cli.output import Output
from ckwatch.cli.signals import TerminatedError, raising
from ckwatch.client.blocking_exchange import BlockingExchange
from ckwatch.client.http_state import target_of
from ckwatch.model.errors import LOST_ERRORS, ProtocolError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire import decoding
from ckwatch.wire.endpoint import endpoint_of, prepare_folder
from ckwatch.workspace.discovery import find_workspace, working_folder
from ckwatch.workspace.trust import is_trusted

if TYPE_CHECKING:  # loading the wire types takes as long as a check
    from ckwatch.wire.state import BuildLine, WorkspaceDetail

AT_ONCE_S = 1.0
"""Builds that take longer show their progress."""

_MORE = ("arch", "no_rules", "header_warnings", "force", "out", "aot", "runner", "toolchain")
"""Options for which the daemon has to know the client, or files are written."""

_OK = 200


@dataclass(frozen=True, slots=True)
class _Answer:
    patterns: tuple[str, ...]
    lines: Sequence[BuildLine]
    workspace: WorkspaceDetail


def check(options: argparse.Namespace) -> int:
    """Everything that shows without a compiler."""
    return _run(options, check_only=True)


def build(options: argparse.Namespace) -> int:
    """Compile, and copy products out where asked."""
    return _run(options, check_only=False)


def _run(options: argparse.Namespace, *, check_only: bool) -> int:
    with ExitStack() as request:
        answer = None
        if not is_private(options) and not any(getattr(options, name, None) for name in _MORE):
            answer = _asked(options, request, check_only=check_only)
        if answer is None:
            from ckwatch.cli import build as following

            # the daemon goes on with the request until it has the one that is followed
            return (following.check if check_only else following.build)(options, request.close)
    output = Output(options, Path(answer.workspace.root))
    began = unix_time_of(options.begun)
    ended = [FinishedUnit(line, began, check_only=check_only) for line in answer.lines if line.event == "unit"]
    units = answer.lines[0].units
    output.answer(event="start", units=units)
    width = max(map(len, units), default=0)
    for one in ended:
        one.print_json(output)
        if output.for_people and (text := one.line(width)) is not None:
            output.styled(text)
    return finish(output, ended, answer.workspace, answer.patterns, options.begun)


def _asked(options: argparse.Namespace, request: ExitStack, *, check_only: bool) -> _Answer | None:
    """Return the immediate answer of a running daemon, or None. `request` stays open until it is closed. Raises
    CkwatchError without a workspace, and TerminatedError."""
    root = find_workspace(start_of(options, options.words))
    if not is_trusted(root):
        return None
    endpoint = endpoint_of(root)
    prepare_folder(endpoint.socket.parent)
    try:
        with raising():
            until_s = time.monotonic() + dependency(options, "at_once_s", AT_ONCE_S)
            return _answered(options, endpoint.socket, root, request, until_s, check_only=check_only)
    except (*LOST_ERRORS, ProtocolError):
        return None
    except (KeyboardInterrupt, TerminatedError):
        request.close()
        import anyio

        from ckwatch.cli.session import say_what_goes_on

        anyio.run(say_what_goes_on, root)
        raise


def _answered(
    options: argparse.Namespace, socket: Path, root: Path, request: ExitStack, until_s: float, *, check_only: bool
) -> _Answer | None:
    here = working_folder()
    if any(path_of(word, here) for word in options.words):
        # paths are passed on as the daemon names them, to which the workspace's folder may have another name
        daemon = _got(socket, "status", until_s)
        if daemon is None:
            return None
        root = Path(decoding.status(daemon).root)
    patterns = patterns_of(options.words, here, root)
    if any(pattern.endswith(TEMPLATE_END) for pattern in patterns):
        return None
    body = {"units": list(patterns) or None, "force": False, "check_only": check_only, "finish": True}
    build = request.enter_context(BlockingExchange(socket, "POST", target_of(("builds",)), json.dumps(body).encode()))
    status, data = build.answer(until_s) or (0, b"")
    lines = [decoding.build_line(line) for line in data.split(b"\n") if line] if status == _OK else []
    if not lines or lines[-1].event != "done":
        return None
    workspace = _got(socket, "workspace", until_s)
    return None if workspace is None else _Answer(patterns, lines, decoding.workspace_detail(workspace))


def _got(socket: Path, segment: str, until_s: float) -> bytes | None:
    with BlockingExchange(socket, "GET", target_of((segment,))) as exchange:
        status, data = exchange.answer(until_s) or (0, b"")
        return data if status == _OK else None
