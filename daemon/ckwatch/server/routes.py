"""A route for each endpoint: the request's models and how the answer is sent follow from the declaration.

A client that a request names is present while the request lasts. Responses are formed here and not by FastAPI, which
would validate and convert them once more.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo

from ckwatch.core.events import MAIN
from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.endpoint import AnyEndpoint, Argument, UnitName
from ckwatch.questions.table import ENDPOINTS, Answers
from ckwatch.server import streams
from ckwatch.server.clients import Clients, Limits
from ckwatch.server.engine_api import Engine
from ckwatch.server.responses import json_response
from ckwatch.wire.requests import OverlayRequest
from ckwatch.wire.schema import ClientId, Request
from ckwatch.wire.state import Snapshot, Unit

Handler = Callable[..., Awaitable[Response]]


class NoQuery(BaseModel):
    """None."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def takes_no_query(_query: Annotated[NoQuery, Query()]) -> None:
    """Refuses all query parameters of a route that has none."""


UNIT_IN_PATH = {
    "kernel": Annotated[str, Path(description="the first part of a unit's id", max_length=4096)],
    "instance": Annotated[str, Path(description="the rest of a unit's id: INSTANCE@ARCH", max_length=4096)],
}


def path_of(endpoint: AnyEndpoint) -> str:
    """The path of the route: that of a unit has two segments."""
    return endpoint.path.replace("{unit}", "{kernel}/{instance}")


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

    def handler(self, endpoint: AnyEndpoint) -> Handler:
        """The handler of an endpoint, with the signature that FastAPI reads its parameters from."""
        in_path = [one for one in endpoint.arguments if one.place == "path"]
        parameters: dict[str, Any] = {}
        for one in in_path:
            parameters |= UNIT_IN_PATH if one.annotation is UnitName else {one.name: _in_path(endpoint, one)}
        if (query := _query_model(endpoint)) is not None:
            parameters["query"] = Annotated[query, Query()]
        elif endpoint.takes_json:
            parameters["request"] = _json_model(endpoint)

        async def handle(**received: Any) -> Response:
            values, client = _values(endpoint, received)
            return await self._respond(endpoint, values, client)

        kind = inspect.Parameter.KEYWORD_ONLY
        handle.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind, annotation=annotation) for name, annotation in parameters.items()]
        )
        handle.__name__, handle.__doc__ = endpoint.operation, endpoint.__doc__
        return handle

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
    if isinstance(answer, Snapshot):
        return streams.json_stream(streams.snapshot_pieces(answer, shared), shared)
    if endpoint.answer == list[Unit]:
        return streams.json_stream(streams.units_pieces(answer, shared), shared)
    if endpoint.answer is str:
        return PlainTextResponse(answer.encode(errors="replace"))
    if endpoint.answer is int:
        return Response(b"%d" % answer, media_type="application/json")
    return json_response(answer) if endpoint.answer is not None else Response(status_code=HTTPStatus.NO_CONTENT)


def _values(endpoint: AnyEndpoint, received: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The arguments of the function that answers, with the view that it is asked of, and the client that the request
    names."""
    model = received.get("query") or received.get("request")
    values: dict[str, Any] = {}
    for one in endpoint.arguments:
        if one.place == "path":
            is_unit = one.annotation is UnitName
            values[one.name] = f"{received['kernel']}/{received['instance']}" if is_unit else received[one.name]
        else:
            values[one.name] = model if one.place == "whole" else getattr(model, one.sent_as)
    client: str | None = values.get("client") or getattr(model, "client", None)
    if endpoint.viewed:
        values["scope"] = client or MAIN
    return values, client


def _in_path(endpoint: AnyEndpoint, argument: Argument) -> Any:
    annotation = endpoint.wire_type(argument)
    return Annotated[annotation, Path(description=FieldInfo.from_annotation(annotation).description)]


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


def _query_model(endpoint: AnyEndpoint) -> type[BaseModel] | None:
    if endpoint.method not in ("GET", "DELETE") or not (fields := _fields(endpoint, "query")):
        return None
    return _model(endpoint, "Query", NoQuery, fields)


def _json_model(endpoint: AnyEndpoint) -> type[BaseModel]:
    whole = next((one for one in endpoint.arguments if one.place == "whole"), None)
    if whole is not None:
        found: type[BaseModel] = whole.annotation
        return found
    return _model(endpoint, "Request", Request, _fields(endpoint, "json"))


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
