"""Places of templates → places of the rendered text, and back."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import ckwatch_templates
from ckwatch.cpp.mappings import LOOKING, Forwarding, NotForwardedError, RenderedSource
from ckwatch.model.kernels import Unit
from ckwatch.model.source_map import Segment, Site, SiteKind, SourceMap
from ckwatch.model.text import Position, Span, span
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.each_row import each_row
from helpers.marked import marked
from helpers.rendered_sources import rendered_source

MAIN = "k.cpp.j2"
NAVIGATION, COMPLETION, EDIT = Forwarding.NAVIGATION, Forwarding.COMPLETION, Forwarding.EDIT
TWICE = "{% macro st(n) %}\nint s{{ n }} = one;\n{% endmacro %}\n"
CALLED = TWICE.replace("one", "‸one")


def shown(source: RenderedSource, offset: int) -> str:
    """The rendered line with a bar at the place."""
    start = source.text.rfind("\n", 0, offset) + 1
    end = source.text.find("\n", offset)
    return source.text[start:offset] + "|" + source.text[offset : end if end >= 0 else None]


class Place(NamedTuple):
    """A place of a template, and where it is in the rendered text for looking at it; or what is said instead."""

    template: str
    found: list[str] | str
    need: Forwarding = NAVIGATION
    more: dict[str, str] | None = None


NOWHERE = "nothing in the rendered source comes from here"
FORWARDED = [
    Place("int ‸a;\n", ["int |a;"]),
    Place("‸int a;\n", ["|int a;"]),
    Place("int a;‸\n", ["int a;|"]),
    Place("int a;\n‸", ["|"]),
    Place("é😀 ‸a;\n", ["é😀 |a;"]),
    # several times: every one of them, in the order of the text
    Place(CALLED + "{{ st(1) }}{{ st(2) }}", ["int s1 = |one;", "int s2 = |one;"]),
    Place("{% for n in [1, 2] %}\nint ‸x{{ n }};\n{% endfor %}\n", ["int |x1;", "int |x2;"]),
    Place("{% set held %}\nint ‸a;\n{% endset %}\n{{ held }}{{ held }}", ["int |a;", "int |a;"]),
    Place('{% include "m.j2" %}\nint ‸a;\n', ["int |a;"], more={"m.j2": "int b;\n"}),
    # what an expression writes: its last name, to look at and no more
    Place("int x = ns::{{ Na‸me }};\n", ["int x = ns::|tile;"]),
    Place("int x = {{ 'ns::' ~ Na‸me }};\n", ["int x = ns::|tile;"]),
    Place("int x = {{ Na‸me }};\n", "`{{ Name }}` at k.cpp.j2:1:9 writes it", COMPLETION),
    Place("int x = {{ Na‸me }};\n", "`{{ Name }}` at k.cpp.j2:1:9 writes it", EDIT),
    Place("{{ 'int a;\\nint ‸b;' }}\n", "`{{ 'int a;\\nint b;' }}` at k.cpp.j2:1:1 writes it"),
    # between text and expression: the text for what is typed, what is written to look at
    Place("int x‸{{ Name }};\n", ["int x|tile;"]),
    Place("int x‸{{ Name }};\n", ["int x|tile;"], COMPLETION),
    Place("int {{ Name }}‸x;\n", ["int tile|x;"], COMPLETION),
    Place("int {{ Name }}‸;\n", ["int tile|;"]),
    Place("{% if Name %}‸int a;{% endif %}\n", ["|int a;"]),
    # white space that Jinja removes is nowhere
    Place("int a;\n  ‸ {%- if Name %}\nint b;\n{%- endif %}\n", NOWHERE),
    Place("{% if Name -%}\n  int ‸b;\n{%- endif %}\n", ["int |b;"]),
    Place("{% if not Name %}\nint ‸b;\n{% endif %}\n", NOWHERE),
    Place("int a; {# no‸te #}\n", NOWHERE),
    Place("{% set x ‸= 1 %}\n", NOWHERE),
    # what is typed or changed must stand there once
    Place(CALLED + "{{ st(1) }}", ["int s1 = |one;"], EDIT),
    Place(
        CALLED + "{{ st(1) }}{{ st(2) }}", "the text at k.cpp.j2:2:13 stands 2 times in the rendered source", EDIT,
    ),
    Place(CALLED + "{{ st(1) }}{{ st(2) }}", ["int s1 = |one;", "int s2 = |one;"], COMPLETION),
    Place("{% filter upper %}int ‸a;{% endfilter %}\n", ["INT |A;"]),
    Place("{% filter rev‸erse %}int a;{% endfilter %}\n", "what k.cpp.j2:1:1 writes was rearranged"),
    # lines that end as on Windows
    Place("int a;\r\nint ‸b;\r\n", ["int |b;"]),
    Place("int a;\r‸\nint b;\r\n", ["int a;|"]),
]  # fmt: skip


@pytest.mark.parametrize("place", FORWARDED, ids=lambda one: f"{one.template!r:.40}-{one.need.name}")
def test_a_place_of_a_template(place: Place, tmp_path: Path) -> None:
    text, cursor = marked(place.template)
    source = rendered_source(tmp_path, {MAIN: text, **(place.more or {})}, Name="tile")
    path = str(tmp_path / MAIN)
    if isinstance(place.found, str):
        with pytest.raises(NotForwardedError) as refused:
            source.offsets(path, cursor, place.need)
        assert refused.value.message == place.found
    else:
        assert [shown(source, at) for at in source.offsets(path, cursor, place.need)] == place.found


def test_a_column_behind_the_end_of_a_line_is_that_end(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: "int a;\nint b;\nint c;\n"})
    [found] = source.offsets(str(tmp_path / MAIN), Position(1, 500), NAVIGATION)
    assert shown(source, found) == "int b;|"


def test_another_file(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: "int a;\n"})
    with pytest.raises(NotForwardedError, match=NOWHERE):
        source.offsets("/elsewhere.j2", Position(0, 0), NAVIGATION)


class Reached(NamedTuple):
    """A rendered piece of text, and where it stands in a template: exactly, and for looking at it."""

    template: str
    text: str
    exact: str
    origin: str | None
    more: dict[str, str] | None = None


LATER = "{% set later %}b{% endset %}c{{ later }}"
"""`cb`, of which `b` stands before `c`."""

WITHIN = "Jinja stands within the text at k.cpp.j2:1:1"
BACK = [
    Reached("int a;\n", "a", "1:5-1:6", "1:5-1:6"),
    Reached("int a;\nint b;\n", "a;\nint b", "1:5-2:6", "1:5-2:6"),
    Reached("é😀 a;\n", "a", "1:4-1:5", "1:4-1:5"),
    Reached("int a;\r\nint b;\r\n", "b", "2:5-2:6", "2:5-2:6"),
    Reached("int {{ Name }};\n", "tile", "`{{ Name }}` at k.cpp.j2:1:5 writes it", "1:5-1:15"),
    Reached("int x{{ Name }}y;\n", "xtiley", "`{{ Name }}` at k.cpp.j2:1:6 writes it", "1:5-1:17"),
    Reached("int on{# no #}e;\n", "one", WITHIN, "1:5-1:16"),
    Reached("int on{% if Name %}e{% endif %};\n", "one", WITHIN, "1:5-1:21"),
    Reached(
        TWICE + "{{ st(1) }}{{ st(2) }}", "one", "the text at k.cpp.j2:2:13 stands 2 times in the rendered source",
        "2:16-2:19",
    ),
    Reached('{% include "m.j2" %}int a;\n', "int a", "1:21-1:26", "1:21-1:26", {"m.j2": "int b;\n"}),
    Reached('{% include "m.j2" %}', "b", "m.j2:1:5-1:6", "m.j2:1:5-1:6", {"m.j2": "int b;\n"}),
    Reached('x{% include "m.j2" %}y\n', "xb", WITHIN, None, {"m.j2": "b"}),
    Reached(LATER, "cb", "Jinja stands within the text at k.cpp.j2:1:29", None),
    Reached("{% filter reverse %}int aa{% endfilter %}\n", "aa", "what k.cpp.j2:1:1 writes was rearranged", None),
]  # fmt: skip


def named(folder: Path, found: Span) -> str:
    name = Path(found.path).relative_to(folder).as_posix()
    return f"{'' if name == MAIN else f'{name}:'}{found.start}-{found.end}"


@pytest.mark.parametrize("row", BACK, ids=lambda row: f"{row.template!r:.40}-{row.text}")
def test_a_place_of_the_rendered_text(row: Reached, tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: row.template, **(row.more or {})}, Name="tile")
    start = source.text.index(row.text)
    end = start + len(row.text)
    origin = source.origin(start, end)
    assert (None if origin is None else named(tmp_path, origin)) == row.origin
    try:
        exact = named(tmp_path, source.exact(start, end))
    except NotForwardedError as refused:
        exact = refused.message
    assert exact == row.exact


@pytest.mark.parametrize(
    ("template", "before", "place"),
    [
        ("int a;\n", "int", "1:4"),
        ("int a;\n", "", "1:1"),
        ("int a;\n", "int a;\n", "2:1"),
        # at a border: in the text, whichever side it is on
        ("int {{ Name }};\n", "int ", "1:5"),
        ("int {{ Name }};\n", "int tile", "1:15"),
        ("{{ Name }};\n", "", "`{{ Name }}` at k.cpp.j2:1:1 writes it"),
        ("{{ Name }};\n", "ti", "`{{ Name }}` at k.cpp.j2:1:1 writes it"),
        ("x{% if Name %}y{% endif %}z", "x", "1:2"),
        ("x{% if Name %}y{% endif %}z", "xy", "1:16"),
        ("{{ Name }}", "tile", "`{{ Name }}` at k.cpp.j2:1:1 writes it"),
    ],
)
def test_an_insertion(template: str, before: str, place: str, tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: template}, Name="tile")
    assert source.text.startswith(before)
    if place.startswith("`"):
        with pytest.raises(NotForwardedError) as refused:
            source.exact(len(before), len(before))
        assert refused.value.message == place
    else:
        found = source.exact(len(before), len(before))
        assert (str(found.start), found.start) == (place, found.end)


def test_an_empty_text(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: "{% if not Name %}x{% endif %}"}, Name="tile")
    assert (source.text, source.pieces, source.paths) == ("", [], ())
    assert source.piece_at(0) is None
    assert source.origin(0, 0) is None
    for end in (0, 1):
        with pytest.raises(NotForwardedError, match="not in the rendered source"):
            source.exact(0, end)
    with pytest.raises(NotForwardedError, match=NOWHERE):
        source.offsets(str(tmp_path / MAIN), Position(0, 0), NAVIGATION)


@pytest.mark.parametrize(
    ("template", "edited", "beside"),
    [
        ("f(a);", "a", "()"),
        ("f({{ Name }}, a{{ Name }});", "a", " {"),
        ("{% if Name %}a{% endif %}", "a", "}{"),
        ("f(a", "a", "({"),
        ("{{ Name }}a;", "a", "};"),
    ],
)
def test_what_stands_beside(template: str, edited: str, beside: str, tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: template}, Name="tile")
    start = source.text.index(edited)
    assert "".join(source.around(start, start + len(edited))) == beside


def test_what_stands_beside_an_insertion(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: "a{{ Name }};"}, Name="tile")
    assert source.around(1, 1) == ("a", "{")
    assert source.around(5, 5) == ("}", ";")


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("int x = {{ Name }};\n", ["tile"]),
        ("int x = {{ 'a_' ~ Name }} + {{ Name }};\n", ["tile", "a_tile"]),
        ("int x = {{ Other }};\n", []),
        ("{% if Name %}int x;{% endif %}\n", []),
        ("int x;{{ '\\n' ~ Name }}\n", []),
        ("int x;{{ Name * 100 }}\n", []),
        ("int x = {{ '+' if Name }};\n", []),
    ],
)
def test_what_a_parameter_writes(template: str, found: list[str], tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: template}, Name="tile", Other=7)
    written = source.written_by("Name", "tile")
    assert [source.text[piece.start : piece.end] for piece in written] == found
    for piece in written:
        at = source.name_in(piece)
        assert at is not None
        assert source.text[at : piece.end] in ("tile", "a_tile")


TEXT = Site(SiteKind.TEXT, span("/k.j2", 0, 0, 0, 9), "")


def handmade(text: str, *segments: Segment) -> RenderedSource:
    return RenderedSource(text, SourceMap(text, segments, ()))


def test_what_was_rearranged_stays_so_however_often_it_stands_there() -> None:
    source = handmade(
        "abcabc",
        Segment(0, 3, TEXT, -1, Position(0, 0), verbatim=True, exact=False),
        Segment(3, 6, TEXT, -1, Position(0, 0), verbatim=True),
    )
    assert [piece.forwards for piece in source.pieces] == [Forwarding.NOTHING, LOOKING]
    assert [piece.reason for piece in source.pieces] == [
        "what k.j2:1:1 writes was rearranged",
        "the text at k.j2:1:1 stands 2 times in the rendered source",
    ]
    assert source.offsets("/k.j2", Position(0, 1), NAVIGATION) == [4]


def test_parts_of_one_text_count_together() -> None:
    whole = Segment(0, 9, TEXT, -1, Position(0, 0), verbatim=True)
    part = Segment(9, 12, TEXT, -1, Position(0, 3), verbatim=True)
    rest = Segment(12, 14, TEXT, -1, Position(0, 9), verbatim=True)
    source = handmade("abcdefghidefjk", whole, part, rest)
    assert [piece.count for piece in source.pieces] == [2, 2, 1]


def test_labels_are_cut(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: f"{{{{ Name ~ {' ~ '.join(['1'] * 40)} }}}}"}, Name="tile")
    [piece] = source.pieces
    assert piece.label.startswith("Name ~ 1 ~ 1")
    assert piece.label.endswith("…")
    assert len(piece.label) <= 60


def test_many_rounds_of_a_loop(tmp_path: Path) -> None:
    source = rendered_source(tmp_path, {MAIN: "{% for n in range(20000) %}x;\n{% endfor %}"})
    assert {piece.count for piece in source.pieces} == {20000}


EXAMPLES = Path(__file__).parents[2] / "examples"


def one_of_each_template() -> list[Unit]:
    """An instance of each template that ships with a kernel file."""
    found: dict[str, Unit] = {}
    for folder in sorted(EXAMPLES.iterdir()):
        for one in load_workspace(folder).units if folder.is_dir() else ():
            found.setdefault(one.kernel.template, one)
    return list(found.values())


@each_row("unit", one_of_each_template)
def test_forward_and_back_again(unit: Unit) -> None:
    """The first, the last and a middle character of each verbatim piece of what ships."""
    folders = (Path(unit.kernel.path).parent / "templates", Path(unit.kernel.path).parent, ckwatch_templates.ROOT)
    outcome = Renderer(folders).render(unit)
    assert outcome.rendered is not None, outcome.diagnostics
    source = RenderedSource(outcome.rendered.text, outcome.rendered.source_map)
    verbatim = [piece for piece in source.pieces if piece.verbatim and piece.forwards]
    assert len(verbatim) > 5
    for piece in verbatim:
        for at in {piece.start, (piece.start + piece.end) // 2, piece.end - 1}:
            there = source.exact(at, at + 1, NAVIGATION)
            found = source.offsets(piece.path, there.start, NAVIGATION)
            assert at in found
            for each in found:
                assert source.text[each] == source.text[at]
                assert source.exact(each, each + 1, NAVIGATION) == there
            if EDIT in piece.forwards:
                assert source.offsets(piece.path, there.start, EDIT) == [at]
            assert at in source.covers(piece.path, there.start)
