"""A stored log is shown at the places of a text that differs in blanks and comments."""

from __future__ import annotations

import pytest

from ckwatch.checks.clang_output import ClangRange, parse_clang_log, position_in
from ckwatch.checks.rebase import rebase
from ckwatch.model.text import LineIndex
from helpers.clang_logs import case

OLD = '#include "a.hpp"\nint größe = blok / 256;  // old\nvoid f() { g(größe, 2) }\n'
NEW = '// a new first line: größer\n#include   "a.hpp"\n\nint   größe =\n    /* é */ blok/ 256;\nvoid f()\n{\n\tg(größe,\n 2) }\n'


def moved(line: str, old: str = OLD, new: str = NEW) -> str:
    """The place, ranges and text that a message in `old` has in `new`, as clang would print them."""
    (message,) = rebase(
        parse_clang_log(line),
        path="/s/x.hip",
        old=old,
        new=new,
    )
    assert message.position is not None
    ranges = "".join(
        f"{{{entry.start.line}:{entry.start.column}-{entry.end.line}:{entry.end.column}}}" for entry in message.ranges
    )
    return f"{message.position.line}:{message.position.column}:{ranges}"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("2:15:{2:15-2:19}", "5:14:{5:14-5:18}"),  # blok, behind a two-byte character on both sides
        ("2:5:", "4:7:"),  # größe
        ("2:15:{2:15-2:25}", "5:14:{5:14-5:23}"),  # blok / 256, less wide now
        ("3:14:{3:14-3:24}", "8:4:{8:4-9:3}"),  # an argument list that spans lines now
        ("2:25:", "5:23:"),  # the end of 256: a missing semicolon
        ("1:10:{1:10-1:17}", "2:12:{2:12-2:19}"),  # the header's name
    ],
)
def test_places(place: str, expected: str) -> None:
    assert moved(f"/s/x.hip:{place}{' ' if place.endswith(':') else ': '}error: bad") == expected


def test_notes_fixits_and_inclusions_move_and_headers_stay() -> None:
    log = (
        "In file included from /s/x.hip:1:\n/s/a.hpp:2:2: error: in header\n/s/x.hip:3:12: note: from here\n"
        '/s/x.hip:2:15: error: name\nfix-it:"/s/x.hip":{2:15-2:19}:"blocks"\n'
    )
    header, name = rebase(parse_clang_log(log), path="/s/x.hip", old=OLD, new=NEW)
    assert header.position is not None
    assert (header.path, header.position.line, header.position.column) == ("/s/a.hpp", 2, 2)
    assert [(step.path, step.line) for step in header.include_chain] == [("/s/x.hip", 2)]
    note = header.notes[0]
    assert note.position is not None
    assert (note.path, note.position.line, note.position.column) == ("/s/x.hip", 8, 2)
    (fixit,) = name.fixits
    assert (fixit.path, fixit.range.start.line, fixit.range.start.column) == ("/s/x.hip", 5, 14)


@pytest.mark.parametrize("log", ["undeclared.host", "non_ascii.host", "range.host", "fixit.host", "tabs.host"])
def test_a_saved_log_marks_the_same_tokens_in_spread_out_text(log: str) -> None:
    found = case(log)
    old = found.text
    new = "// one more line\n" + old.replace("    ", "  ").replace(" = ", "   /* ü */\n =").replace("\t", " ")
    messages = [entry for entry in found.messages if entry.path == found.path and entry.ranges]
    assert messages
    after = rebase(messages, path=found.path, old=old, new=new)
    for before, message in zip(messages, after, strict=True):
        assert [_text(old, entry) for entry in before.ranges] == [_text(new, entry) for entry in message.ranges]


def _text(text: str, found: ClangRange) -> str:
    lines, index = text.split("\n"), LineIndex(text)
    start, end = (position_in(lines[place.line - 1], place) for place in (found.start, found.end))
    return text[index.offset(start) : index.offset(end)]


def test_equal_texts_change_nothing() -> None:
    messages = parse_clang_log("/s/x.hip:2:15: error: bad")
    assert rebase(messages, path="/s/x.hip", old=OLD, new=OLD) == messages
