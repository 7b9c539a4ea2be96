"""Editors made from Debian's packages, and how they are found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.toolchain.debian import PackageStanza
from ckwatch.model.errors import ToolchainError
from tools.editors.install import choose
from tools.editors.launchers import LAUNCHERS
from tools.editors.places import EDITORS, MANIFEST, Editor, Installed, editors_folder, installed

NEOVIM = Editor("neovim", "nvim", ("neovim",), ("neovim-runtime",))


def stanza(name: str, section: str) -> PackageStanza:
    """Version 1 of a package."""
    return PackageStanza(name, "1", section, frozenset())


def test_the_roots_what_is_named_and_their_libraries_are_taken() -> None:
    closure = [
        stanza("neovim", "editors"),
        stanza("neovim-runtime", "editors"),
        stanza("libuv1t64", "libs"),
        stanza("libtsan2", "libs"),
        stanza("gcc-16-base", "libs"),
        stanza("binutils", "devel"),
    ]
    assert choose(NEOVIM, closure) == (("libuv1t64", "1"), ("neovim", "1"), ("neovim-runtime", "1"))


def test_a_package_that_is_gone_is_named() -> None:
    with pytest.raises(ToolchainError, match="lacks neovim-runtime"):
        choose(NEOVIM, [stanza("neovim", "editors")])


def test_every_editor_can_be_started() -> None:
    assert {editor.name for editor in EDITORS} == set(LAUNCHERS)


def test_a_launcher_names_the_final_place(tmp_path: Path) -> None:
    work, final = tmp_path / "work", Path("/final place")
    for file in ("usr/bin/nvim", "usr/share/nvim/runtime/filetype.lua"):
        (work / file).parent.mkdir(parents=True, exist_ok=True)
        (work / file).touch()
    assert LAUNCHERS["neovim"](final, work) == (
        "#!/bin/sh\nexport VIMRUNTIME='/final place/usr/share/nvim/runtime'\nexec '/final place/usr/bin/nvim' \"$@\"\n"
    )


def test_a_package_of_another_shape_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="has no usr/bin/nvim"):
        LAUNCHERS["neovim"](tmp_path, tmp_path)


def test_what_is_installed_is_found_and_what_is_broken_is_not(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    assert installed("helix", env) is None
    folder = editors_folder(env) / "helix/25.07.1"
    folder.mkdir(parents=True)
    (folder.parent / "current").symlink_to(folder.name)
    program = folder / "hx"
    made = Installed("helix", "helix 25.07.1", str(program), (("hx", "25.07.1-1", "0" * 64),))
    (folder / MANIFEST).write_text(made.to_json())
    assert installed("helix", env) is None  # its program is missing
    program.touch(mode=0o755)
    assert installed("helix", env) == made
    (folder / MANIFEST).write_text("{")
    assert installed("helix", env) is None
