"""Finds toolchains by the names that configurations and commands have for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ckwatch.compile.toolchain.model import FixedToolchainChoice, ToolchainChoice
from ckwatch.model.errors import ToolchainError


def chosen_by_name(
    name: str,
    choice: ToolchainChoice,
    env: Mapping[str, str],  # noqa: ARG001
    *,
    folder: Path | None = None,
) -> FixedToolchainChoice:
    """Return the choice with the ROCm or the Composable Kernel in the folder `name`; the rest of `choice` stays."""
    path = Path(os.path.normpath((folder or Path.cwd()) / Path(name).expanduser()))
    if not path.is_dir():
        raise ToolchainError(f"no toolchain is called {name!r}, and there is no folder {path}")
    if (path / "bin").is_dir():
        return FixedToolchainChoice(path, choice.ck, choice.ck_tile, choice.clangd)
    return FixedToolchainChoice(choice.rocm, path, None, choice.clangd)
