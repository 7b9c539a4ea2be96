"""The daemon's application: the routes of all endpoints, and the OpenAPI document that describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ckwatch.model.errors import CkwatchError
from ckwatch.model.version import __version__
from ckwatch.questions.table import ENDPOINTS
from ckwatch.server.clients import Activity, Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.middleware import RequestMiddleware
from ckwatch.server.responses import on_error, on_http_error, on_invalid
from ckwatch.server.routes import Handlers, path_of, takes_no_query
from ckwatch.wire.messages import Problem

PREFIX = "/v1"


class _Application(FastAPI):
    """Serves without models of its answers: making them takes a third of the time, and only the document needs them."""

    def __init__(self, handlers: Handlers) -> None:
        super().__init__(**_about(), openapi_url=f"{PREFIX}/openapi.json")
        self._handlers = handlers
        _add_routes(self, handlers, documented=False)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            documented = FastAPI(**_about())
            _add_routes(documented, self._handlers, documented=True)
            self.openapi_schema = documented.openapi()
            for one in ENDPOINTS:
                if one.sent is not None:
                    # the framework takes all for JSON
                    operation = self.openapi_schema["paths"][PREFIX + path_of(one)][one.method.lower()]
                    answer = operation["responses"]["200"]
                    answer["content"] = {one.media: answer["content"]["application/json"]}
        return self.openapi_schema


def _about() -> dict[str, Any]:
    return {
        "title": "ckwatch",
        "description": "The daemon of one workspace.",
        "version": __version__,
        "docs_url": None,
        "redoc_url": None,
        "redirect_slashes": False,
    }


def _add_routes(app: FastAPI, handlers: Handlers, *, documented: bool) -> None:
    for one in ENDPOINTS:
        handler = handlers.handler(one)
        app.add_api_route(
            PREFIX + path_of(one),
            handler,
            methods=[one.method],
            operation_id=one.operation,
            dependencies=[] if "query" in inspect.signature(handler).parameters else [Depends(takes_no_query)],
            response_model=one.sent if documented else None,
            status_code=HTTPStatus.NO_CONTENT if one.sent is None else HTTPStatus.OK,
            responses={"default": {"model": Problem, "description": "what is wrong"}} if documented else None,
        )


def make_app(
    engine: Engine,
    clients: Clients,
    *,
    limits: Limits | None = None,
    activity: Activity | None = None,
    stop: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The application that serves `engine`. `clients` must be running. `stop` is called besides the engine's."""
    limits = limits or Limits()
    app = _Application(Handlers(engine, clients, limits, stop))
    app.add_middleware(RequestMiddleware, limits=limits, activity=activity or Activity())
    app.add_exception_handler(CkwatchError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    return app
