"""Editors are installed when a test needs them: into the user's cache folder, see `tools.editors.install`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio
import pytest

from tools.editors.example import Example
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


@pytest.fixture
def example() -> Iterator[Callable[..., Example]]:
    """Makes workspaces with a daemon each; they end with the test."""
    made: list[Example] = []

    def make(name: str, kernel: str, *instances: str, templates: tuple[str, ...] = ()) -> Example:
        made.append(Example(name, kernel, instances, templates=templates).__enter__())
        return made[-1]

    yield make
    for one in made:
        one.__exit__(None, None, None)
