"""Files that are whole or not there, and what they can be called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckwatch.system.durable_files import fitting_name, overwrite_file, replace_file


@pytest.mark.parametrize(
    ("name", "room", "expected"),
    [
        ("a" * 251, 4, "a" * 251),
        ("a" * 252, 4, "a" * 238 + "-"),
        ("é" * 125, 4, "é" * 125),
        ("é" * 126, 4, "é" * 119 + "-"),
        ("漢" * 90, 15, "漢" * 75 + "-"),
        ("\udcff" * 300, 0, "-"),
    ],
)
def test_names_are_cut_between_characters(name: str, room: int, expected: str) -> None:
    found = fitting_name(name, room=room)
    assert found == expected if found == name else found[:-12] == expected
    assert len(os.fsencode(found)) <= 255 - room
    assert found != fitting_name(name + "b", room=room)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_only_files_are_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        replace_file(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["there"]


def test_the_longest_name_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    replace_file(path, b"1")
    replace_file(path, b"2")
    assert path.read_bytes() == b"2"


def test_a_file_is_overwritten_whole_and_no_link_is_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "there", tmp_path / "other"
    for content in (b"long", b"new"):
        overwrite_file(path, content)
        assert path.read_bytes() == content
    other.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        overwrite_file(other, b"through")
    assert path.read_bytes() == b"new"
