"""The application of the page. Importing this loads NiceGUI, which takes half a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from nicegui import app as nicegui_app
from nicegui import ui

from ckwatch import CkwatchError
from ckwatch_web.access import Keys, address_of
from ckwatch_web.content import Content, Note, csv_text, without_marks
from ckwatch_web.live import LivePage
from ckwatch_web.static_html import page
from ckwatch_web.views.all import VIEWS

if TYPE_CHECKING:
    from ckwatch_web.feed import Feed
    from ckwatch_web.view import PageView

ASSETS = Path(__file__).parent / "assets"


def make_page(feed: Feed, keys: Keys, port: int, *, allow_changes: bool) -> FastAPI:
    """The application."""
    FileResponse.chunk_size = 2**20  # each chunk is read in a thread of its own
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
    return outer


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
