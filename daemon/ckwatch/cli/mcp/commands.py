"""Commands of the command line, run for a client that is connected: what they print as JSON is a tool's answer."""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, redirect_stderr
from functools import partial
from typing import TYPE_CHECKING, Any

from ckwatch.cli import best, build, compare, explain, inspect, judge, listing, profile, tune, verify
from ckwatch.cli.parser import parser_for
from ckwatch.model.errors import CkwatchError, DiagnosedError
from ckwatch.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ckwatch.client import Client

Line = Mapping[str, Any]

_RUN: dict[str, Callable[[argparse.Namespace], Awaitable[int]]] = {
    "list": listing.run,
    "check": partial(build.run, check_only=True),
    "build": partial(build.run, check_only=False),
    "verify": verify.run,
    "judge": judge.run,
    "inspect": inspect.inspect,
    "profile": profile.profile,
    "rank": inspect.rank,
    "best": best.run,
    "compare": compare.run,
    "explain": explain.run,
    "tune": tune.run,
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A command's exit status and lines."""

    status: int
    lines: Sequence[Line]


async def run_command(
    client: Client, name: str, options: Sequence[str], words: Sequence[str], heard: Callable[[Line], None]
) -> Ran:
    """Run `ckwatch NAME OPTIONS --json -- WORDS` as `client` sees the workspace; `heard` gets each line at once. Raises
    CkwatchError, also for words that are none of the command's."""
    lines: list[Line] = []

    def write(line: str) -> None:
        lines.append(json.loads(line))
        heard(lines[-1])

    @asynccontextmanager
    async def connected(_options: argparse.Namespace, _start: object) -> AsyncIterator[Client]:
        yield client

    dependencies = {"connected": connected, "stoppable": nullcontext, "write_line": write}
    parsed = _parsed([name, *options, "--json", "-C", str(client.root), "--", *words], dependencies)
    try:
        status = await _RUN[name](parsed)
    except DiagnosedError as error:
        from ckwatch.cli.output import Output

        Output(parsed).diagnostics(error.diagnostics)
        status = 1
    return Ran(status, lines)


def _parsed(arguments: Sequence[str], dependencies: Mapping[str, object]) -> argparse.Namespace:
    refused = io.StringIO()
    given = argparse.Namespace(begun=time.monotonic(), dependencies=dependencies)
    try:
        with redirect_stderr(refused):
            parsed: argparse.Namespace = parser_for(arguments).parse_args(arguments, given)
    except SystemExit:
        why = refused.getvalue().strip().rpartition("error: ")[2]
        raise CkwatchError(why or "these arguments do not go together") from None
    return parsed
