"""Who may see the page: hosts, origins, tokens, cookies and headers, without a browser."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from ckwatch_web.access import TOKEN_S, Guard, Keys, entrance

PORT = 4321
HOST = f"127.0.0.1:{PORT}"
PAGE = b"<html><script>a</script><SCRIPT src=b></SCRIPT><script type=module>c</script></html>"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """A page in two pieces; everything else as text."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    html = scope["path"] != "/text"
    kind = b"text/html; charset=utf-8" if html else b"text/plain"
    headers = [(b"content-type", kind), (b"content-length", str(len(PAGE)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE[:20], "more_body": True})
    await send({"type": "http.response.body", "body": PAGE[20:]})


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(clock: Clock) -> Keys:
    return Keys(clock)


@pytest.fixture
def browser(keys: Keys) -> httpx.AsyncClient:
    """A browser without a cookie, as it asks this server."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(Guard(app, PORT, keys)), base_url=f"http://{HOST}")


async def enter(browser: httpx.AsyncClient, keys: Keys, path: str = "/") -> httpx.Response:
    return await browser.get(path, params={"token": keys.new_token()})


async def test_a_token_gives_a_cookie_that_opens_the_page(browser: httpx.AsyncClient, keys: Keys) -> None:
    assert (await browser.get("/")).status_code == 403
    entered = await enter(browser, keys, "/history")
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"ckwatch_{PORT}=")
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert "url=/history" in entered.text
    assert "token" not in entered.text
    page = await browser.get("/history")
    assert page.status_code == 200


async def test_a_token_is_good_once(browser: httpx.AsyncClient, keys: Keys) -> None:
    token = keys.new_token()
    assert (await browser.get("/", params={"token": token})).status_code == 200
    browser.cookies.clear()
    again = await browser.get("/", params={"token": token})
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


async def test_a_token_is_good_for_ten_minutes(browser: httpx.AsyncClient, keys: Keys, clock: Clock) -> None:
    token = keys.new_token()
    clock.now = TOKEN_S + 1
    assert (await browser.get("/", params={"token": token})).status_code == 403


async def test_who_has_the_cookie_needs_no_token(browser: httpx.AsyncClient, keys: Keys) -> None:
    await enter(browser, keys)
    used = await browser.get("/", params={"token": "used long ago", "unit": "a/b@c"})
    assert used.status_code == 200
    assert "unit=a%2Fb%40c" in used.text


@pytest.mark.parametrize("path", ["//elsewhere.example/", "/%2F%2Felsewhere.example", "/\\elsewhere.example"])
async def test_a_token_leads_nowhere_else(browser: httpx.AsyncClient, keys: Keys, path: str) -> None:
    target = f"http://{HOST}{path}?token={keys.new_token()}"
    text = (await browser.get(target)).text
    assert "url=//" not in text
    assert "url=/\\" not in text
    assert "url=/" in text


async def test_an_address_is_escaped(browser: httpx.AsyncClient, keys: Keys) -> None:
    for path in ("/", f"/?token={keys.new_token()}"):
        answer = await browser.get(path, params={"unit": "'><script>alert(1)</script>"} if path == "/" else None)
        assert "<script" not in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"0.0.0.0:{PORT}", ""]
)
async def test_another_host_is_refused(browser: httpx.AsyncClient, keys: Keys, host: str) -> None:
    await enter(browser, keys)
    refused = await browser.get("/", headers={"host": host})
    assert refused.status_code == 403
    token = keys.new_token()
    assert "set-cookie" not in (await browser.get("/", params={"token": token}, headers={"host": host})).headers
    assert keys.cookie_for(token) is not None, "a refused request uses no token up"


async def test_localhost_is_this_server_too(browser: httpx.AsyncClient, keys: Keys) -> None:
    await enter(browser, keys)
    value = browser.cookies[f"ckwatch_{PORT}"]
    headers = {"host": f"localhost:{PORT}", "cookie": f"ckwatch_{PORT}={value}"}
    assert (await browser.get("/", headers=headers)).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://{HOST}", "http://127.0.0.1:1", ""])
async def test_another_origin_is_refused(browser: httpx.AsyncClient, keys: Keys, origin: str) -> None:
    await enter(browser, keys)
    for method in ("GET", "POST"):
        assert (await browser.request(method, "/", headers={"origin": origin})).status_code == 403


async def test_what_changes_something_must_say_where_it_comes_from(browser: httpx.AsyncClient, keys: Keys) -> None:
    await enter(browser, keys)
    assert (await browser.post("/")).status_code == 403
    assert (await browser.post("/", headers={"origin": f"http://{HOST}"})).status_code == 200


@pytest.mark.parametrize("cookie", ["", "ckwatch_4321=guess", "ckwatch_1=VALUE", "other=VALUE"])
async def test_another_cookie_is_none(browser: httpx.AsyncClient, keys: Keys, cookie: str) -> None:
    await enter(browser, keys)
    value = browser.cookies[f"ckwatch_{PORT}"]
    browser.cookies.clear()
    answer = await browser.get("/", headers={"cookie": cookie.replace("VALUE", value)})
    assert answer.status_code == 403


async def test_headers_keep_others_out(browser: httpx.AsyncClient, keys: Keys) -> None:
    await enter(browser, keys)
    pages = [await browser.get("/"), await browser.get("/")]
    policies = [page.headers["content-security-policy"] for page in pages]
    assert policies[0] != policies[1], "a nonce is used once"
    for page, policy in zip(pages, policies, strict=True):
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert "'unsafe-inline'" not in rules["script-src"]
        nonce = rules["script-src"].partition("'nonce-")[2].partition("'")[0]
        assert page.text.count(f'<script nonce="{nonce}"') == 2
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"
        assert int(page.headers["content-length"]) == len(page.content)


async def test_other_answers_are_as_they_were(browser: httpx.AsyncClient, keys: Keys) -> None:
    await enter(browser, keys)
    answer = await browser.get("/text")
    assert answer.content == PAGE
    assert answer.headers["x-content-type-options"] == "nosniff"


async def websocket(guard: Guard, headers: dict[str, str]) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": "websocket", "path": "/_nicegui_ws/", "query_string": b"", "headers": pairs}
    await guard(scope, receive, send)
    return sent


async def test_a_websocket_needs_host_origin_and_cookie(keys: Keys) -> None:
    guard = Guard(app, PORT, keys)
    value = keys.cookie_for(keys.new_token())
    good = {"host": HOST, "origin": f"http://{HOST}", "cookie": f"a=b; {guard.cookie}={value}"}
    assert await websocket(guard, good) == [{"type": "websocket.accept"}]
    for wrong in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"cookie": f"{guard.cookie}=x"}):
        sent = await websocket(guard, good | wrong)
        assert [message["type"] for message in sent] == ["websocket.close"], wrong
    for name in good:
        sent = await websocket(guard, {key: one for key, one in good.items() if key != name})
        assert [message["type"] for message in sent] == ["websocket.close"], name


async def test_a_file_leads_one_browser_to_the_page(tmp_path: Path, browser: httpx.AsyncClient, keys: Keys) -> None:
    with entrance(tmp_path, PORT, keys) as file:
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)]
        assert modes == [0o700, 0o600]
        text = file.read_text()
        assert "<meta name=referrer content=no-referrer>" in text
        address = text.partition("url=")[2].partition("'")[0]
        assert address.startswith(f"http://{HOST}/?token=")
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}  # as after a page from a disk
        assert "set-cookie" in (await browser.get(address, headers=headers)).headers
        assert not file.exists()
    with entrance(tmp_path, PORT, keys) as file:
        assert file.exists()
    assert not file.parent.exists()
