"""The table of editors and features says what the tests have seen."""

from __future__ import annotations

import ast

from helpers.each_row import each_row
from tools.editors import table

SEEN = [
    (feature, editor, cell)
    for feature, cells in table.FEATURES.items()
    for editor, cell in zip(table.TRIED, cells, strict=True)
    if isinstance(cell, table.Seen)
]


def functions(file: str) -> dict[str, ast.FunctionDef]:
    """The tests of a module, by name."""
    tree = ast.parse((table.TESTS / file).read_text())
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


@each_row(("feature", "editor", "cell"), SEEN)
def test_what_is_said_to_be_seen_has_a_test_that_runs(feature: str, editor: str, cell: table.Seen) -> None:
    file, _, name = cell.test.partition("::")
    found = functions(file)
    assert name in found
    marks = " ".join(ast.unparse(one) for one in found[name].decorator_list)
    assert "skip" not in marks
    assert "xfail" not in marks
    text = ast.unparse(found[name])
    assert any(isinstance(node, ast.Assert) for node in ast.walk(found[name])) or "wait" in text or "_until(" in text


def test_the_document_has_the_table() -> None:
    text = table.DOCUMENT.read_text()
    assert table.written(text) == text, "python -m tools.editors.table"


def test_each_editor_has_a_page() -> None:
    for page in table.PAGES.values():
        assert (table.DOCUMENT.parent / f"{page}.md").is_file(), page


def test_nothing_is_claimed_for_an_editor_that_nobody_started() -> None:
    assert table.BY_HAND.keys() <= set(table.UNTRIED)
    for row in table.table().splitlines()[2:]:
        feature, *cells = row.strip("| ").split(" | ")
        for name, cell in zip(table.UNTRIED, cells[-len(table.UNTRIED) :], strict=True):
            assert cell == table.BY_HAND.get(name, {}).get(feature, "not tried")
    assert {feature for seen in table.BY_HAND.values() for feature in seen} <= table.FEATURES.keys()
