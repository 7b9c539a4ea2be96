"""`ckwatch watch`: the workspace as it changes, on a terminal, as lines, or as JSON."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.cli.command_words import TEMPLATE_END, patterns_of, start_of
from ckwatch.cli.diagnostic_text import format_diagnostic
from ckwatch.cli.live.board import Board, UnitFilter
from ckwatch.cli.live.feed import WatchFeed
from ckwatch.cli.live.plain_output import GATHERED_S, PlainOutput, reader_gone, write
from ckwatch.cli.live.view import RenderedMessages, ViewOptions, in_order, one_line, view
from ckwatch.cli.output import Output, SourceCache
from ckwatch.cli.session import asked_patterns, say_what_goes_on, what_goes_on
from ckwatch.cli.signals import INTERRUPTED, stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.client import connect
from ckwatch.model.errors import plain_errors
from ckwatch.wire.encoding import to_json
from ckwatch.workspace.discovery import find_workspace, working_folder

if TYPE_CHECKING:
    from ckwatch.cli.live.screen import Screen
    from ckwatch.wire.state import Change

DRAWN_S = 0.125
"""The terminal is drawn at most so often."""

LOST = "the daemon has stopped; waiting for it to start again"

Show = Callable[[WatchFeed, TaskGroup], Awaitable[None]]


def run(options: argparse.Namespace) -> int:
    """Watch until `q`, Ctrl-C, or until the daemon is stopped."""
    root = find_workspace(start_of(options, options.words))
    require_trust(root, options)
    patterns = patterns_of(options.words, working_folder(), root)
    if any(pattern.endswith(TEMPLATE_END) for pattern in patterns):
        patterns = anyio.run(_asked, root, options.words)
    meant = UnitFilter(patterns)
    board = Board(meant)
    output = Output(options, root)
    on_terminal = not output.json and sys.stdout.isatty() and not output.console.is_dumb_terminal
    if output.json:
        show: Show = partial(_show_json, board)
    elif on_terminal:
        show = partial(_show_view, board, output)
    else:
        show = partial(_show_lines, board, output)
    status = 0
    try:
        anyio.run(partial(_watch, root, board, meant, show, building=not options.no_build))
    except KeyboardInterrupt:
        status = INTERRUPTED
    if on_terminal and board.workspace is not None:
        output.text(one_line(board))
    return status


async def _asked(root: Path, words: Sequence[str]) -> tuple[str, ...]:
    async with stoppable(), connect(root, client_name="watch") as client:
        return await asked_patterns(client, words)


async def _watch(root: Path, board: Board, meant: UnitFilter, show: Show, *, building: bool) -> None:
    async with stoppable(), what_goes_on(root, unbuilt=board.working):
        async with connect(root, client_name="watch") as client:
            feed = WatchFeed(client, meant, building=building)
            async with plain_errors(), anyio.create_task_group() as tasks:
                tasks.start_soon(feed.follow)
                tasks.start_soon(feed.attend)
                await show(feed, tasks)
                tasks.cancel_scope.cancel()
        if feed.over:
            print("ckwatch: the daemon was stopped", file=sys.stderr)
        else:
            await say_what_goes_on(root, board.working)


async def _show_view(board: Board, output: Output, feed: WatchFeed, tasks: TaskGroup) -> None:
    from ckwatch.cli.live.screen import Screen

    screen = Screen(output.console, sys.stdin, sys.stdout)
    looking = _TerminalSession(board, output, screen, feed)
    logging.getLogger("ckwatch.client").setLevel(logging.ERROR)  # a wait for the daemon is on the screen (`LOST`)
    with screen.shown():
        tasks.start_soon(screen.signals, feed.wake)
        tasks.start_soon(looking.obey)
        while not (feed.over or looking.ended):
            try:
                await to_thread.run_sync(looking.draw, feed.take())
            except OSError:  # the terminal has gone
                return
            await feed.settle(board)
            await anyio.sleep(DRAWN_S)
            # the time goes on where there is work
            await feed.woken(1.0) if board.busy else await feed.woken()


class _TerminalSession:
    """Somebody who looks at a terminal and presses keys. `draw` runs in a thread, one at a time."""

    def __init__(self, board: Board, output: Output, screen: Screen, feed: WatchFeed) -> None:
        self._board = board
        self._screen = screen
        self._feed = feed
        self._sources = SourceCache()
        self._pages = RenderedMessages(self._sources.read_line, output.root)
        self._look = ViewOptions(80, 24)
        """The choices of whoever looks: what is shown of it all."""
        self.ended = False

    async def obey(self) -> None:
        """Do what keys ask for."""
        async with anyio.create_task_group() as tasks:
            async for key in self._screen.keys(lambda: self._look.typing):
                if self._look.typing:
                    self._type(key)
                elif key == "quit":
                    self.ended = True
                elif key == "redraw":
                    self._screen.redraw()
                elif key == "rebuild":
                    tasks.start_soon(self._feed.rebuild, self._board)
                else:
                    self._look = self._chosen(key)
                self._feed.wake()

    def _type(self, key: str) -> None:
        look = self._look
        if key == "enter":
            self._look = replace(look, typing=False)
        elif key == "escape":
            self._look = replace(look, typing=False, filter="")
        else:
            self._look = replace(look, filter=look.filter[:-1] if key == "erase" else look.filter + key)

    def _chosen(self, key: str) -> ViewOptions:
        look = self._look
        match key:
            case "failed":
                return replace(look, failed_only=not look.failed_only)
            case "details":
                return replace(look, details=not look.details)
            case "filter":
                return replace(look, typing=True)
            case "escape":
                return replace(look, filter="", failed_only=False)
            case _:
                return replace(look, first={"down": look.first + 1, "up": max(look.first - 1, 0), "first": 0}[key])

    def draw(self, changes: Sequence[Change]) -> None:
        """Take in the changes and show what is."""
        now = time.time()
        for change in changes:
            self._board.note(change, now)
        if any(change.topic.kind == "file" for change in changes):
            self._sources.forget()
            self._pages.renew(self._board.diagnostics())
        first = min(self._look.first, max(len(in_order(self._board.diagnostics())) - 1, 0))
        columns, rows = self._screen.size()
        lost = self._feed.lost
        look = self._look = replace(
            self._look, columns=columns, rows=rows, first=first, note=LOST if lost else self._feed.problem,
            live=not lost, keys=self._screen.has_keys,
        )  # fmt: skip
        self._screen.draw(view(self._board, self._pages, look, now), (columns, rows))


async def _show_lines(board: Board, output: Output, feed: WatchFeed, tasks: TaskGroup) -> None:
    tasks.start_soon(reader_gone)
    sources = SourceCache()
    lines = PlainOutput(board, lambda found: format_diagnostic(found, sources.read_line, output.root))
    lost = False

    def printed(changes: Sequence[Change]) -> str:
        sources.forget()
        with output.console.capture() as captured:
            for line in lines.after(changes, time.time()):
                output.console.print(line, soft_wrap=True, highlight=False)
        return captured.get()

    while not feed.over:
        text = await to_thread.run_sync(printed, feed.take())
        if feed.lost and not lost:
            text += f"{LOST}\n"
        lost = feed.lost
        await feed.settle(board)
        await write(text)
        await feed.woken(GATHERED_S) if lines.waiting else await feed.woken()


async def _show_json(board: Board, feed: WatchFeed, tasks: TaskGroup) -> None:
    tasks.start_soon(reader_gone)
    while not feed.over:
        now = time.time()
        changes = [change for change in feed.take() if board.note(change, now)]
        await write("".join(f"{to_json(change).decode()}\n" for change in changes))
        await feed.settle(board)
        await feed.woken()
