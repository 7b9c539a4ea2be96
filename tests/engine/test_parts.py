"""Texts that are kept, memory that is free, paths that matter, diagnostics of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from ckwatch.core.events import UnitKey
from ckwatch.engine.file_changes import RelevantChanges, TrackedPaths, changed_digests, relevant_changes
from ckwatch.engine.file_diagnostics import DiagnosedFiles, fold_diagnostics
from ckwatch.engine.handlers.render import TextCache
from ckwatch.engine.memory import PAGE_BYTES, available_bytes, held_by_children_bytes
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.source_map import SourceMap
from ckwatch.model.text import span
from ckwatch.render.outcome import Rendered
from ckwatch.workspace.loading import load_workspace
from workspaces import KERNEL, TEMPLATE


def rendered(text: str) -> Rendered:
    return Rendered(text, SourceMap(text, [], []), "k", "t", frozenset())


def test_texts_of_the_present_generation_only() -> None:
    texts = TextCache(limit=10)
    key, other = UnitKey("", "a"), UnitKey("", "b")
    texts.put(key, 1, rendered("12345"))
    assert texts.get(key, 1)
    assert texts.get(key, 2) is None
    texts.put(other, 1, rendered("123456"))
    assert texts.get(key, 1) is None
    texts.put(other, 2, rendered("x" * 100))
    assert texts.get(other, 2), "the last one is kept however long it is"
    texts.drop(other)
    assert texts.get(other, 2) is None


def test_free_memory(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   50 kB\n")
    assert available_bytes(tmp_path, tmp_path / "no") == 50 * 1024
    (tmp_path / "memory.max").write_text("30000")
    (tmp_path / "memory.current").write_text("10000")
    assert available_bytes(tmp_path, tmp_path) == 20000
    (tmp_path / "memory.max").write_text("max")
    assert available_bytes(tmp_path, tmp_path) == 50 * 1024
    (tmp_path / "meminfo").write_text("?")
    assert available_bytes(tmp_path, tmp_path) is None


def test_memory_of_all_descendants(tmp_path: Path) -> None:
    rows = {10: (1, 5), 11: (10, 7), 12: (11, 100), 13: (2, 1000), 14: (10, 3)}
    for pid, (parent, pages) in rows.items():
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 19, str(pages), "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}")
    assert held_by_children_bytes(10, tmp_path) == (7 + 100 + 3) * PAGE_BYTES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "templates/t.hip.j2").write_text(TEMPLATE)
    (tmp_path / "k.kernel.toml").write_text(KERNEL)
    return tmp_path


DIGEST = hashlib.sha256(TEMPLATE.encode()).hexdigest()


@pytest.mark.parametrize(
    ("changed", "digests", "reload", "complete"),
    [
        ("templates/t.hip.j2", {"templates/t.hip.j2": DIGEST}, False, True),
        ("templates/gone.j2", {"templates/gone.j2": None}, True, True),
        ("templates/new.hip.j2", {}, True, True),
        ("templates/notes.txt", {}, False, True),
        ("k.kernel.toml", {}, True, True),
        ("other/x.kernel.toml", {}, True, True),
        (".git/x.kernel.toml", {}, False, True),
        ("ckwatch.toml", {}, True, True),
        ("templates", {}, True, False),
        ("was_a_folder", {}, True, False),
        ("was_a_file", {}, False, True),
        ("../elsewhere", {}, False, True),
    ],
)
def test_what_a_changed_path_means(
    root: Path, changed: str, digests: Mapping[str, str | None], reload: bool, complete: bool
) -> None:
    tracked = frozenset(str(root / name) for name in ("templates/t.hip.j2", "templates/gone.j2", "was_a_folder/x.j2"))
    interest = TrackedPaths.of(root, load_workspace(root), tracked)
    news = relevant_changes([str(root / changed)], interest, digest)
    assert news == RelevantChanges({str(root / name): value for name, value in digests.items()}, reload, complete)


def digest(path: str) -> str | None:
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def test_files_that_are_not_what_was_read(root: Path) -> None:
    template, gone, missing = (str(root / name) for name in ("templates/t.hip.j2", "gone", "missing"))
    known = {template: DIGEST, gone: "1", missing: None}
    assert changed_digests(known, frozenset(), digest) == {gone: None}
    assert changed_digests(known, frozenset({template}), digest) == {gone: None, template: DIGEST}


def found(message: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", message, span("/t.j2", 0, 0, 0, 1))


def test_a_message_is_stale_when_all_its_units_are_worked_on() -> None:
    old, both = found("old"), found("both")
    shown = fold_diagnostics([found("own")], {"a": (both,)}, {"b": (old, both)}, 5)
    assert [(one.message, one.stale, one.units, one.unit_count) for one in shown] == [
        ("own", False, (), 0),
        ("both", False, ("a", "b"), 5),
        ("old", True, ("b",), 5),
    ]


def test_which_units_have_diagnostics_where() -> None:
    files = DiagnosedFiles()
    one, two = UnitKey("", "one"), UnitKey("", "two")
    files.update(one, frozenset({"/a", "/b"}))
    files.update(two, frozenset({"/a"}))
    assert files.units("", "/a") == ["one", "two"]
    files.update(one, frozenset({"/b"}))
    assert files.units("", "/a") == ["two"]
    files.update(two, frozenset())
    assert files.paths("") == ["/b"]
    assert files.units("ann", "/b") == []
