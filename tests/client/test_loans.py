"""What is lent, and which requests make the daemon have it."""

from __future__ import annotations

from ckwatch.client.loans import Loans, missing
from ckwatch.wire.messages import FocusRequest, OverlayRequest, ViewRequest


def test_the_last_text_of_a_file_holds() -> None:
    loans = Loans()
    outer = loans.lend("/a", "1")
    inner = loans.lend("/a", "2")
    assert loans.text("/a") == "2"
    loans.take_back(inner)
    assert loans.text("/a") == "1"
    loans.take_back(outer)
    loans.take_back(outer)
    assert loans.text("/a") is None
    assert not loans.differ


def test_additions_stand_below_what_is_there() -> None:
    loans = Loans()
    first = loans.add("/k", "+1", ground="disk")
    second = loans.add("/k", "+2", ground="disk, later")
    assert loans.text("/k") == "disk+1+2"
    buffer = loans.lend("/k", "buffer")
    assert loans.text("/k") == "buffer+1+2"
    loans.take_back(first)
    assert loans.text("/k") == "buffer+2"
    loans.take_back(buffer)
    assert loans.text("/k") == "disk, later+2"
    loans.take_back(second)
    assert loans.text("/k") is None


def test_requests_lead_from_what_is_given_to_what_is_wanted() -> None:
    loans = Loans()
    assert missing(loans.wanted(), {}) == []
    one = loans.lend("/a", "1")
    loans.focus = FocusRequest(files=["/a"])
    wanted = loans.wanted()
    assert missing(wanted, {}) == [
        (("overlays", "/a"), OverlayRequest(path="/a", text="1")),
        (("focus", ""), FocusRequest(files=["/a"])),
    ]
    assert missing(wanted, wanted) == []
    one.text = "2"
    assert missing(loans.wanted(), wanted) == [(("overlays", "/a"), OverlayRequest(path="/a", text="2"))]
    loans.take_back(one)
    loans.focus = None
    loans.view = ViewRequest(archs=["gfx90a"])
    assert missing(loans.wanted(), wanted) == [
        (("overlays", "/a"), OverlayRequest(path="/a", text=None)),
        (("focus", ""), FocusRequest()),
        (("view", ""), ViewRequest(archs=["gfx90a"])),
    ]


def test_what_the_daemon_may_have_is_said_again() -> None:
    loans = Loans()
    loans.lend("/a", "1")
    assert [key for key, _ in missing(loans.wanted(), {("overlays", "/a"): None, ("view", ""): None})] == [
        ("view", ""),
        ("overlays", "/a"),
    ]
