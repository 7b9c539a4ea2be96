"""Places of figures in a text."""

from __future__ import annotations

import pytest

from ckwatch_lsp.figures.anchors import definition_line, headers, is_tuned, macros, units_by_header
from lsp.figures.made_up import unit

KERNEL_FILE = '''\
note = """
[[instance]]
name = "none"
"""
[[instance]]  # a remark
name = "one"
Tile = 1

[[ instance ]]
Tile = 2
name = 'two "quoted"'
[[shape]]
name = "no instance"
[[sweep]]
name = "s"
base = "one"
[sweep.parameters]
name = "no name"
[[instance]]
# name = "commented out"
Tile = 3
[[sweep]]
name = "s_1"
[[instance]]
name = "s_5"
'''


def test_named_tables() -> None:
    found = [(each.kind, each.name, each.line, each.name_line) for each in headers(KERNEL_FILE)]
    assert found == [
        ("instance", "one", 4, 5),
        ("instance", 'two "quoted"', 8, 10),
        ("sweep", "s", 13, 14),
        ("sweep", "s_1", 21, 22),
        ("instance", "s_5", 23, 24),
    ]


@pytest.mark.parametrize("text", ["", "[[instance]]", "[[\nname = 'x'", "name = 'x'", '[[instance]]\nname = "x'])
def test_what_is_being_written_has_none(text: str) -> None:
    assert headers(text) == []


def test_units_belong_to_headers_by_their_names() -> None:
    units = [unit(name) for name in ("one", "s_1", "s_2", "s_1_3", "s_5", "gone")]
    found = {header.name: [each.instance for each in here] for header, here in given(units)}
    assert found == {"one": ["one"], 'two "quoted"': [], "s": ["s_2"], "s_1": ["s_1", "s_1_3"], "s_5": ["s_5"]}


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("[[inst nce]]", "instance"), ("[[instance", "instance"), ("[instance]]", "instance"), ("[[instanc]]", "instance"),
        ("[[in", "instance"), ("[[insta  # half", "instance"), ("[[swep]]", "sweep"), ("[[", None), ("[[shape]]", None),
        ("[sweep.parameters]", None), ("[1, 2],", None), ("[operation]", None),
    ],
)  # fmt: skip
def test_a_half_typed_header_keeps_its_name(header: str, kind: str | None) -> None:
    found = headers(f'[[shape]]\nname = "a"\n{header}\nname = "b"\n')
    assert [(one.kind, one.name, one.line, one.column) for one in found] == (
        [(kind, "b", 2, len(header))] if kind else []
    )


def given(units: list) -> list:  # type: ignore[type-arg]  # what it takes and gives is tested
    return units_by_header(headers(KERNEL_FILE), units)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        ("int x;\n", 0),
        ("a\nb\n{{ def_kernel(inputs=[]) }}", 2),
        ("a\n// def_kernel(x)\n{{ def_kernel(x) }}", 2),
        ("{# {{ def_kernel(x) }} #}\n\n{{- def_kernel(\n  x) }}", 2),
        ("{% set code = def_kernel(x) %}", 0),
        ("a\n{% set code %}\n{{ def_kernel", 0),
    ],
)
def test_the_definition_of_the_kernel(text: str, line: int) -> None:
    assert definition_line(text) == line


def test_macros() -> None:
    text = "{% macro a(x) %}\n{% endmacro %}\n{# {% macro b() %} #}\n{%- macro c() -%}{% endmacro %}"
    assert [(each.name, each.line) for each in macros(text)] == [("a", 0), ("c", 3)]


SPACES = """\
[[shape]]
name = "square"
[[instance]]
name = "one"
[[sweep]]
name = "listed"
tune = false
[[ sweep ]]  # up to millions
name = "space"
tune = true
[sweep.parameters]
Tile = [1, 2]
[[sweep]]
tune = true
"""


@pytest.mark.parametrize(
    ("text", "instances", "tuned"),
    [
        (SPACES, 1, True),
        (SPACES.replace("tune = true", "tune = false"), 1, False),
        (SPACES.replace("tune = true", "tune = false"), 2, True),
        (SPACES.replace("tune = true", "tune = false").replace("shape", "shapes"), 2, False),
        ('[[shape]]\nM = 1\n[[sweep]]\ntune = true\nname = "s"\n', 0, True),
        ("[[shape]]\n[[sweep]]\ntune = tr", 0, False),
        ("[[sweep]]\ntune =", 2, False),
    ],
)
def test_whether_a_kernel_may_be_tuned(text: str, instances: int, tuned: bool) -> None:
    assert is_tuned(text, instances) is tuned


def test_a_space_has_no_units() -> None:
    found = units_by_header(headers(SPACES), [unit("one"), unit("listed_1")])
    assert {header.name: [each.instance for each in here] for header, here in found} == {
        "one": ["one"],
        "listed": ["listed_1"],
        "space": [],
    }
