"""Serves the page on loopback, at a free port, until cancelled.

A browser comes as soon as the address is known, and NiceGUI takes half a second to load. Meanwhile the browser is let
in, and loads the scripts that the page will need.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from uvicorn import Config, Server

from ckwatch.system.user_files import read_file
from ckwatch_web.access import Guard, Keys

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ckwatch_web.feed import Feed

END_S = 1

SOCKET_IO_CLIENTS = ("aiohttp", "requests", "tornado")

FIRST = {
    **dict.fromkeys(("vue.esm-browser.prod.js", "dompurify.mjs"), "modulepreload"),
    **dict.fromkeys(("quasar.umd.prod.js", "nicegui.js", "socket.io.min.js"), "preload as=script"),
    **dict.fromkeys(
        ("quasar.unimportant.prod.css", "quasar.important.prod.css", "nicegui.css", "fonts.css"), "preload as=style"
    ),
}
"""Files of NiceGUI's that every page of it loads, and how a link says so."""

_KINDS = {".js": b"text/javascript", ".mjs": b"text/javascript", ".css": b"text/css"}


class EarlyApp:
    """An application that is loaded while requests for it wait; those for NiceGUI's own files do not."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._there = anyio.Event()
        found = find_spec("nicegui")
        assert found is not None  # noqa: S101 - the command has looked
        assert found.origin is not None  # noqa: S101 - it is a package with a file
        self._folder = Path(found.origin).with_name("static")
        self._prefix = f"/_nicegui/{version('nicegui')}/static/"

    @property
    def first(self) -> dict[str, str]:
        """`FIRST` by the files' addresses."""
        return {self._prefix + name: how for name, how in FIRST.items() if (self._folder / name).is_file()}

    def set(self, app: ASGIApp) -> None:
        """The application is there."""
        self._app = app
        self._there.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        name = scope["path"].removeprefix(self._prefix)
        if scope["type"] == "http" and scope["method"] == "GET" and self._prefix + name in self.first:
            data = read_file(self._folder / name)
            headers = [
                (b"content-type", _KINDS[Path(name).suffix]),
                (b"content-length", b"%d" % len(data)),
                (b"cache-control", b"public, max-age=3600"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": data})
            return
        await self._there.wait()
        assert self._app is not None  # noqa: S101 - it is there
        await self._app(scope, receive, send)


async def serve(feed: Feed, listener: socket.socket, keys: Keys, *, allow_changes: bool) -> None:
    """Serve what `feed` knows, which runs already, until cancelled."""
    app, port = EarlyApp(), listener.getsockname()[1]
    config = Config(
        Guard(app, port, keys, app.first),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=END_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))  # Ctrl-C cancels this task, and not that one
    try:
        pages = await to_thread.run_sync(_load_pages)
        page = pages.make_page(feed, keys, port, allow_changes=allow_changes)
        async with page.router.lifespan_context(page):
            app.set(page)
            await asyncio.shield(serving)
    finally:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is cut off now is cut off on purpose
        server.should_exit = True  # it closes what is open
        with anyio.CancelScope(shield=True):
            await serving


class _Server(Server):
    """Signals are the command's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _load_pages() -> Any:
    """The page, without the libraries of Socket.IO's clients, which it can do without and which take a sixth of the
    time that all of it takes to load."""
    absent = [name for name in SOCKET_IO_CLIENTS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: there is no such module
    try:
        return import_module("ckwatch_web.pages")
    finally:
        for name in absent:
            del sys.modules[name]
