"""Responses as bytes, and the errors that become one."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from http import HTTPStatus

import pydantic_core
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ckwatch.model.errors import CkwatchError, DiagnosedError, UnknownUnitError, UntrustedError
from ckwatch.server.clients import OverlaysTooLargeError, TooManyError
from ckwatch.wire.encoding import adapter, to_json
from ckwatch.wire.messages import Problem
from ckwatch.wire.rows import UnitRow

_log = logging.getLogger(__name__)

STATUS_OF: dict[type[CkwatchError], HTTPStatus] = {
    UnknownUnitError: HTTPStatus.NOT_FOUND,
    UntrustedError: HTTPStatus.FORBIDDEN,
    TooManyError: HTTPStatus.TOO_MANY_REQUESTS,
    OverlaysTooLargeError: HTTPStatus.INSUFFICIENT_STORAGE,
}
"""Errors that are not 400."""

ROUTES_HINT = "GET /v1/openapi.json describes the API."
OUR_FAULT = Problem(error="internal error in the daemon", hint="See `ckwatch logs`.")


def json_bytes(value: object) -> bytes:
    """JSON in UTF-8. What is no Unicode (names of files in another encoding) becomes `?`."""
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, UnitRow):
        return b"[" + b",".join(map(json_bytes, value)) + b"]"
    try:
        return to_json(value)
    except (pydantic_core.PydanticSerializationError, UnicodeEncodeError):
        plain = adapter(type(value)).dump_python(value)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def text_bytes(text: str) -> bytes:
    """A JSON string in UTF-8."""
    return json.dumps(text, ensure_ascii=False).encode(errors="replace")


def json_response(value: object, status: int = HTTPStatus.OK) -> Response:
    """An answer of moderate size; larger ones go in pieces (`streams`)."""
    return Response(json_bytes(value), status, media_type="application/json")


def problem_response(status: int, error: str, hint: str | None = None, details: Sequence[str] = ()) -> Response:
    """The answer that something is wrong."""
    return json_response(Problem(error=error, hint=hint, details=tuple(details)), status)


def problem_of(error: CkwatchError) -> Problem:
    """Convert a user's mistake to a value."""
    details: tuple[str, ...] = ()
    if isinstance(error, DiagnosedError):
        details = tuple(f"{diagnostic.span}: {diagnostic.message}" for diagnostic in error.diagnostics)
    return Problem(error=error.message, hint=error.hint, details=details)


def error_response(error: CkwatchError) -> Response:
    """Convert a user's mistake to a response."""
    status = next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), HTTPStatus.BAD_REQUEST)
    return json_response(problem_of(error), status)


async def on_error(_request: Request, error: Exception) -> Response:
    """The handler of CkwatchError."""
    assert isinstance(error, CkwatchError)  # noqa: S101 - for the type checker: it is registered for nothing else
    return error_response(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """The handler of what the framework refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    where = f"{request.method} {request.url.path}"
    message = {
        HTTPStatus.NOT_FOUND: f"there is no {request.url.path}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"there is no {where}",
    }.get(HTTPStatus(error.status_code), f"{where}: {error.detail}")
    answer = problem_response(error.status_code, message, ROUTES_HINT)
    answer.headers.update(error.headers or {})
    return answer
