"""The daemon's HTTP routes in one table, and the OpenAPI document that describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ckwatch.model.errors import CkwatchError
from ckwatch.model.version import __version__
from ckwatch.server.clients import Activity, Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.handlers import Handlers, takes_no_query
from ckwatch.server.middleware import RequestMiddleware
from ckwatch.server.responses import on_error, on_http_error, on_invalid
from ckwatch.server.streams import NDJSON
from ckwatch.wire.analysis import Analysis, Calibrated, IsaAnswer, OccupancySteps, PredictedRanking
from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Devices, RankedTiming, Timing, TimingDetail
from ckwatch.wire.cpp import CppAnswerLine
from ckwatch.wire.imported_timings import ImportedTiming, ImportedTimingsFile, TimingsImport
from ckwatch.wire.language import ParameterValue, TemplateDetail, TemplateName, Vocabulary
from ckwatch.wire.messages import (
    Artifact,
    BuildLine,
    Problem,
    RenderedText,
    Run,
    Status,
    TimeTraceLine,
    UnitDetail,
    WorkspaceDetail,
)
from ckwatch.wire.state import Change, File, Snapshot, Unit
from ckwatch.wire.verification import UnitVerification, VerifyLine

PREFIX = "/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """`handler` is a method of `Handlers`. `answers` is what the answer (NDJSON: each line) holds, for the document."""

    method: str
    path: str
    handler: str
    answers: Any = None
    media: str = "application/json"


ROUTES = (
    Route("GET", "/status", "status", Status),
    Route("GET", "/snapshot", "snapshot", Snapshot),
    Route("GET", "/events", "events", Change, NDJSON),
    Route("GET", "/units", "units", list[Unit]),
    Route("GET", "/units/{kernel}/{instance}", "unit", UnitDetail),
    Route("GET", "/units/{kernel}/{instance}/source", "source", RenderedText),
    Route("GET", "/units/{kernel}/{instance}/artifact", "artifact", Artifact | None),
    Route("GET", "/units/{kernel}/{instance}/verification", "verification", UnitVerification),
    Route("GET", "/units/{kernel}/{instance}/runs", "runs", list[Run]),
    Route("POST", "/units/{kernel}/{instance}/runner", "runner"),
    Route("POST", "/units/{kernel}/{instance}/time-trace", "time_trace", TimeTraceLine, NDJSON),
    Route("GET", "/units/{kernel}/{instance}/analysis", "analysis", Analysis),
    Route("GET", "/units/{kernel}/{instance}/occupancy-steps", "occupancy_steps", OccupancySteps),
    Route("GET", "/units/{kernel}/{instance}/isa", "isa", IsaAnswer, NDJSON),
    Route("GET", "/calibration", "calibration", Calibrated),
    Route("GET", "/predictions", "predicted", PredictedRanking),
    Route("GET", "/workspace", "workspace", WorkspaceDetail),
    Route("GET", "/files", "file", File),
    Route("GET", "/log", "log", str, "text/plain"),
    Route("POST", "/builds", "build", BuildLine, NDJSON),
    Route("GET", "/vocabulary", "vocabulary", Vocabulary),
    Route("GET", "/templates", "templates", list[TemplateName]),
    Route("GET", "/template", "template", TemplateDetail),
    Route("GET", "/readers", "readers", list[str]),
    Route("POST", "/readers", "readers_of", list[list[str]]),
    Route("POST", "/values", "values", list[ParameterValue]),
    Route("POST", "/cpp", "ask_cpp", CppAnswerLine, NDJSON),
    Route("GET", "/devices", "devices", Devices),
    Route("POST", "/benchmarks", "bench", BenchLine, NDJSON),
    Route("POST", "/verifications", "verify", VerifyLine, NDJSON),
    Route("GET", "/timings", "timings", list[Timing]),
    Route("GET", "/timings/{number}", "timing", list[TimingDetail]),
    Route("GET", "/ranking", "ranking", list[RankedTiming]),
    Route("GET", "/comparison", "comparison", list[Compared]),
    Route("GET", "/baselines", "baselines", list[Baseline]),
    Route("PUT", "/baselines/{name}", "set_baseline", list[str]),
    Route("DELETE", "/baselines/{name}", "remove_baseline", int),
    Route("POST", "/imported-timings", "import_timings", TimingsImport),
    Route("GET", "/imported-timings", "imported_timings", list[ImportedTiming]),
    Route("GET", "/imported-files", "imported_files", list[ImportedTimingsFile]),
    Route("DELETE", "/imported-files", "remove_imported"),
    Route("POST", "/cancel", "cancel", list[str]),
    Route("PUT", "/clients/{client}/overlays", "overlay"),
    Route("PUT", "/clients/{client}/focus", "focus"),
    Route("PUT", "/clients/{client}/view", "view"),
    Route("PUT", "/clients/{client}/editor", "editor"),
    Route("DELETE", "/clients/{client}", "leave"),
    Route("POST", "/show", "show", int),
    Route("POST", "/stop", "stop"),
)


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
            for route in ROUTES:
                if route.answers:
                    # the framework takes all for JSON
                    answer = self.openapi_schema["paths"][PREFIX + route.path][route.method.lower()]["responses"]["200"]
                    answer["content"] = {route.media: answer["content"]["application/json"]}
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
    for route in ROUTES:
        handler = getattr(handlers, route.handler)
        app.add_api_route(
            PREFIX + route.path,
            handler,
            methods=[route.method],
            operation_id=route.handler,
            dependencies=[] if "query" in inspect.signature(handler).parameters else [Depends(takes_no_query)],
            response_model=route.answers if documented else None,
            status_code=HTTPStatus.OK if route.answers else HTTPStatus.NO_CONTENT,
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
