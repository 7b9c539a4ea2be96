"""Generated documents: their URIs, their links with templates, and what they say when they are old."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Range, Span
from ckwatch.wire.messages import ChainLink, RenderedText, Segment
from ckwatch_lsp.protocol.uris import VirtualUri, parse_virtual_uri
from ckwatch_lsp.virtual_documents.texts import SourceLinks, outdated, source_text

TEMPLATE = "/w/t.hip.j2"
TEXT = "int a;\nx[64];\nint b;\n"


def span(line: int, start: int, end: int, last: int | None = None) -> Span:
    stop = Position(line=line if last is None else last, column=end)
    return Span(path=TEMPLATE, start=Position(line=line, column=start), end=stop)


def segment(start: int, end: int, origin: Span, *, verbatim: bool, chain: tuple[ChainLink, ...] = ()) -> Segment:
    return Segment(
        start=start, end=end, verbatim=verbatim, exact=True, position=origin.start, span=origin, label="", chain=chain
    )


CALL = ChainLink(kind="macro", label="body", iteration=None, span=span(7, 0, 12))

LINKS = SourceLinks(
    TEXT,
    [
        segment(0, 9, span(4, 0, 2, 5), verbatim=True),
        segment(9, 11, span(1, 4, 11), verbatim=False, chain=(CALL,)),
        segment(11, 21, span(8, 0, 0, 10), verbatim=True),
    ],
)

BACK = [
    ((0, 4), (4, 4)),
    ((1, 1), (5, 1)),
    ((1, 2), (1, 4)),
    ((1, 3), (1, 4)),
    ((1, 5), (8, 1)),
    ((2, 3), (9, 3)),
]


@pytest.mark.parametrize(("here", "there"), BACK)
def test_from_the_source_to_the_template(here: tuple[int, int], there: tuple[int, int]) -> None:
    found = LINKS.template_place(Position(*here))
    assert found is not None
    assert (found.start.line, found.start.column) == there


def test_nothing_came_from_past_the_end() -> None:
    assert LINKS.template_place(Position(9, 0)) is None
    assert SourceLinks("", ()).template_place(Position(0, 0)) is None


FORTH = [
    ((4, 4), Range(Position(0, 4), Position(0, 4))),
    ((1, 6), Range(Position(1, 2), Position(1, 4))),
    ((7, 3), Range(Position(1, 2), Position(1, 4))),
]


@pytest.mark.parametrize(("there", "here"), FORTH)
def test_from_the_template_to_the_source(there: tuple[int, int], here: Range) -> None:
    assert LINKS.places(TEMPLATE, Position(*there))[0] == here


def test_what_gives_no_text_is_nowhere() -> None:
    assert LINKS.places(TEMPLATE, Position(3, 0)) == []
    assert LINKS.places("/w/other.j2", Position(4, 4)) == []


def test_links_of_a_text_further_down() -> None:
    moved = LINKS.moved(1)
    found = moved.template_place(Position(1, 4))
    assert found is not None
    assert (found.start.line, found.start.column) == (4, 4)
    assert moved.places(TEMPLATE, Position(4, 4))[0] == Range(Position(1, 4), Position(1, 4))
    assert moved.template_place(Position(0, 0)) is None


def test_an_old_text_says_so_and_keeps_its_links() -> None:
    good = source_text(RenderedText(unit="k/i@gfx942", text=TEXT, map=()), None, 1)
    assert (good.text, good.stale) == (TEXT, False)
    mistake = Diagnostic(
        severity=Severity.ERROR, source=Source.JINJA, code="jinja/syntax", message="an\nerror", span=span(0, 0, 1)
    )
    broken = RenderedText(unit="k/i@gfx942", text=None, diagnostics=(mistake,))
    old = source_text(broken, good, 2)
    assert old.text == f"// ckwatch: an error: this is the last text without errors\n{TEXT}"
    assert old.stale
    older = source_text(broken, old, 3)
    assert older.text == old.text
    assert source_text(broken, None, 1).text == "// ckwatch: not rendered: an error\n"
    assert outdated("isa", "why", None, "not built").text == "; ckwatch: not built\n"


URIS = [
    VirtualUri("source", "gemm_f16/v3@gfx942", Path("/work/a b")),
    VirtualUri("isa", "gemm_f16/v3@gfx942", Path("/w?é#%41")),
    VirtualUri("source", "k/i@sm_90a", Path("/w")),
    VirtualUri("source", "k/i.j@host", Path("/w")),
]


@pytest.mark.parametrize("generated", URIS, ids=str)
def test_uris_there_and_back(generated: VirtualUri) -> None:
    assert parse_virtual_uri(generated.uri) == generated


ESCAPED = [
    "ckwatch://source/gemm_f16/v3%40gfx942.hip?folder%3D%2Fw",
    "ckwatch://source/gemm_f16/v3%40gfx942.hip%3Ffolder%3D/w",
    "ckwatch://source/gemm_f16/v3@gfx942.hip?folder=/w",
]


@pytest.mark.parametrize("uri", ESCAPED)
def test_uris_that_an_editor_has_escaped(uri: str) -> None:
    assert parse_virtual_uri(uri) == VirtualUri("source", "gemm_f16/v3@gfx942", Path("/w"))


NONE = ["", "ckwatch:", "ckwatch://source", "ckwatch://x/k/i@a.hip?folder=/w", "ckwatch://isa/k?folder=/w", "file:///a"]
NONE += ["ckwatch://isa/k/i@a.s", "ckwatch://isa/k/i@a.s?folder=w", "ckwatch://[/k.s?folder=/w"]


@pytest.mark.parametrize("uri", NONE)
def test_what_is_no_such_uri(uri: str) -> None:
    assert parse_virtual_uri(uri) is None
