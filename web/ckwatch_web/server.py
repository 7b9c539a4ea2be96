"""Serves the page on loopback, at a free port, until cancelled."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from nicegui import app as nicegui_app
from nicegui import ui
from uvicorn import Config, Server

from ckwatch import CkwatchError
from ckwatch_web.access import Guard, Keys, address_of
from ckwatch_web.content import Content, Note, csv_text, without_marks
from ckwatch_web.live import LivePage
from ckwatch_web.static_html import page
from ckwatch_web.views.all import VIEWS

if TYPE_CHECKING:
    from ckwatch_web.feed import Feed
    from ckwatch_web.view import PageView

ASSETS = Path(__file__).parent / "assets"
END_S = 1


def make_page(feed: Feed, keys: Keys, port: int, *, allow_changes: bool) -> Guard:
    """The application."""
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    nicegui_app.add_static_files("/assets", ASSETS)
    for view in VIEWS.values():
        ui.page(view.path, title=f"{view.title} – ckwatch", favicon=ASSETS / "icon.svg")(
            _page(view, feed, keys, port, allow_changes=allow_changes)
        )
    nicegui_app.get("/csv/{view}/{table}")(_csv(feed))
    nicegui_app.exception_handler(404)(_no_such_page)
    nicegui_app.config.quasar_config["loadingBar"]["skipHijack"] = True
    ui.run_with(
        outer,
        dark=None,
        tailwind=False,
        language="en-US",
        reconnect_timeout=30.0,
        show_welcome_message=False,
        gzip_middleware_factory=None,
        binding_refresh_interval=None,
    )
    ui.add_head_html('<link rel="stylesheet" href="/assets/style.css">', shared=True)
    return Guard(outer, port, keys)


def _page(
    view: PageView, feed: Feed, keys: Keys, port: int, *, allow_changes: bool
) -> Callable[[Request], Awaitable[None]]:
    def invite(path: str) -> str:
        return address_of(port, keys, path)

    async def window_page(request: Request) -> None:
        window = ui.context.client
        query = dict(request.query_params)
        shown = LivePage(view, feed, query, views=VIEWS, allow_changes=allow_changes, invite=invite)
        await shown.begin()
        await window.connected(timeout=60.0)
        with anyio.CancelScope() as scope:
            window.on_delete(scope.cancel)
            await shown.run()

    return window_page


async def _no_such_page(request: Request, _error: Exception) -> Response:
    """An address that is none, with the ways back."""
    menu = [(view.title, view.path) for view in VIEWS.values()]
    text = f"There is nothing at `{without_marks(request.url.path)}`. The views are above."
    content = Content(title="", blocks=(Note(key="gone", text=text),))
    return HTMLResponse(page(content, "No such page", menu=menu), status_code=404)


def _csv(feed: Feed) -> Callable[[str, str, Request], Awaitable[Response]]:
    async def csv(view: str, table: str, request: Request) -> Response:
        if view not in VIEWS:
            return Response("no such view\n", status_code=404, media_type="text/plain")
        try:
            content = await VIEWS[view].show(feed, dict(request.query_params))
        except CkwatchError as error:
            return Response(f"{error.message}\n", status_code=409, media_type="text/plain")
        found = next((one for one in content.tables if one.key == table), None)
        if found is None:
            return Response("no such table\n", status_code=404, media_type="text/plain")
        name = f'attachment; filename="{view}-{found.key}.csv"'
        return Response(csv_text(found), media_type="text/csv", headers={"Content-Disposition": name})

    return csv


async def serve(feed: Feed, listener: socket.socket, keys: Keys, *, allow_changes: bool) -> None:
    """Serve what `feed` knows, which runs already, until cancelled."""
    config = Config(
        make_page(feed, keys, listener.getsockname()[1], allow_changes=allow_changes),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="on",
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
        await asyncio.shield(serving)
    finally:
        server.should_exit = True  # it closes what is open
        with anyio.CancelScope(shield=True):
            await serving


class _Server(Server):
    """Signals are the command's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
