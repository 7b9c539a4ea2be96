"""The templates of a workspace on disk and open, and what rendered text tells of expressions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckwatch.model.text import Position, Range, Span
from ckwatch.model.text import Position as Ours
from ckwatch.wire.messages import ChainLink, Segment
from ckwatch_lsp.templates.adapter.library import TemplateFiles
from ckwatch_lsp.templates.adapter.rendered_values import printed_at
from ckwatch_lsp.templates.language.index import builtin_words

WORDS = builtin_words()


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Two template folders; the first has one of the names of the second."""
    for name, text in (("own/a.j2", "{% set x = 1 %}"), ("built_in/a.j2", "{% set y = 1 %}"), ("built_in/b/c.j2", "")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own/a.txt").write_text("{{ no }}")
    (tmp_path / "own/.hidden").mkdir()
    (tmp_path / "own/.hidden/d.j2").write_text("")
    return [str(tmp_path / "own"), str(tmp_path / "built_in")]


def test_names_in_order_of_the_search_path(folders: list[str]) -> None:
    templates = TemplateFiles().templates(folders, {}, WORDS)
    assert templates.names == {"a.j2": f"{folders[0]}/a.j2", "b/c.j2": f"{folders[1]}/b/c.j2"}
    assert list(templates.index.files) == list(templates.names.values())
    assert templates.name_of(f"{folders[1]}/b/c.j2") == "b/c.j2"


def test_nothing_changes_without_a_change(folders: list[str]) -> None:
    files = TemplateFiles()
    templates = files.templates(folders, {}, WORDS)
    assert files.templates(folders, {}, WORDS, rescan=True) is templates
    assert files.templates(folders, {}, builtin_words(), rescan=True) is not templates


def test_a_file_that_changes_is_read_again_and_the_others_are_not(folders: list[str]) -> None:
    files = TemplateFiles()
    before = files.templates(folders, {}, WORDS)
    path, other = f"{folders[0]}/a.j2", f"{folders[1]}/b/c.j2"
    Path(path).write_text("{% set changed = 1 %}")
    os.utime(path, ns=(1, 1))
    after = files.templates(folders, {}, WORDS, rescan=True)
    assert list(after.index.files[path].names.top.symbols) == ["changed"]
    assert after.index.files[other] is before.index.files[other]


def test_files_come_and_go(folders: list[str]) -> None:
    files = TemplateFiles()
    files.templates(folders, {}, WORDS)
    Path(folders[0], "a.j2").unlink()
    Path(folders[0], "new.j2").write_text("")
    found = files.templates(folders, {}, WORDS, rescan=True)
    assert found.names == {
        "a.j2": f"{folders[1]}/a.j2",
        "b/c.j2": f"{folders[1]}/b/c.j2",
        "new.j2": f"{folders[0]}/new.j2",
    }


def test_open_texts_come_first(folders: list[str], tmp_path: Path) -> None:
    files = TemplateFiles()
    path, elsewhere = f"{folders[0]}/a.j2", str(tmp_path / "elsewhere.hip.j2")
    opened = {path: "{% set typed = 1 %}", elsewhere: "{{ z }}"}
    templates = files.templates(folders, opened, WORDS)
    assert list(templates.index.files[path].names.top.symbols) == ["typed"]
    assert elsewhere in templates.index.files
    assert files.templates(folders, opened, WORDS) is templates
    assert files.templates(folders, {}, WORDS, rescan=True) is templates
    templates = files.templates(folders, {path: "{% set more = 1 %}", elsewhere: None}, WORDS)
    assert list(templates.index.files[path].names.top.symbols) == ["more"]
    assert elsewhere not in templates.index.files
    templates = files.templates(folders, {path: None}, WORDS)
    assert list(templates.index.files[path].names.top.symbols) == ["x"]


def test_an_open_file_that_is_new_has_a_name_at_once(folders: list[str]) -> None:
    files = TemplateFiles()
    files.templates(folders, {}, WORDS)
    path, unsaved, hidden = (f"{folders[0]}/{name}" for name in ("n/new.j2", "n/unsaved.j2", ".git/new.j2"))
    for each in (path, hidden):
        Path(each).parent.mkdir()
        Path(each).write_text("")
    templates = files.templates(folders, dict.fromkeys((path, unsaved, hidden), "{{ z }}"), WORDS)
    assert templates.names["n/new.j2"] == path
    assert {unsaved, hidden} <= templates.index.files.keys() - set(templates.names.values())


def test_one_edit_reads_one_file(folders: list[str]) -> None:
    """However many documents are open."""
    files = TemplateFiles()
    many = {f"{folders[0]}/{number}.hip.j2": "{{ x }}" for number in range(100)}
    before = files.templates(folders, many, WORDS)
    path = f"{folders[0]}/7.hip.j2"
    after = files.templates(folders, {path: "{{ y }}"}, WORDS)
    changed = {each for each, file in after.index.files.items() if before.index.files[each] is not file}
    assert changed == {path}


def test_folders_that_are_not_there() -> None:
    assert TemplateFiles().templates(["/nowhere/at/all"], {}, WORDS).names == {}


def span(line: int, start: int, end: int, path: str = "/a.j2") -> Span:
    return Span(path=path, start=Position(line=line, column=start), end=Position(line=line, column=end))


def segment(start: int, end: int, own: Span, *chain: Span) -> Segment:
    links = tuple(ChainLink(kind="macro", label="", iteration=None, span=each) for each in chain)
    return Segment(
        start=start, end=end, verbatim=False, exact=True, position=own.start, span=own, label="", chain=links
    )


def test_what_an_expression_gave() -> None:
    expression, inside, elsewhere = span(1, 4, 12), span(7, 0, 5, "/m.j2"), span(2, 0, 5)
    segments = [
        segment(0, 2, elsewhere),
        segment(2, 4, expression),
        segment(4, 6, inside, expression),
        segment(6, 7, elsewhere),
        segment(7, 9, expression),
        segment(9, 10, elsewhere),
        segment(10, 14, expression),
    ]
    reach = Range(Ours(1, 4), Ours(1, 12))
    assert printed_at("..abcd.ef.abcd", segments, "/a.j2", [reach]) == ["abcd", "ef"]
    assert printed_at("..abcd.ef.abcd", segments, "/b.j2", [reach]) == []
    assert printed_at("..abcd.ef.abcd", segments, "/a.j2", []) == []
