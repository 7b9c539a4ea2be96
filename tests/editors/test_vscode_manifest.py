"""The VS Code extension's manifest says of settings and languages what the language server says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ckwatch
from ckwatch_lsp.session.settings import NAMES, EditorSettings
from helpers.each_row import each_row

EXTENSION = Path(__file__).parents[2] / "editors/vscode"
MANIFEST: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text())
PROPERTIES: dict[str, dict[str, Any]] = MANIFEST["contributes"]["configuration"]["properties"]

OWN = {"ckwatch.command", "ckwatch.linkedScrolling", "ckwatch.trace.server"}
"""Settings that the editor keeps for itself."""


@each_row("name", NAMES)
def test_each_setting_of_the_server_is_there_with_its_default(name: str) -> None:
    assert PROPERTIES[f"ckwatch.{name}"]["default"] == getattr(EditorSettings(), NAMES[name])


def test_no_other_setting_is_the_servers() -> None:
    assert PROPERTIES.keys() - OWN == {f"ckwatch.{name}" for name in NAMES}


def test_the_versions_are_one() -> None:
    assert MANIFEST["version"] == ckwatch.__version__


def test_no_lock_file_names_where_packages_come_from() -> None:
    for folder in (EXTENSION, Path(__file__).parents[2] / "tools/editors/vscode"):
        packages = json.loads((folder / "package-lock.json").read_text())["packages"]
        assert not [name for name, package in packages.items() if "resolved" in package]
        assert all("integrity" in package for name, package in packages.items() if name and not package.get("inBundle"))


def test_every_command_of_the_server_that_a_user_may_want_is_in_the_palette() -> None:
    of_server = {
        name
        for path in (EXTENSION.parents[1] / "lsp/ckwatch_lsp").rglob("*.py")
        for name in re.findall(r'add_command\("(ckwatch\.\w+)"', path.read_text())
    }
    offered = {each["command"] for each in MANIFEST["contributes"]["commands"]}
    assert of_server - offered == {"ckwatch.document", "ckwatch.toGenerated", "ckwatch.toTemplate", "ckwatch.units"}


def test_every_command_of_the_palette_is_registered() -> None:
    contract = (EXTENSION / "src/contract.ts").read_text()
    registered = {
        name
        for which in ("SERVER_COMMANDS", "EDITOR_COMMANDS")
        for name in re.findall(r"ckwatch\.\w+", contract.split(f"{which} = [")[1].split("]")[0])
    }
    assert registered == {each["command"] for each in MANIFEST["contributes"]["commands"]}


def test_the_pictures_of_the_page_are_there_and_packed_into_it() -> None:
    """A page shows no files of its package: the build puts them into the text."""
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (EXTENSION / "README.md").read_text())
    assert pictures
    written = re.compile(r"\.\./\.\./docs/images/[\w-]+\.png")
    assert all(written.fullmatch(each) and (EXTENSION / each).is_file() for each in pictures)
    assert "--readme-path dist/README.md" in MANIFEST["scripts"]["package"]
    assert "!dist/README.md" in (EXTENSION / ".vscodeignore").read_text().split("\n")
