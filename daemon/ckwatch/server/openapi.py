"""The OpenAPI document of all endpoints. FastAPI makes it of their declarations, and serves nothing."""

from __future__ import annotations

import inspect
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query
from pydantic.fields import FieldInfo

from ckwatch.model.version import __version__
from ckwatch.questions.endpoint import AnyEndpoint
from ckwatch.questions.table import ENDPOINTS
from ckwatch.server.routes import PREFIX, NoQuery, in_path, path_of, request_models
from ckwatch.wire.messages import Problem


@cache
def openapi_document() -> dict[str, Any]:
    """The document, as JSON has it. Takes half a second; call from a worker thread."""
    described = FastAPI(title="ckwatch", description="The daemon of one workspace.", version=__version__)
    for one in ENDPOINTS:
        described.add_api_route(
            PREFIX + path_of(one),
            _described(one),
            methods=[one.method],
            operation_id=one.operation,
            response_model=one.sent,
            status_code=HTTPStatus.NO_CONTENT if one.sent is None else HTTPStatus.OK,
            responses={"default": {"model": Problem, "description": "what is wrong"}},
        )
    document = described.openapi()
    for one in ENDPOINTS:
        if one.sent is not None:
            # the framework takes all for JSON
            answer = document["paths"][PREFIX + path_of(one)][one.method.lower()]["responses"]["200"]
            answer["content"] = {one.media: answer["content"]["application/json"]}
    return document


def _described(endpoint: AnyEndpoint) -> Any:
    """A function with the signature that FastAPI reads parameters from."""
    models = request_models(endpoint)
    parameters: dict[str, Any] = {
        name: Annotated[annotation, Path(description=FieldInfo.from_annotation(annotation).description)]
        for name, annotation in in_path(endpoint).items()
    }
    if models.query is not NoQuery:
        parameters["query"] = Annotated[models.query, Query()]
    if models.body is not None:
        parameters["request"] = models.body

    def described() -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    described.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind, annotation=annotation) for name, annotation in parameters.items()]
    )
    described.__name__, described.__doc__ = endpoint.operation, endpoint.__doc__
    return described
