"""Diagnostics through the wire, with a real daemon and no compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp.editing import copy_of, editor, trust

GOOD = "NPerBlock = 128\nKPerBlock = 64\nMXdlPerWave = 2"
BAD = "NPerBlock = 128\nKPerBlock = 64\nMXdlPerWave = 3"
RULE = "rule/m-per-block"


@pytest.fixture(autouse=True)
def no_toolchain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is compiled: the private toolchain lies in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


async def test_a_broken_rule_shows_while_typing_and_goes_with_the_mistake(tmp_path: Path) -> None:
    root = copy_of("gemm", tmp_path)
    trust(root)
    file = root / "gemm_f16.kernel.toml"
    async with editor(root) as made:
        await made.open(file)
        await made.replace(file, GOOD, BAD)
        (found,) = await made.diagnosed(file)
        assert (found["code"], found["source"], found["severity"]) == (RULE, "ckwatch", 1)
        line = found["range"]["start"]["line"]
        assert made.text(file).split("\n")[line] == "MXdlPerWave = 3"
        assert found["codeDescription"]["href"].endswith("/docs/rules.md#m-per-block")
        assert "MPerBlock = 128" in [one["message"] for one in found["relatedInformation"]]
        await made.replace(file, BAD, GOOD)
        await made.diagnosed(file, lambda all_: not all_)
        published = made.all("textDocument/publishDiagnostics")
        assert [(len(each["diagnostics"]), each["version"]) for each in published] == [(1, 2), (0, 3)]
