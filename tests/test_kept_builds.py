"""Builds that tests keep: made once by what they are made of, and nothing is kept of one that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.kept_builds import content, kept


def writes(text: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_text(text)

    return make


def test_it_is_made_again_when_anything_that_it_is_made_of_differs(tmp_path: Path) -> None:
    def of(*made_of: str, text: str) -> str:
        return kept("kind", made_of, writes(text), tmp_path).read_text()

    assert of("-O1", "source", text="first") == "first"
    assert of("-O1", "source", text="again") == "first"
    assert of("-O2", "source", text="flag") == "flag"
    assert of("-O1", "source", "header", text="header") == "header"
    assert kept("other", ("-O1", "source"), writes("kind"), tmp_path).read_text() == "kind"


def test_what_fails_is_tried_again(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half of it")
        raise ValueError("it does not compile")

    with pytest.raises(ValueError, match="it does not compile"):
        kept("kind", ["source"], fail, tmp_path)
    assert kept("kind", ["source"], writes("whole"), tmp_path).read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == ["kind"]


def test_content_is_that_of_all_files(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "same", "renamed", "edited")]
    for folder, name, text in zip(folders, ("a.h", "a.h", "b.h", "a.h"), ("1", "1", "1", "2"), strict=True):
        (folder / "below").mkdir(parents=True)
        (folder / "below" / name).write_text(text)
    one, same, renamed, edited = map(content, folders)
    assert one == same
    assert len({one, renamed, edited}) == 3
