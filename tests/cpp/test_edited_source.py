"""Predicted render after an edit, against the render itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cpp.mappings import Forwarding
from ckwatch.model.text import Position, advance
from helpers.rendered_sources import rendered_source

MAIN = "k.cpp.j2"
MACRO = "{% macro st(n) %}\nint s{{ n }} = |;\n{% endmacro %}\n"

FORESEEN = [
    ("int |;\n", "a", "ab"),
    ("int |;\nint {{ Name }};\n", "a", ""),
    ("int {{ Name }} = |; int b{{ Name }};\n", "1", "12"),
    ("int a; // |\nint {{ Name }};\n", "", "é😀"),
    ("int a; // |\n{% if Name %}\nint b;\n{% endif %}\n", "x", ""),
    (MACRO + "{{ st(1) }}{{ st(2) }}int last;\n", "a", "abc"),
    ("{% for n in [1, 2] %}\nint x{{ n }} = |; int y{{ n }};\n{% endfor %}\n", "10", "2"),
    ("{% if Name -%}\n  int |;\n{%- endif %}\nint z;\n", "b", "bb"),
    ("{% set held %}\nint |;\n{% endset %}\n{{ held }}{{ held }}", "b", "cd"),
    ("int a;|\nint b;\n", "", "\n"),
    ("int a;|\nint b;\n", "", "\nint c;"),
    ("int a;\n|int b;\nint {{ Name }};\n", "", "int c;\nint d;\n"),
    ("int a;\n|{% if Name %}\nint b;\n{% endif %}int c;\n", "", "int {\n"),
    ("int a;\n|int b;\n{{ Name }}int c;\n", "struct {\n};\n", ""),
    ("int a[] = {|};\nint {{ Name }};\n", "1", "1}, {2"),
    ("void f() {\n  int |\n}\nint {{ Name }};\n", "", "x = 1;\n  return x;"),
]
"""Templates with a bar in the place of a text, and what is there before and after the edit."""

NOT_FORESEEN = [
    ("int |a;\n", "", "{{ 1 }}"),
    ("int {|{ Name }};\n", "", " "),
    ("int {{ N|ame }};\n", "", "o"),
    ("int a{{ Name }}|;\n", "", "b"),
    ("int a;{# | #}\n", "n", "m"),
    ("{% if not Name %}\nint |;\n{% endif %}int b;\n", "a", "b"),
    ("int a;\n {{ 'b' }} |", "", "c"),
    ("{% set held %}int |;{% endset %}\n{{ held.upper() }}", "b", "c"),
]


ELSEWHERE = [
    ("int a;\n|int ‸;\nint {{ Name }};\n", "", "{{ Name\n", "int a;\nint ‸;\nint tile;"),
    ("int a;\n{% if Name| %}\nint b;\n{% endif %}\nint ‸c;\n", "", " is", "int a;\n\nint b;\n\nint ‸c;"),
    ("int a;\nint {{ |Name }};\nint ‸c;\n", "", "lower(", "int a;\nint tile;\nint ‸c;"),
    ("int a;\n|int b;\nint ‸c;\n", "int x;\nint y;\n", "{{\n", "int a;\nint x;\nint y;\nint b;\nint ‸c;"),
]
"""Edits that only a render can tell, beside a cursor: the template, the texts there, and the last good render."""


@pytest.mark.parametrize(("template", "before", "after"), FORESEEN)
def test_an_edit_of_verbatim_text_is_foreseen(tmp_path: Path, template: str, before: str, after: str) -> None:
    old, new = template.replace("|", before), template.replace("|", after)
    source, path = rendered_source(tmp_path, {MAIN: old}, Name="tile"), str(tmp_path / MAIN)
    found = source.edited(path, old, new, cursor_of(template))
    expected = rendered_source(tmp_path, {MAIN: new}, Name="tile")
    assert found is not None
    assert found.text == expected.text
    assert found.pieces == expected.pieces


@pytest.mark.parametrize(("template", "before", "after"), NOT_FORESEEN)
def test_what_only_a_render_can_tell_is_not(tmp_path: Path, template: str, before: str, after: str) -> None:
    old, new = template.replace("|", before), template.replace("|", after)
    source, path = rendered_source(tmp_path, {MAIN: old}, Name="tile"), str(tmp_path / MAIN)
    assert source.edited(path, old, new, cursor_of(template)) is None


@pytest.mark.parametrize(("template", "before", "after", "shown"), ELSEWHERE)
def test_other_lines_than_those_that_a_render_waits_for_stay(
    tmp_path: Path, template: str, before: str, after: str, shown: str
) -> None:
    """Also where the template has errors now."""
    old, (behind, new) = template.replace("|", before).replace("‸", ""), (template.replace("|", after).split("‸"))
    source, path = rendered_source(tmp_path, {MAIN: old}, Name="tile"), str(tmp_path / MAIN)
    cursor = advance(Position(0, 0), behind)
    found = source.edited(path, old, behind + new, cursor)
    assert found is not None
    [at] = found.offsets(path, cursor, Forwarding.COMPLETION)
    assert f"{found.text[:at]}‸{found.text[at:]}" == f"{shown}\n"
    assert found.exact(at - 1, at, Forwarding.COMPLETION).end == cursor
    piece = found.piece_at(found.text.index("tile")) if "tile" in found.text else None
    assert piece is None or piece.names == ("Name",)


def cursor_of(template: str) -> Position:
    """Where the text is typed."""
    return advance(Position(0, 0), template[: template.index("|")])
