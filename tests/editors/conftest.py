"""Editors are installed when a test needs them: into the user's cache folder, see `tools.editors.install`."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from tools.editors.install import install
from tools.editors.places import EDITORS, Installed, installed
from tools.editors.stage import Stage


def _editor(name: str) -> Installed:
    chosen = next(editor for editor in EDITORS if editor.name == name)
    return installed(name) or anyio.run(install, chosen)


@pytest.fixture(scope="session")
def neovim() -> str:
    """The program `nvim`."""
    return _editor("neovim").program


@pytest.fixture(scope="session")
def emacs() -> str:
    """The program `emacs`."""
    return _editor("emacs").program


@pytest.fixture(scope="session")
def helix() -> str:
    """The program `hx`."""
    return _editor("helix").program


@pytest.fixture(scope="session")
def tmux() -> str:
    """The program `tmux`."""
    return _editor("tmux").program


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A workspace whose server is `scripted_server`."""
    with Stage("scripted_server") as made:
        yield made
