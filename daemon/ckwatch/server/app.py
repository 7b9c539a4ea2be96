"""The daemon's application: the routes of all endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ckwatch.model.errors import CkwatchError
from ckwatch.server.clients import Activity, Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.middleware import RequestMiddleware
from ckwatch.server.responses import on_error, on_http_error
from ckwatch.server.routes import PREFIX, Handlers


def make_app(
    engine: Engine,
    clients: Clients,
    *,
    limits: Limits | None = None,
    activity: Activity | None = None,
    stop: Callable[[], None] = lambda: None,
) -> Starlette:
    """The application that serves `engine`. `clients` must be running. `stop` is called besides the engine's."""
    limits = limits or Limits()
    app = Starlette(
        routes=[Route(f"{PREFIX}/openapi.json", _document), *Handlers(engine, clients, limits, stop).routes()],
        middleware=[Middleware(RequestMiddleware, limits=limits, activity=activity or Activity())],
        exception_handlers={CkwatchError: on_error, HTTPException: on_http_error},
    )
    app.router.redirect_slashes = False
    return app


async def _document(_request: Request) -> JSONResponse:
    return JSONResponse(await to_thread.run_sync(_described))


def _described() -> dict[str, Any]:
    from ckwatch.server.openapi import openapi_document

    return openapi_document()
