"""The server before the page is there: what it answers, and what waits."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import cast

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ckwatch_web import server
from ckwatch_web.access import Guard, Keys
from ckwatch_web.feed import Feed
from ckwatch_web.server import FIRST, EarlyApp, serve

HOST = "127.0.0.1:4321"


@pytest.fixture
def app() -> EarlyApp:
    return EarlyApp()


@pytest.fixture
def browser(app: EarlyApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}")


async def test_a_browser_that_is_let_in_loads_scripts_before_the_page_is_there(app: EarlyApp) -> None:
    keys = Keys()
    guarded = httpx.ASGITransport(Guard(app, 4321, keys, app.first))
    async with httpx.AsyncClient(transport=guarded, base_url=f"http://{HOST}") as browser:
        script = next(iter(app.first))
        assert (await browser.get(script)).status_code == 403
        entered = await browser.get("/", params={"token": keys.new_token()})
        assert len(app.first) == len(FIRST), "NiceGUI has other files"
        for address, how in app.first.items():
            assert f"<link rel={how} href='{address}'>" in entered.text
            answer = await browser.get(address)
            assert answer.content
            assert ("javascript" if "style" not in how else "css") in answer.headers["content-type"]
            assert "max-age" in answer.headers["cache-control"]


@pytest.mark.parametrize("name", ["../version.py", "%2e%2e/version.py", "sad_face.svg", ""])
async def test_all_else_waits_for_the_page(app: EarlyApp, browser: httpx.AsyncClient, name: str) -> None:
    answers = []
    address = next(iter(app.first)).rpartition("/")[0]

    async def get() -> None:
        answers.append(await browser.get(f"{address}/{name}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get)
        await anyio.wait_all_tasks_blocked()
        assert not answers
        app.set(PlainTextResponse("the page"))
    assert [one.text for one in answers] == ["the page"]


async def test_a_request_that_is_cut_off_at_the_end_is_not_spoken_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = anyio.Event()

    async def never(_: Request) -> PlainTextResponse:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    page = Starlette(routes=[Route("/never", never)])
    monkeypatch.setattr(server, "_load_pages", lambda: SimpleNamespace(make_page=lambda *_, **__: page))
    monkeypatch.setattr(server, "END_S", 0)
    listener, keys = socket.create_server(("127.0.0.1", 0)), Keys()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=address) as browser, anyio.create_task_group() as tasks:

        async def ask() -> None:
            await browser.get("/", params={"token": keys.new_token()})
            assert (await browser.get("/never")).is_server_error

        tasks.start_soon(ask)
        async with anyio.create_task_group() as served:
            served.start_soon(lambda: serve(cast("Feed", None), listener, keys, allow_changes=False))
            await asked.wait()
            served.cancel_scope.cancel()
    assert not caplog.records
