"""The toolchain that the daemon compiles with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.engine import build_tools
from ckwatch.engine.build_tools import BuildTools
from ckwatch.model.errors import ToolchainError
from ckwatch.workspace.settings import Settings


def nothing(*_: object) -> Toolchain:
    raise ToolchainError("there is no ROCm", "")


def test_nvcc_alone_keeps_paths_of_the_workspace_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one clone has compiled another finds in the store."""
    nvcc = NvccToolchain("PATH", Path("/nvcc"), Path("/g++"), "13.0", "13", None, "nvcc")
    monkeypatch.setattr(build_tools, "find_nvcc", lambda _environment: nvcc)
    tools = BuildTools({}, 1, _find_toolchain=nothing)
    settings = Settings.model_validate({"store": {"folder": str(tmp_path / "store")}})
    shortened = []
    for clone in (tmp_path / "one", tmp_path / "another"):
        tools.configure(settings, root=clone, cuda=True)
        assert tools.compiler is not None
        shortened.append(tools.compiler.roots.shorten(f"{clone}/include/tile.h"))
    assert shortened == ["<workspace>/include/tile.h"] * 2
