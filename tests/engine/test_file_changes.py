"""Which changed paths matter, and which files changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ckwatch.engine.handlers.scan import changed_digests
from ckwatch.engine.watched_files import RelevantChanges, TrackedPaths, relevant_changes
from ckwatch.workspace.loading import load_workspace
from helpers.workspaces import KERNEL, TEMPLATE


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


def digests(paths: Sequence[str]) -> tuple[list[str | None], int]:
    return [digest(path) for path in paths], 0


def test_files_that_are_not_what_was_read(root: Path) -> None:
    template, gone, missing = (str(root / name) for name in ("templates/t.hip.j2", "gone", "missing"))
    known = {template: DIGEST, gone: "1", missing: None}
    assert changed_digests(known, frozenset(), digests) == {gone: None}
    assert changed_digests(known, frozenset({template}), digests) == {gone: None, template: DIGEST}
