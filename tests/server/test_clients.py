"""When a client is there, and what happens when it has gone."""

from __future__ import annotations

import anyio
import pytest

from benches.served import Serve, Served
from ckwatch.server.clients import Clients, Limits, TooManyError
from ckwatch.wire.encoding import adapter
from ckwatch.wire.messages import Problem
from fakes.patience import PATIENCE_S


class Forgotten(list[str]):
    """The clients that were forgotten, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.news = anyio.Event()

    async def __call__(self, name: str) -> None:
        self.append(name)
        self.news.set()
        self.news = anyio.Event()

    async def until(self, *names: str) -> None:
        with anyio.fail_after(PATIENCE_S):
            while sorted(self) != sorted(names):
                await self.news.wait()


@pytest.fixture
async def forgotten() -> Forgotten:
    return Forgotten()


async def test_a_client_is_remembered_for_a_while(forgotten: Forgotten) -> None:
    async with Clients(forgotten, Limits(grace_s=0.1)).running() as clients:
        began = anyio.current_time()
        async with clients.present("x"):
            await anyio.sleep(0.15)
            assert (len(clients), forgotten) == (1, [])
        assert (len(clients), forgotten) == (1, [])
        await forgotten.until("x")
        assert anyio.current_time() - began >= 0.25
        assert len(clients) == 0


async def test_each_request_begins_the_while_anew(forgotten: Forgotten) -> None:
    for grace_s in (0.3, 1.2, 4.8, 19.2):
        forgotten.clear()
        pauses = []
        async with Clients(forgotten, Limits(grace_s=grace_s)).running() as clients:
            for _ in range(3):
                came = anyio.current_time()
                async with clients.present("x"):
                    pass
                await anyio.sleep(grace_s * 0.4)
                pauses.append(anyio.current_time() - came)
            if max(pauses) >= grace_s:
                continue  # the machine did something else for so long that it was right to forget
            assert forgotten == []
            async with clients.present("y"):
                await forgotten.until("x")
            await forgotten.until("x", "y")
            return
    pytest.fail(f"pauses of {pauses} s")


async def test_a_stream_keeps_its_client(forgotten: Forgotten) -> None:
    async with Clients(forgotten, Limits(grace_s=0)).running() as clients:
        async with clients.stream("x"), clients.stream("x"), clients.stream(None):
            async with clients.present("x"):
                pass
            await anyio.wait_all_tasks_blocked()
            assert (len(clients), clients.streams, forgotten) == (1, 3, [])
        await forgotten.until("x")
        assert clients.streams == 0


async def test_a_request_of_nobody_in_particular_counts_for_none(forgotten: Forgotten) -> None:
    async with Clients(forgotten).running() as clients, clients.present(None):
        assert len(clients) == 0


async def test_one_that_says_that_it_goes_is_forgotten_at_once(forgotten: Forgotten) -> None:
    async with Clients(forgotten).running() as clients:
        reached = False
        await clients.remove("x")
        async with anyio.create_task_group() as tasks, clients.stream("x"):
            tasks.start_soon(clients.remove, "x")
            await anyio.sleep_forever()
            reached = True
        assert (forgotten, len(clients), clients.streams, reached) == (["x"], 0, 0, False)


async def test_one_that_comes_while_it_is_forgotten_waits(forgotten: Forgotten) -> None:
    """Else the engine would drop what it has just lent."""
    forgetting, go_on = anyio.Event(), anyio.Event()
    story = []

    async def forget(name: str) -> None:
        forgetting.set()
        await go_on.wait()
        story.append(f"forgot {name}")

    async def arrive() -> None:
        async with clients.present("x"):
            story.append("x is there")

    async with Clients(forget, Limits(grace_s=0.01)).running() as clients:
        async with clients.present("x"):
            pass
        with anyio.fail_after(PATIENCE_S):
            await forgetting.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(arrive)
            tasks.start_soon(clients.remove, "x")
            await anyio.wait_all_tasks_blocked()
            assert story == []
            go_on.set()
        assert story[:2] == ["forgot x", "x is there"]


async def test_an_engine_that_cannot_forget_does_not_keep_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async def forget(name: str) -> None:
        raise ZeroDivisionError

    async with Clients(forget).running() as clients:
        async with clients.present("x"):
            pass
        await clients.remove("x")
        assert len(clients) == 0
    assert "the client x could not be forgotten" in caplog.text


async def test_there_is_room_for_so_many(forgotten: Forgotten) -> None:
    async with Clients(forgotten, Limits(clients=2, grace_s=0)).running() as clients:
        async with clients.present("a"), clients.present("b"), clients.present("a"):
            with pytest.raises(TooManyError):
                async with clients.present("c"):
                    pass
        await forgotten.until("a", "b")
        async with clients.present("c"):
            assert len(clients) == 1


async def test_a_client_without_a_stream_is_forgotten(serve: Serve) -> None:
    async with serve(grace_s=0.05) as served:
        await served.http.put("/clients/x/overlays", json={"path": "/w/a", "text": "b"})
        await served.engine.until("overlay", "forget")
        assert served.engine.of("forget") == [("x",)]
        assert len(served.clients) == 0


@pytest.mark.parametrize("path", ["/snapshot", "/units", "/files?path=/w/a", "/units/gemm/m128@gfx942"])
async def test_every_request_that_names_a_client_counts(path: str, served: Served) -> None:
    answer = await served.http.get(path, params={"client": "x"} if "?" not in path else {"client": "x", "path": "/w/a"})
    assert answer.status_code == 200
    assert len(served.clients) == 1


async def test_one_that_is_lost_is_forgotten_after_a_while(serve: Serve) -> None:
    async with serve(grace_s=0.05) as served:
        async with served.http.stream("GET", "/events?client=x"):
            await served.engine.until_waiting(1)
            await anyio.sleep(0.15)
            assert served.engine.of("forget") == []
        await served.engine.until("forget")


async def test_leaving_ends_the_clients_streams_and_no_others(served: Served) -> None:
    engine = served.engine
    engine.endless = True
    async with (
        served.http.stream("GET", "/events?client=x") as his,
        served.http.stream("POST", "/builds", json={"client": "x"}) as built,
        served.http.stream("GET", "/events?client=y") as other,
    ):
        await engine.until_waiting(2)
        assert (await served.http.delete("/clients/x")).status_code == 204
        assert engine.of("forget") == [("x",)]
        assert [line async for line in his.aiter_lines()] == ['{"seq":1,"topic":"heartbeat","state":null}']
        assert [line async for line in built.aiter_lines()] == []
        assert engine.building == 0
        lines = other.aiter_lines()
        await anext(lines)
        engine.change("unit/a/b@c", None)
        assert await anext(lines) == '{"seq":2,"topic":"unit/a/b@c","state":null}'
    assert (await served.http.delete("/clients/nobody")).status_code == 204
    assert engine.of("forget") == [("x",)]


async def set_overlay(served: Served, path: str, size: int, client: str = "x") -> tuple[int, str]:
    answer = await served.http.put(f"/clients/{client}/overlays", json={"path": path, "text": "a" * size})
    return answer.status_code, answer.text


async def test_unsaved_text_is_bounded(serve: Serve) -> None:
    async with serve(overlay_bytes=10_000) as served:
        assert (await set_overlay(served, "/w/a", 6000))[0] == 204
        assert (await set_overlay(served, "/w/a", 7000))[0] == 204  # in place of the one before
        status, text = await set_overlay(served, "/w/b", 6000)
        assert status == 507
        assert "unsaved text" in adapter(Problem).validate_json(text).error
        assert (await set_overlay(served, "/w/b", 6000, client="y"))[0] == 204
        assert (await served.http.put("/clients/x/overlays", json={"path": "/w/a", "text": None})).status_code == 204
        assert (await set_overlay(served, "/w/b", 6000))[0] == 204
        lent = [(client, path, text and len(text)) for client, path, text in served.engine.of("overlay")]
        assert lent == [
            ("x", "/w/a", 6000), ("x", "/w/a", 7000), ("y", "/w/b", 6000), ("x", "/w/a", None), ("x", "/w/b", 6000),
        ]  # fmt: skip


async def test_what_the_engine_did_not_take_does_not_count(serve: Serve) -> None:
    async with serve(overlay_bytes=10_000) as served:
        served.engine.fault = ZeroDivisionError()
        assert (await set_overlay(served, "/w/a", 6000))[0] == 500
        assert (await set_overlay(served, "/w/b", 6000))[0] == 204


async def test_one_client_too_many_is_refused(serve: Serve) -> None:
    async with serve(clients=1) as served:
        assert (await set_overlay(served, "/w/a", 1))[0] == 204
        status, text = await set_overlay(served, "/w/a", 1, client="y")
        assert (status, adapter(Problem).validate_json(text).error) == (429, "too many clients: the limit is 1")
        assert (await served.http.get("/events?client=y")).status_code == 429
        assert served.clients.streams == 0
        assert (await served.http.delete("/clients/x")).status_code == 204
        assert (await set_overlay(served, "/w/a", 1, client="y"))[0] == 204
