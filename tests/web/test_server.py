"""The server before the page is there: what it answers, and what waits."""

from __future__ import annotations

import anyio
import httpx
import pytest
from starlette.responses import PlainTextResponse

from ckwatch_web.access import Guard, Keys
from ckwatch_web.server import FIRST, EarlyApp

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
