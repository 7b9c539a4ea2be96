"""Unsaved texts, focus and view, and which requests make the daemon have them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from benches.client_bench import Bench
from ckwatch.client import Client
from ckwatch.client.overlays import ClientState, OverlayText, missing
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.messages import UnsavedText
from ckwatch.wire.requests import FocusRequest, OverlayRequest, ViewRequest
from fakes.fake_engine import unit_of


def test_the_last_text_of_a_file_holds() -> None:
    state = ClientState()
    outer = state.add(OverlayText("/a", "1"))
    inner = state.add(OverlayText("/a", "2"))
    assert state.text("/a") == "2"
    state.drop(inner)
    assert state.text("/a") == "1"
    state.drop(outer)
    state.drop(outer)
    assert state.text("/a") is None
    assert not state.differs


def test_additions_stand_below_what_is_there() -> None:
    state = ClientState()
    first = state.add(OverlayText("/k", "+1", "disk"))
    second = state.add(OverlayText("/k", "+2", "disk, later"))
    assert state.text("/k") == "disk+1+2"
    buffer = state.add(OverlayText("/k", "buffer"))
    assert state.text("/k") == "buffer+1+2"
    state.drop(first)
    assert state.text("/k") == "buffer+2"
    state.drop(buffer)
    assert state.text("/k") == "disk, later+2"
    state.drop(second)
    assert state.text("/k") is None


def test_requests_lead_from_what_was_sent_to_what_is_wanted() -> None:
    state = ClientState()
    assert missing(state.requests(), {}) == []
    one = state.add(OverlayText("/a", "1"))
    state.set("focus", FocusRequest(files=["/a"]))
    wanted = state.requests()
    assert missing(wanted, {}) == [
        (("overlays", "/a"), OverlayRequest(path="/a", text="1")),
        (("focus", ""), FocusRequest(files=["/a"])),
    ]
    assert missing(wanted, wanted) == []
    one.text = "2"
    assert missing(state.requests(), wanted) == [(("overlays", "/a"), OverlayRequest(path="/a", text="2"))]
    state.drop(one)
    state.set("focus", None)
    state.set("view", ViewRequest(archs=["gfx90a"]))
    assert missing(state.requests(), wanted) == [
        (("overlays", "/a"), OverlayRequest(path="/a", text=None)),
        (("focus", ""), FocusRequest()),
        (("view", ""), ViewRequest(archs=["gfx90a"])),
    ]


def test_what_the_daemon_may_have_is_said_again() -> None:
    state = ClientState()
    state.add(OverlayText("/a", "1"))
    assert [key for key, _ in missing(state.requests(), {("overlays", "/a"): None, ("view", ""): None})] == [
        ("view", ""),
        ("overlays", "/a"),
    ]


pytestmark = pytest.mark.usefixtures("nothing_blocks")


async def test_an_overlay(client: Client, daemon: Bench) -> None:
    async with client.overlay("templates/x.j2", "one") as overlay:
        assert overlay.path == "/w/templates/x.j2"
        await client.units()
        await overlay.change("two")
        await overlay.change("two")
        await client.units()
    await client.units()
    assert daemon.engine.of("overlay") == [
        ("me", "/w/templates/x.j2", "one"),
        ("me", "/w/templates/x.j2", "two"),
        ("me", "/w/templates/x.j2", None),
    ]
    assert [client for client, _ in daemon.engine.of("units")] == ["me", "me", None]
    await daemon.relay.until_open(0)


async def test_everything_is_asked_in_the_clients_view(client: Client, daemon: Bench) -> None:
    unit = "gemm/m128@gfx942"
    async with client.overlay("x", "text"):
        await client.unit(unit)
        await client.rendered(unit)
        await client.artifact(unit)
        await client.diagnostics("x")
        await client.build(unit)
        await client.cancel()
    asked = [
        call for call in daemon.engine.asked if call[0] in ("unit", "rendered", "artifact", "file", "build", "cancel")
    ]
    assert [call[1] for call in asked] == ["me"] * 6


async def test_half_a_utf_16_pair(client: Client, daemon: Bench) -> None:
    async with client.overlay("x", "a\ud83db\U0001f600"):
        pass
    assert daemon.engine.of("overlay")[0] == ("me", "/w/x", "a\ufffdb\U0001f600")


async def test_only_the_last_of_many_texts_need_arrive(client: Client, daemon: Bench) -> None:
    async with client.overlay("x", "0") as overlay:
        async with anyio.create_task_group() as tasks:
            for number in range(1, 50):
                tasks.start_soon(overlay.change, str(number))
        texts = [text for _, _, text in daemon.engine.of("overlay")]
        assert texts[-1] == "49"
        assert len(texts) < 10


async def test_a_refused_text_is_no_overlay(client: Client, daemon: Bench) -> None:
    with pytest.raises(CkwatchError, match="it is refused"):
        async with client.overlay("x", "refused"):
            pytest.fail("it was refused")
    async with client.overlay("x", "one") as overlay:
        with pytest.raises(CkwatchError, match="it is refused"):
            await overlay.change("refused")
        async with client.overlay("y", "text"):
            pass
    assert [text for _, path, text in daemon.engine.of("overlay") if path == "/w/x"] == [
        "refused",
        None,
        "one",
        "refused",
        "one",  # which of the two it has is not known to the client
        None,
    ]


async def test_focus_and_view(client: Client, daemon: Bench) -> None:
    await client.focus("gemm/*", files=["x.j2"])
    await client.focus(everything=True)
    await client.view(archs=["gfx90a"], rules=False)
    with pytest.raises(CkwatchError, match="invalid request"):
        await client.view(archs=[""])
    await client.units()
    await client.view()
    await client.focus(unsaved="none")
    await client.focus()
    assert daemon.engine.of("focus") == [
        ("me", ["gemm/*"], ["/w/x.j2"], False, "edited"),
        ("me", [], [], True, "edited"),
        ("me", [], [], False, "none"),
        ("me", [], [], False, "edited"),
    ]
    once, again, none = daemon.engine.of("view")
    assert once == again == ("me", ["gfx90a"], False, None)
    assert none == ("me", [], True, None)
    assert daemon.engine.of("units") == [("me", None)]
    await daemon.relay.until_open(0)


async def test_editors(client: Client, daemon: Bench) -> None:
    assert await client.show("templates/a b.j2", 3) == await client.show(Path("/ck/ck.hpp"), 41, 7) == 2
    assert daemon.engine.of("show") == [("/w/templates/a b.j2", 3, 0), ("/ck/ck.hpp", 41, 7)]
    with pytest.raises(CkwatchError, match="line: Input should be greater than or equal to 0"):
        await client.show("x", -1)
    await client.editor(shows=True)
    await client.editor(shows=True)
    await daemon.killed()
    daemon.engine.asked.clear()
    await daemon.engine.until("editor")
    assert daemon.engine.of("editor") == [("me", True)]
    await client.editor(shows=False)
    assert daemon.engine.of("editor") == [("me", True), ("me", False)]
    assert await client.unsaved() == [UnsavedText(path="/w/a.j2", text="unsaved")]


async def test_everything_is_sent_again_to_the_next_daemon(client: Client, daemon: Bench) -> None:
    async with client.overlay("x", "text"):
        await client.focus("gemm")
        await daemon.killed()
        daemon.engine.asked.clear()
        await daemon.engine.until("overlay", "focus")
        assert daemon.engine.of("overlay") == [("me", "/w/x", "text")]
    assert daemon.starts == 1


async def test_a_stopped_daemon_stays_stopped_until_something_is_asked(client: Client, daemon: Bench) -> None:
    async with client.overlay("x", "text"):
        await daemon.stopped()
        await anyio.wait_all_tasks_blocked()
        assert daemon.starts == 0
        daemon.engine.asked.clear()
        await daemon.ready_again()
        await client.units()
        calls = [call for call in daemon.engine.asked if call[0] in ("overlay", "units")]
        assert calls == [("overlay", "me", "/w/x", "text"), ("units", "me", None)]
    assert daemon.starts == 1


async def test_a_text_that_changed_while_there_was_no_daemon(client: Client, daemon: Bench) -> None:
    async with client.overlay("x", "one") as overlay, client.overlay("y", "gone"):
        await daemon.killed()
        await overlay.change("two")
    assert daemon.starts == 1
    assert [text for _, path, text in daemon.engine.of("overlay") if path == "/w/x"] == ["one", "two", None]


async def test_an_overlay_ends_without_a_daemon(daemon: Bench) -> None:
    async with daemon.client(start=False) as client, client.overlay("x", "text"):
        await daemon.killed()


async def test_the_end_of_a_client_reaches_the_daemon(daemon: Bench) -> None:
    async with daemon.client() as client:
        await client.focus(everything=True)
    assert daemon.engine.of("forget") == [("me",)]


async def test_a_client_that_only_asked_says_nothing(daemon: Bench) -> None:
    async with daemon.client() as client:
        await client.units()
    assert daemon.engine.of("forget") == []


async def test_events_of_a_view_begin_anew_when_it_may_have_been_forgotten(client: Client, daemon: Bench) -> None:
    async with client.overlay("x", "text"), client.events() as events:
        await anext(events)
        await daemon.relay.cut()
        daemon.engine.change("unit/gemm/m128@gfx942", unit_of(edited=1))
        assert (await anext(events)).seq == 2
    assert daemon.engine.of("snapshot") == [("me",), ("me",)]
