"""Declarations of kernels in a rendered text and its headers: their places, edits, and the threads of their launches."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.kernel_sources import SourceTexts, bound_text, kernel_sources
from ckwatch.codeobject.limit_hints import SourceEdit
from ckwatch.codeobject.report import KernelReport
from ckwatch.model.source_map import Segment, Site, SiteKind, SourceMap
from ckwatch.model.text import LineIndex, Span
from helpers.kernel_reports import kernel

TEMPLATE, HEADER = "/w/k.hip.j2", "/w/own.hpp"


def texts_of(rendered: str, header: str = "") -> SourceTexts:
    """The texts; what stands in ⟦…⟧ was printed by the expression `Side`."""
    pieces = re.split(r"⟦(.*?)⟧", rendered)
    index, segments, at = LineIndex("".join(pieces)), list[Segment](), 0
    for number, piece in enumerate(pieces):
        place = Span(TEMPLATE, index.position(at), index.position(at + len(piece)))
        kind, label = (SiteKind.EXPRESSION, "Side") if number % 2 else (SiteKind.TEXT, "")
        if piece:
            site = Site(kind, place, label)
            segments.append(Segment(at, at + len(piece), site, -1, place.start, verbatim=not label))
        at += len(piece)
    made = SourceMap("".join(pieces), segments, ())
    return SourceTexts(RenderedFile("kernel.hip", made), {HEADER: header} if header else {})


def named(symbol: str) -> KernelReport:
    made = kernel()
    return replace(made, resources=replace(made.resources, symbol=symbol))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [("k", "k"), ("_Z1kPf", "k"), ("_ZN1a1bL1kEPf", "k"), ("_Z1kILi4EEvPf", "k"), ("_ZN12_GLOBAL__N_11kEv", "k")],
)
def test_a_kernel_is_found_by_the_last_name_of_its_symbol(symbol: str, name: str) -> None:
    found = kernel_sources([named(symbol), named("_Z5otherv")], texts_of("__global__ void k(float* x) { }"))

    assert [[one.name for one in each.declared] for each in found] == [[name]]


def test_places_and_edits_are_those_of_the_template_or_the_header() -> None:
    texts = texts_of("__global__ void k() { }", "\n__global__ void l() { }\n")
    places = []
    for one in kernel_sources([named("k"), named("l")], texts):
        (declared,) = one.declared
        place, fix = (
            texts.place(declared.start, declared.end),
            texts.fix(SourceEdit(declared.insert_at, declared.insert_at, "x")),
        )
        assert place is not None
        assert fix is not None
        places.append((place.span.path, str(place.span.start), str(fix.span.start)))

    assert places == [(TEMPLATE, "1:17", "1:11"), (HEADER, "2:17", "2:11")]


def test_only_the_rendered_text_can_be_edited() -> None:
    texts = texts_of("b", "a")

    assert texts.edited([SourceEdit(texts.rendered_start, texts.rendered_start + 1, "c")]) == "c"
    assert texts.edited([SourceEdit(0, 1, "c")]) is None


@pytest.mark.parametrize(
    ("rendered", "header", "expected"),
    [
        ("__global__ void k() { }\nk<<<n, 256>>>();", "", ("256", "256")),
        ("__global__ void k() { }\nk<<<n, ⟦256⟧>>>();", "", ("256", "{{ Side }}")),
        ("constexpr int B = ⟦256⟧;\n__global__ void k() { }\nk<<<n, B>>>();", "", ("B", "B")),
        ("__global__ void k() { }\nconstexpr int B = ⟦256⟧;\nk<<<n, B>>>();", "", None),
        ("__global__ void k() { }\nk<<<n, 2 * ⟦128⟧>>>();", "", None),
        ("k<<<n, ⟦256⟧>>>();", "__global__ void k() { }", None),
        ("k<<<n, 256>>>();", "__global__ void k() { }", ("256", "256")),
    ],
)
def test_a_bound_is_written_as_all_instances_can_have_it(
    rendered: str, header: str, expected: tuple[str, str] | None
) -> None:
    texts = texts_of(rendered, header)
    (found,) = kernel_sources([named("k")], texts)
    assert found.size is not None

    bound = bound_text(texts, found.declared[0], found.size)

    assert (None if bound is None else (bound.compiled, bound.written)) == expected
