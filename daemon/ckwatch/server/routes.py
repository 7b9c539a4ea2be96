"""A route for each endpoint: the request's models and how the answer is sent follow from the declaration.

A client that a request names is present while the request lasts. A request's models are made when the first one comes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic_core import ErrorDetails
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ckwatch.core.events import MAIN
from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.endpoint import AnyEndpoint, UnitName
from ckwatch.questions.table import ENDPOINTS, Answers
from ckwatch.server import streams
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.middleware import RequestRefusedError
from ckwatch.server.responses import ROUTES_HINT, json_response
from ckwatch.wire.requests import OverlayRequest
from ckwatch.wire.rows import Overview, UnitRow
from ckwatch.wire.schema import ClientId
from ckwatch.wire.schema import Request as JsonRequest
from ckwatch.wire.state import Snapshot, Unit

PREFIX = "/v1"


class NoQuery(BaseModel):
    """None."""

    model_config = ConfigDict(frozen=True, extra="forbid")


UNIT_IN_PATH = {
    "kernel": Annotated[str, Field(description="the first part of a unit's id", max_length=4096)],
    "instance": Annotated[str, Field(description="the rest of a unit's id: INSTANCE@ARCH", max_length=4096)],
}


def path_of(endpoint: AnyEndpoint) -> str:
    """The path of the route: that of a unit has two segments."""
    return endpoint.path.replace("{unit}", "{kernel}/{instance}")


def in_path(endpoint: AnyEndpoint) -> dict[str, Any]:
    """The types of what stands in the path."""
    found: dict[str, Any] = {}
    for one in endpoint.arguments:
        if one.place == "path":
            found |= UNIT_IN_PATH if one.annotation is UnitName else {one.name: endpoint.wire_type(one)}
    return found


class Handlers:
    """Makes the handler of each endpoint."""

    def __init__(self, engine: Engine, clients: Clients, limits: Limits, stop: Callable[[], None]) -> None:
        self._engine = engine
        self._clients = clients
        self._shared = streams.StreamContext(clients, limits)
        self._stop = stop
        self._own: Answers = dict(
            (ClientQuestions.leave.answered_by(self._leave), ClientQuestions.stop.answered_by(self._end))
        )
        known = {*engine.answers, *self._own, ClientQuestions.events}
        if lacking := [one.name for one in ENDPOINTS if one not in known]:
            raise LookupError(f"nothing answers {', '.join(lacking)}")

    def routes(self) -> Iterator[Route]:
        """A route for each endpoint."""
        for one in ENDPOINTS:
            route = Route(PREFIX + path_of(one), partial(self._answer, one), methods=[one.method])
            route.methods = {one.method}  # and not HEAD
            yield route

    async def _answer(self, endpoint: AnyEndpoint, request: Request) -> Response:
        values, client = _values(endpoint, await _received(endpoint, request))
        return await self._respond(endpoint, values, client)

    async def _respond(self, endpoint: AnyEndpoint, values: dict[str, Any], client: str | None) -> Response:
        if endpoint is ClientQuestions.events:
            return streams.event_stream(self._engine, self._shared, client=client, **values)
        ask = partial(self._own.get(endpoint) or self._engine.answers[endpoint], **values)
        if endpoint.action:
            return streams.line_stream(ask, endpoint.answer(event="heartbeat"), self._shared, client)
        if endpoint.slow:
            return streams.slow_stream(endpoint.sent, ask, self._shared, client)
        if endpoint is ClientQuestions.leave:  # who leaves is not present
            return _response(endpoint, await ask(), self._shared)
        async with self._clients.present(client):
            if endpoint is ClientQuestions.overlay:
                request: OverlayRequest = values["request"]
                async with self._clients.overlaying(values["client"], request.path, request.text):
                    return _response(endpoint, await ask(), self._shared)
            return _response(endpoint, await ask(), self._shared)

    async def _leave(self, client: str) -> None:
        await self._clients.remove(client)

    async def _end(self) -> None:
        self._stop()


def _response(endpoint: AnyEndpoint, answer: Any, shared: streams.StreamContext) -> Response:
    if isinstance(answer, (Snapshot, Overview)):
        return streams.json_stream(streams.snapshot_pieces(answer, shared), shared)
    if endpoint.answer in (list[Unit], list[UnitRow]):
        return streams.json_stream(streams.units_pieces(answer, shared), shared)
    if endpoint.answer is str:
        return PlainTextResponse(answer.encode(errors="replace"))
    if endpoint.answer is int:
        return Response(b"%d" % answer, media_type="application/json")
    return json_response(answer) if endpoint.answer is not None else Response(status_code=HTTPStatus.NO_CONTENT)


async def _received(endpoint: AnyEndpoint, request: Request) -> dict[str, BaseModel]:
    """The arguments by their place. Raises RequestRefusedError for wrong ones."""
    models = request_models(endpoint)
    given: dict[str, Any] = {"path": request.path_params, "query": _in_query(models.query, request.query_params)}
    mistakes: list[str] = []
    if models.body is not None:
        if body := await request.body():
            given["body"] = _json(body)
        else:
            mistakes.append("body: Field required")
    found: dict[str, BaseModel] = {}
    for place, values in given.items():
        try:
            found[place] = getattr(models, place).model_validate(values, from_attributes=True)
        except ValidationError as error:
            mistakes += [_mistake(place, one) for one in error.errors(include_url=False, include_context=False)]
    if mistakes:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        raise RequestRefusedError(status, "invalid request", ROUTES_HINT, mistakes, is_read=True)
    return found


def _mistake(place: str, error: ErrorDetails) -> str:
    return f"{'.'.join(map(str, (place, *error['loc'])))}: {error['msg']}"


def _in_query(model: type[BaseModel], query: QueryParams) -> dict[str, Any]:
    """All values of a list, and of anything else the last one."""
    return {
        name: query.getlist(name)
        if name in model.model_fields and _is_list(model.model_fields[name].annotation)
        else last
        for name, last in query.items()
    }


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        reason = f"{error.msg}, at character {error.pos}"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # an integer of more digits than Python reads
        reason = str(error)
    raise RequestRefusedError(HTTPStatus.BAD_REQUEST, f"the body is not valid JSON: {reason}", is_read=True)


def _values(endpoint: AnyEndpoint, received: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The arguments of the function that answers, with the view that it is asked of, and the client that the request
    names."""
    path, model = received["path"], received.get("body", received["query"])
    values: dict[str, Any] = {}
    for one in endpoint.arguments:
        if one.place == "path":
            is_unit = one.annotation is UnitName
            values[one.name] = f"{path.kernel}/{path.instance}" if is_unit else getattr(path, one.name)
        else:
            values[one.name] = model if one.place == "whole" else getattr(model, one.sent_as)
    client: str | None = values.get("client") or getattr(model, "client", None)
    if endpoint.viewed:
        values["scope"] = client or MAIN
    return values, client


class RequestModels(NamedTuple):
    """Models of a request's path, query and body; None where it has no body."""

    path: type[BaseModel]
    query: type[BaseModel]
    body: type[BaseModel] | None


@cache
def request_models(endpoint: AnyEndpoint) -> RequestModels:
    """The models of an endpoint's requests."""
    fields: dict[str, Any] = {name: (annotation, ...) for name, annotation in in_path(endpoint).items()}
    path = create_model("Path", **fields)
    query: type[BaseModel] = NoQuery
    body = None
    if endpoint.method in ("GET", "DELETE"):
        if fields := _fields(endpoint, "query"):
            query = _model(endpoint, "Query", NoQuery, fields)
    elif endpoint.takes_json:
        whole = next((one for one in endpoint.arguments if one.place == "whole"), None)
        body = whole.annotation if whole else _model(endpoint, "Request", JsonRequest, _fields(endpoint, "json"))
    return RequestModels(path, query, body)


def _fields(endpoint: AnyEndpoint, place: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if endpoint.viewed:
        fields["client"] = (ClientId | None, None)
    for one in endpoint.arguments:
        if one.place == place:
            default = ... if one.default is inspect.Parameter.empty else one.default
            if one.variadic:
                default = None
            fields[one.sent_as] = (endpoint.wire_type(one), Field(default_factory=list) if default == () else default)
    return fields


def _model(endpoint: AnyEndpoint, kind: str, base: type[BaseModel], fields: dict[str, Any]) -> type[BaseModel]:
    name = endpoint.operation.title().replace("_", "") + kind
    checks: dict[str, Any] = {}
    if endpoint.check is not None:
        check = endpoint.check

        def checked(asked: BaseModel) -> BaseModel:
            check(asked)
            return asked

        checks["check"] = model_validator(mode="after")(checked)
    return create_model(name, __base__=base, __doc__=endpoint.__doc__, __validators__=checks, **fields)
