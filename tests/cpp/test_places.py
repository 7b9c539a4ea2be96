"""Places of the file that is asked about, and those of clangd's text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ckwatch.cpp.mappings import Forwarding, NotForwardedError, RenderedSource
from ckwatch.cpp.places import (
    MEMORY_FOLDER,
    HeaderPlaces,
    KernelFilePlaces,
    Location,
    Places,
    TemplatePlaces,
    in_memory,
    path_of,
    range_from,
    range_to_lsp,
    uri_of,
)
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.text import Position, Range, Span, span
from helpers.rendered_sources import rendered_source

URI = f"file://{MEMORY_FOLDER}/main/host/k.cpp"
NAVIGATION, COMPLETION, SEMANTIC = Forwarding.NAVIGATION, Forwarding.COMPLETION, Forwarding.SEMANTIC
KERNEL = "/w/k.kernel.toml"


def never(_path: str) -> bool:
    return False


def reach(source: RenderedSource, text: str) -> Range:
    start = source.text.index(text)
    return source.lines.range(start, start + len(text))


def test_the_rendered_source_is_asked_as_it_is(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {"k.cpp.j2": "int {{ Name }};\n"}, Name="tile")
    places = Places(URI, "k/one@x", source, never)
    here = Position(0, 5)
    found = Range(here, Position(0, 8))
    assert places.forward(here, Forwarding.EDIT) == [here]
    assert places.own(found, SEMANTIC) == found
    assert places.typed(found, here) == (found, "")
    assert places.produced(here) == ""
    location = places.location(Location(URI, found))
    assert location is not None
    assert (location.uri, location.range.start.column) == ("rendered:k/one@x", 5)


TYPED = [
    # template, what clangd would replace, where the cursor is in it → what is replaced in the template, what stays
    ("int a = tile;\n", "tile", 4, "1:9-1:13", ""),
    ("int a = tile;\n", "tile", 2, "1:9-1:13", ""),
    ("int a = {{ Name }}xy;\n", "tilexy", 6, "1:19-1:21", "tile"),
    ("int a = {{ Name }};\n", "tile", 4, "1:19-1:19", "tile"),
    ("int a = x{{ Name }};\n", "x", 1, "1:9-1:10", ""),
    ("int a = {{ Name }};\n", "tile", 2, None, ""),
    ("int a = x{{ Name }};\n", "xtile", 1, None, ""),
    ("{% if Name %}ab{% endif %}cd;\n", "abcd", 4, "1:27-1:29", "ab"),
]


@pytest.mark.parametrize(("template", "replaced", "cursor", "found", "before"), TYPED)
def test_what_is_typed(
    template: str, replaced: str, cursor: int, found: str | None, before: str, tmp_path: Path
) -> None:
    source = rendered_source(tmp_path, {"k.cpp.j2": template}, Name="tile")
    places = TemplatePlaces(URI, "k/one@x", source, never, str(tmp_path / "k.cpp.j2"))
    given = reach(source, replaced)
    at = Position(given.start.line, given.start.column + cursor)
    if found is None:
        with pytest.raises(NotForwardedError):
            places.typed(given, at)
    else:
        own, stays = places.typed(given, at)
        assert (f"{own.start}-{own.end}", stays) == (found, before)


def test_what_is_typed_in_another_file(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {"k.cpp.j2": '{% include "m.j2" %}\n', "m.j2": "int a;\n"})
    places = TemplatePlaces(URI, "k/one@x", source, never, str(tmp_path / "k.cpp.j2"))
    given = reach(source, "a")
    with pytest.raises(NotForwardedError, match="in another file"):
        places.typed(given, given.end)
    assert places.own(given, SEMANTIC) is None
    location = places.location(Location(URI, given))
    assert location is not None
    assert location.uri == uri_of(str(tmp_path / "m.j2"))


def test_what_no_template_has_stays_in_the_rendered_source(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {"k.cpp.j2": "{% filter reverse %}tni{% endfilter %}\n"})
    places = TemplatePlaces(URI, "k/one@x", source, never, str(tmp_path / "k.cpp.j2"))
    location = places.location(Location(URI, reach(source, "int")))
    assert location is not None
    assert location.uri == "rendered:k/one@x"


def kernel_file(tmp_path: Path, template: str, values: Mapping[str, tuple[Span, ParameterValue]]) -> KernelFilePlaces:
    parameters = {name: value for name, (_, value) in values.items()}
    source = rendered_source(tmp_path, {"k.cpp.j2": template}, **parameters)
    return KernelFilePlaces(URI, "k/one@x", source, never, KERNEL, values)


NAME = {"Name": (span(KERNEL, 3, 7, 3, 13), "tile")}
"""`Name = "tile"`."""


def test_a_value_of_a_kernel_file(tmp_path: Path) -> None:
    places = kernel_file(tmp_path, "int {{ Name }} = 1;\nint b = {{ Name }};\n", NAME)
    for column, found in ((7, 4), (8, 4), (10, 6), (12, 8), (13, 8)):
        assert places.forward(Position(3, column), COMPLETION) == [Position(0, found)]
    assert places.produced(Position(0, 5)) == "tile"
    whole = reach(places.source, "tile")
    assert places.own(whole, SEMANTIC) == Range(Position(3, 8), Position(3, 12))
    assert places.typed(whole, whole.end) == (Range(Position(3, 8), Position(3, 12)), "")
    assert places.own(reach(places.source, "b"), NAVIGATION) is None
    with pytest.raises(NotForwardedError, match="not the whole of a value"):
        places.typed(reach(places.source, "b"), Position(1, 5))
    for outside in (Position(3, 3), Position(2, 8)):
        with pytest.raises(NotForwardedError, match="no value of this instance stands here"):
            places.forward(outside, NAVIGATION)
    location = places.location(Location(URI, whole))
    assert location is not None
    assert (location.uri, location.range.start.column) == (uri_of(str(tmp_path / "k.cpp.j2")), 4)
    with pytest.raises(NotForwardedError, match="writes it"):
        places.exact(URI, whole)


def test_a_value_in_the_templates_words(tmp_path: Path) -> None:
    places = kernel_file(tmp_path, "int {{ 'v_' ~ Name }};\n", NAME)
    assert places.forward(Position(3, 9), NAVIGATION) == [Position(0, 4)]
    with pytest.raises(NotForwardedError, match="the template writes Name in words of its own"):
        places.forward(Position(3, 9), COMPLETION)
    whole = reach(places.source, "v_tile")
    assert places.own(whole, NAVIGATION) == Range(Position(3, 7), Position(3, 13))
    assert places.own(whole, SEMANTIC) is None


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (span(KERNEL, 0, 7, 0, 10), 128),
        (span(KERNEL, 0, 7, 0, 12), True),
        (span(KERNEL, 0, 7, 0, 15), 'a"b'),
        (span(KERNEL, 0, 7, 2, 3), "a"),
    ],
)
def test_values_that_do_not_stand_there_as_they_are_written(where: Span, value: ParameterValue, tmp_path: Path) -> None:
    places = kernel_file(tmp_path, "x = {{ Name }};\n", {"Name": (where, value)})
    assert len(places.forward(where.start, NAVIGATION)) == 1
    with pytest.raises(NotForwardedError, match="in words of its own"):
        places.forward(where.start, COMPLETION)


def test_a_value_that_nothing_writes(tmp_path: Path) -> None:
    places = kernel_file(tmp_path, "{% if Name %}int a;{% endif %}\n", NAME)
    with pytest.raises(NotForwardedError, match="no expression of the template writes Name by itself"):
        places.forward(Position(3, 9), NAVIGATION)


def test_a_header() -> None:
    places = HeaderPlaces("file:///usr/a.h")
    here = Range(Position(0, 4), Position(0, 5))
    assert places.forward(here.start, Forwarding.EDIT) == [here.start]
    elsewhere = Location("file:///usr/b.h", here)
    assert places.location(elsewhere) == elsewhere
    with pytest.raises(NotForwardedError, match="headers are not changed"):
        places.exact(places.uri, here)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///usr/a%20b.h", "/usr/a b.h"),
        ("file:///%C3%BC.h", "/ü.h"),
        (URI, None),
        ("clangd:///x", None),
    ],
)
def test_paths(uri: str, path: str | None) -> None:
    assert path_of(uri) == path
    assert in_memory(uri) == (MEMORY_FOLDER in uri)


def test_ranges_of_the_protocol() -> None:
    given = Range(Position(1, 2), Position(3, 4))
    assert range_from(range_to_lsp(given)) == given
    plain = {"uri": URI, "range": range_to_lsp(given)}
    link = {"targetUri": URI, "targetSelectionRange": range_to_lsp(given)}
    assert Location.of(plain) == Location.of(link) == Location(URI, given)
