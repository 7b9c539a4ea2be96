"""Predicted render after an edit, against the render itself."""

from __future__ import annotations

from pathlib import Path

import pytest

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
]
"""Templates with a bar in the place of a text, and what is there before and after the edit."""

NOT_FORESEEN = [
    ("int |a;\n", "", "{{ 1 }}"),
    ("int {|{ Name }};\n", "", " "),
    ("int {{ N|ame }};\n", "", "o"),
    ("int a{{ Name }}|;\n", "", "b"),
    ("int a;{# | #}\n", "n", "m"),
    ("int a;|\nint b;\n", "", "\n"),
    ("{% if not Name %}\nint |;\n{% endif %}int b;\n", "a", "b"),
    ("int a;\n {{ 'b' }} |", "", "c"),
    ("{% set held %}int |;{% endset %}\n{{ held.upper() }}", "b", "c"),
    ("int |;\n", "a", "a"),
]


@pytest.mark.parametrize(("template", "before", "after"), FORESEEN)
def test_an_edit_of_verbatim_text_is_foreseen(tmp_path: Path, template: str, before: str, after: str) -> None:
    old, new = template.replace("|", before), template.replace("|", after)
    source, path = rendered_source(tmp_path, {MAIN: old}, Name="tile"), str(tmp_path / MAIN)
    found = source.edited(path, old, new)
    expected = rendered_source(tmp_path, {MAIN: new}, Name="tile")
    assert found is not None
    assert found.text == expected.text
    assert found.pieces == expected.pieces


@pytest.mark.parametrize(("template", "before", "after"), NOT_FORESEEN)
def test_what_only_a_render_can_tell_is_not(tmp_path: Path, template: str, before: str, after: str) -> None:
    old, new = template.replace("|", before), template.replace("|", after)
    source, path = rendered_source(tmp_path, {MAIN: old}, Name="tile"), str(tmp_path / MAIN)
    assert source.edited(path, old, new) is None
