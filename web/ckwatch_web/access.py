"""Who may see the page: its user's browser, and nobody else.

A page on loopback can be reached by every program of the machine, by other users of it, and by every page that the
browser has open. So each request must name this server in `Host` (a name that was rebound to 127.0.0.1 does not), come
from this page where it says where it comes from, and carry a cookie that is given for a token. A token opens the page
once. Every user of the machine can read command lines, so a browser that is started gets the path of a private file
that leads to the address. Headers keep the page out of frames, and scripts other than its own out of the page.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from ckwatch import CkwatchError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_S = 600.0
"""How long a token for another browser is good, and how long the first one."""

HOST = "127.0.0.1"
BACKLOG = 128
NOTHING: Mapping[str, str] = {}
TOKEN = "token"  # noqa: S105  # the name in the address
SAFE_METHODS = ("GET", "HEAD")

_POLICY = (
    "default-src 'none'",
    # NiceGUI's Vue compiles templates in the browser, which takes 'unsafe-eval'; inline scripts need the answer's nonce
    "script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self' {sockets}",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
)

_OWN_POLICY = b"default-src 'none'; frame-ancestors 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'"
"""Of the pages here, which have no script; the one that lets a browser in loads some for the next."""

_HEADERS = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Keys:
    """The cookie of a server, and the tokens that it is given for, each once and in time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._value = secrets.token_urlsafe(32)
        self._tokens: dict[str, tuple[float, Path | None]] = {}

    def new_token(self, file: Path | None = None) -> str:
        """A token that opens the page in one browser; `file`, which names it, is removed then."""
        token = secrets.token_urlsafe(32)
        self._tokens[token] = self._now() + TOKEN_S, file
        return token

    def cookie_for(self, token: str) -> str | None:
        """The cookie's value, for a token that was not used; it is used now. None for any other text."""
        until, file = self._tokens.pop(token, (-1.0, None))
        if file is not None:
            file.unlink(missing_ok=True)
        return self._value if self._now() <= until else None

    def fits(self, value: str) -> bool:
        """Return True if this is the cookie's value."""
        return hmac.compare_digest(value.encode(), self._value.encode())


def listen(port: int) -> socket.socket:
    """A socket on loopback; at any free port for 0. Raises CkwatchError for one that is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(BACKLOG)  # a browser that comes before the server waits
    except OSError as error:
        listener.close()
        text = f"port {port} cannot be used: {error.strerror}"
        raise CkwatchError(text, "without --port a free one is taken") from None
    return listener


def address_of(port: int, keys: Keys, path: str = "/", file: Path | None = None) -> str:
    """The address of a page on this server that opens it in one browser; `path` may have a query, `file` is as of
    `new_token`."""
    return f"http://{HOST}:{port}{path}{'&' if '?' in path else '?'}{TOKEN}={keys.new_token(file)}"


@contextmanager
def entrance(folder: Path, port: int, keys: Keys) -> Iterator[Path]:
    """A file within `folder` that leads one browser to the page: only the user can read it, and it is removed when it
    was used, or at the end. Raises OSError."""
    with TemporaryDirectory(prefix="ckwatch-web-", dir=folder, ignore_cleanup_errors=True) as private:
        file = Path(private) / "open.html"
        file.touch(mode=0o600)
        file.write_text(_ENTER.format(target=escape(address_of(port, keys, file=file))), encoding="utf-8")
        yield file


class Guard:
    """The application `app` behind these rules, as served at a port of 127.0.0.1. A browser that is let in
    loads the scripts and styles at the addresses `first` (with how a link says so) while it waits for the page."""

    def __init__(self, app: ASGIApp, port: int, keys: Keys, first: Mapping[str, str] = NOTHING) -> None:
        self._app = app
        self._first = "".join(f"<link rel={how} href='{escape(address)}'>" for address, how in first.items())
        self._keys = keys
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}
        # browsers send cookies to all ports of a host: each server has a name of its own
        self.cookie = f"ckwatch_{port}"
        self._sockets = " ".join(f"ws://{host}" for host in sorted(self._hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        why = self._refusal(scope, headers)
        if why is not None:
            await _refuse(scope, send, why)
            return
        known = any(name == self.cookie and self._keys.fits(value) for name, value in _cookies(headers))
        if scope["type"] == "websocket":
            await (self._app(scope, receive, send) if known else _refuse(scope, send, "no key"))
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == TOKEN]
        target = _address(scope["path"], [(name, value) for name, value in query if name != TOKEN])
        if tokens and scope["method"] == "GET":
            value = None if known else self._keys.cookie_for(tokens[0])
            await self._enter(send, target, value, known=known)
        elif known:
            # nothing stands between a browser and this server: a prefix in a header would be somebody's invention
            own = [(name, value) for name, value in headers if not name.startswith(b"x-forwarded")]
            await self._app({**scope, "headers": own}, receive, self._guarded(send))
        else:
            await self._send_page(send, 403, _NO_KEY.format(target=escape(target)))

    def _refusal(self, scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Why a request is not one of the page's own; None if it is."""
        hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "this server has another name"
        origins = [value.decode("latin-1").lower() for name, value in headers if name == b"origin"]
        must_tell = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if any(origin not in self._origins for origin in origins) or (must_tell and len(origins) != 1):
            return "a request of another page"
        return None

    async def _enter(self, send: Send, target: str, value: str | None, *, known: bool) -> None:
        """Answer a request with a token: give the cookie, and go on without the token in the address.

        By a page of its own, and no redirect: the browser sends a strict cookie only where this server's own page leads
        to the next one.
        """
        if value is None and not known:
            await self._send_page(send, 403, _USED)
            return
        cookie = f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Strict"
        given = [] if value is None else [(b"set-cookie", cookie.encode())]
        await self._send_page(send, 200, _ENTER.format(target=escape(target)) + self._first, given)

    async def _send_page(self, send: Send, status: int, body: str, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        text = body.encode()
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(text)).encode()),
            (b"cache-control", b"no-store"),
            (b"content-security-policy", _OWN_POLICY),
            *_HEADERS,
            *more,
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    def _guarded(self, send: Send) -> Send:
        """Adds the headers to an answer, and its nonce to the scripts of a page."""
        nonce = secrets.token_urlsafe(16)
        policy = "; ".join(_POLICY).format(nonce=nonce, sockets=self._sockets).encode()
        held: list[Message] = []

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *_HEADERS, (b"content-security-policy", policy)]
                message = {**message, "headers": headers}
                if any(name.lower() == b"content-type" and b"text/html" in value for name, value in headers):
                    held.append(message)
                    return
            elif held:
                held.append(message)
                if message.get("more_body", False):
                    return
                body = b"".join(part.get("body", b"") for part in held[1:])
                body = body.replace(b"<script", b'<script nonce="%s"' % nonce.encode())
                start = held[0]
                kept = [(name, value) for name, value in start["headers"] if name.lower() not in _LENGTHS]
                length = (b"content-length", str(len(body)).encode())
                await send({**start, "headers": [*kept, length, (b"cache-control", b"no-store")]})
                await send({"type": "http.response.body", "body": body})
                return
            await send(message)

        return guarded


_LENGTHS = (b"content-length", b"cache-control")

_STYLE = (
    "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<meta name=referrer content=no-referrer>"
    "<title>ckwatch</title><style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;"
    "max-width:40rem;margin:4rem auto;padding:0 1rem}}</style>"
)
_ENTER = _STYLE + "<meta http-equiv=refresh content='0;url={target}'><p><a href='{target}'>Open ckwatch</a></p>"
_NO_KEY = _STYLE + (
    "<h1>This browser has no key</h1><p>Open the address that <code>ckwatch web</code> has printed, or “Another "
    "browser” on a page that is open. If you came here by a link on another site: <a href='{target}'>go on</a>.</p>"
)
_USED = _STYLE.format() + (
    "<h1>This address was used already</h1><p>Each opens the page once, within ten minutes. “Another browser” on a "
    "page that is open makes a new one; so does <code>ckwatch web</code>, run again.</p>"
)


def _address(path: str, query: list[tuple[str, str]]) -> str:
    """A path of this server; one that begins with two slashes would be another server's."""
    return "/" + quote(path.lstrip("/")) + (f"?{urlencode(query)}" if query else "")


def _cookies(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, content = part.strip().partition("=")
                yield key, content


async def _refuse(scope: Scope, send: Send, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
        return
    body = f"ckwatch: refused: {why}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
