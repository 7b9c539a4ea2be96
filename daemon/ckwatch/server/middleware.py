"""Middleware around every request: reads the body, whole and within limits, and refuses what is malformed.

A request that is refused here, or in a handler's parameters, never reaches the engine. An exception that a handler does
not catch becomes status 500 and a log entry.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ckwatch.server.clients import Activity, Limits
from ckwatch.server.responses import OUR_FAULT, json_response, problem_response

_log = logging.getLogger(__name__)


class RequestRefusedError(Exception):
    """A request that gets this answer and no other. Unless its body `is_read`, what is left of it is not read."""

    def __init__(
        self,
        status: HTTPStatus,
        error: str,
        hint: str | None = None,
        details: Sequence[str] = (),
        *,
        is_read: bool = False,
    ) -> None:
        super().__init__(error)
        self.answer = problem_response(status, error, hint, details)
        if not is_read:
            self.answer.headers["connection"] = "close"


class ClientDisconnectedError(Exception):
    """The client closed the connection."""


class RequestMiddleware:
    """An ASGI application around `app`."""

    def __init__(self, app: ASGIApp, limits: Limits, activity: Activity) -> None:
        self._app = app
        self._limits = limits
        self._activity = activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._activity.request():
            started = False

            async def sending(message: Message) -> None:
                nonlocal started
                started = True
                await send(message)

            try:
                await self._app(scope, await self._checked(scope, receive), sending)
            except RequestRefusedError as refusal:
                await refusal.answer(scope, receive, send)
            except ClientDisconnectedError:
                return
            except Exception:  # noqa: BLE001 - a fault of ours must not reach beyond the request
                _log.exception("%s %s failed", scope["method"], scope["path"])
                if started:
                    abort(scope)
                else:
                    await json_response(OUR_FAULT, HTTPStatus.INTERNAL_SERVER_ERROR)(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """Return the request's body as the application receives it. Raises RequestRefusedError."""
        headers = Headers(scope=scope)
        if "origin" in headers:
            raise RequestRefusedError(HTTPStatus.FORBIDDEN, "requests of web pages are refused")
        length = headers.get("content-length", "0")
        if length == "0" and "transfer-encoding" not in headers:
            return receive
        limit = self._limit(scope)
        if not limit:
            raise RequestRefusedError(HTTPStatus.BAD_REQUEST, f"{scope['method']} {scope['path']} takes no body")
        if int(length) > limit:
            raise _too_large(limit)
        body = await self._read(receive, limit)
        if body:
            _check_content(headers, body)
        rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Message:
            return rest.pop() if rest else await receive()

        return received

    def _limit(self, scope: Scope) -> int:
        if scope["method"] not in ("POST", "PUT") or scope["path"] == "/v1/stop":
            return 0
        overlay = scope["path"].endswith("/overlays")
        return self._limits.overlay_body_bytes if overlay else self._limits.body_bytes

    async def _read(self, receive: Receive, limit: int) -> bytes:
        parts = []
        size = 0
        with anyio.move_on_after(self._limits.body_s) as in_time:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnectedError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    break
        if in_time.cancelled_caught:
            raise RequestRefusedError(
                HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {self._limits.body_s:g} seconds"
            )
        return b"".join(parts)


def abort(scope: Scope) -> None:
    """Cut the connection, unsent bytes and all; where the server offers no way, the end of the request does it."""
    cut = scope.get("state", {}).get("abort")
    if cut is not None:
        cut()


def _too_large(limit: int) -> RequestRefusedError:
    return RequestRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limit // 2**10} KiB")


def _check_content(headers: Headers, body: bytes) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = headers.get("content-encoding", "identity")
    if kind != "application/json" or encoding != "identity":
        described = f"`{kind or 'nothing'}`" if encoding == "identity" else f"encoded by `{encoding}`"
        raise RequestRefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be `application/json`, not {described}"
        )
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise RequestRefusedError(HTTPStatus.BAD_REQUEST, f"the body is not UTF-8 at byte {error.start}") from error
