"""Installed toolchains: what counts as one, and which is in use."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.installations import (
    MANIFEST,
    ToolchainManifest,
    cache_folder,
    current,
    installed,
    read_manifest,
    remove_tree,
    set_current,
)
from helpers.rocm_trees import make_installed


def test_a_manifest_survives_the_disk(tmp_path: Path) -> None:
    manifest = make_installed(tmp_path)
    assert read_manifest(manifest.root) == manifest
    assert current(tmp_path) == manifest


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"layout": 0}', '{"layout": 4}', '{"layout": 4, "packages": 3}']
)
def test_a_damaged_manifest_is_no_toolchain(tmp_path: Path, text: str) -> None:
    manifest = make_installed(tmp_path)
    (manifest.root / MANIFEST).write_text(text)
    assert read_manifest(manifest.root) is None
    assert installed(tmp_path) == ()
    with pytest.raises(ValueError):  # noqa: PT011 - any ValueError is the contract
        ToolchainManifest.from_json(text)


def test_unknown_fields_are_not_guessed_at(tmp_path: Path) -> None:
    data = json.loads(make_installed(tmp_path).to_json())
    with pytest.raises(ValueError, match="not a toolchain manifest"):
        ToolchainManifest.from_json(json.dumps({**data, "surprise": 1}))


def test_the_newest_complete_one_is_used_when_the_link_leads_nowhere(tmp_path: Path) -> None:
    old, new = make_installed(tmp_path, "rocm-2"), make_installed(tmp_path, "rocm-1")
    os.utime(old.root / MANIFEST, (1, 1))
    (tmp_path / ".work-x").mkdir()
    set_current(tmp_path, "rocm-gone")
    assert current(tmp_path) == new
    set_current(tmp_path, old.name)
    assert installed(tmp_path) == (old, new)
    remove_tree(old.root)
    assert not old.root.exists()
    assert current(tmp_path) == new


def test_a_tree_is_itself_by_whatever_links_it_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / "toolchains"
    manifest = make_installed(folder)
    set_current(folder, manifest.name)
    (tmp_path / "link").symlink_to(folder)
    assert read_manifest(folder / "current") == manifest
    assert current(tmp_path / "link") == manifest
    assert installed(tmp_path / "link") == (manifest,)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / MANIFEST).write_text(manifest.to_json())
    assert read_manifest(tmp_path / "copy") == replace(manifest, root=tmp_path / "copy")


def test_a_tree_that_was_moved_to_another_disk_and_linked(tmp_path: Path) -> None:
    folder = tmp_path / "toolchains"
    manifest = make_installed(folder)
    elsewhere = manifest.root.rename(tmp_path / "other disk")
    manifest.root.symlink_to(elsewhere)
    assert installed(folder) == (manifest,)
    remove_tree(manifest.root)
    assert (installed(folder), elsewhere.exists(), manifest.root.is_symlink()) == ((), False, False)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/ckwatch"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/ckwatch"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/ckwatch"),
    ],
)
def test_where_the_cache_is(env: dict[str, str], expected: str) -> None:
    assert cache_folder(env) == Path(expected)
