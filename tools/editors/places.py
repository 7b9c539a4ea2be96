"""Folders of the editors of the tests: one tree per editor, below the user's cache folder.

$XDG_CACHE_HOME/ckwatch/editors/neovim/0.12.4-1/bin/nvim     a launcher that finds its own runtime files
$XDG_CACHE_HOME/ckwatch/editors/neovim/current -> 0.12.4-1   the one that tests use
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

MANIFEST = "ckwatch-editor.json"


@dataclass(frozen=True, slots=True)
class Editor:
    """A program that is taken from Debian: its packages and what is started."""

    name: str
    program: str
    roots: tuple[str, ...]
    extra: tuple[str, ...] = ()
    """Packages that the roots depend on and that are no shared libraries."""


EDITORS = (
    Editor("neovim", "nvim", ("neovim",), ("neovim-runtime", "lua-luv", "lua-lpeg", "libluajit-5.1-common")),
    Editor(
        "emacs",
        "emacs",
        ("emacs-nox", "elpa-lsp-mode"),
        (
            *("emacs-common", "emacs-bin-common", "emacs-el"),
            *("elpa-dash", "elpa-s", "elpa-f", "elpa-ht", "elpa-spinner", "elpa-markdown-mode", "elpa-lv"),
        ),
    ),
    Editor("helix", "hx", ("hx",)),
    Editor("tmux", "tmux", ("tmux",)),
)


@dataclass(frozen=True, slots=True)
class Installed:
    """An editor that is there, and the packages with versions and SHA-256 that it was made of."""

    name: str
    version: str
    program: str
    packages: tuple[tuple[str, str, str], ...]

    def to_json(self) -> str:
        """One line per field, for `MANIFEST`."""
        return json.dumps(asdict(self), indent=1) + "\n"


def editors_folder(env: Mapping[str, str]) -> Path:
    """The folder of all trees. A relative XDG_CACHE_HOME is ignored, as its specification asks."""
    cache = Path(env.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "ckwatch/editors"


def installed(name: str, env: Mapping[str, str] | None = None) -> Installed | None:
    """The editor of this name that is in use, None when there is none or its program is gone."""
    try:
        folder = editors_folder(os.environ if env is None else env) / name / "current"
        found = json.loads((folder / MANIFEST).read_text())
        made_of = tuple((str(package), str(version), str(sha256)) for package, version, sha256 in found["packages"])
        editor = Installed(found["name"], found["version"], found["program"], made_of)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return editor if os.access(editor.program, os.X_OK) else None
