"""Files under `editors/` are well-formed, and name settings that the language server has."""

from __future__ import annotations

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckwatch_lsp.session.settings import NAMES, EditorSettings, settings_from

EDITORS = Path(__file__).parents[2] / "editors"
DOCS = EDITORS.parent / "docs/editors"

PATTERNS = ("hip.j2", "cu.j2", "cpp.j2", "kernel.toml")


def commented(path: Path) -> Any:
    """JSON with comments on lines of their own."""
    return json.loads(re.sub(r"(?m)^\s*//.*$", "", path.read_text()))


def sublime() -> dict[str, Any]:
    """The settings of Sublime Text, without their prefix."""
    given = commented(EDITORS / "sublime/LSP-ckwatch.sublime-settings")["settings"]
    return {key.removeprefix("ckwatch."): value for key, value in given.items()}


def helix() -> Any:
    """The settings of Helix."""
    settings = tomllib.loads((EDITORS / "helix/languages.toml").read_text())
    return settings["language-server"]["ckwatch"]["config"]["ckwatch"]


def zed() -> Any:
    """The settings of Zed."""
    return json.loads((EDITORS / "zed/settings.json").read_text())["lsp"]["ckwatch"]["settings"]


def jetbrains() -> Any:
    """The settings of JetBrains' IDEs."""
    return json.loads((EDITORS / "jetbrains/ckwatch/settings.json").read_text())["ckwatch"]


def neovim() -> dict[str, Any]:
    """The settings in Neovim's help."""
    text = (EDITORS / "neovim/doc/ckwatch.txt").read_text()
    block = text.partition("        ckwatch = {")[2].partition("        },")[0]
    return {
        key: json.loads(value.replace("'", '"'))
        for key, value in re.findall(r"^ +(\w+) = ('[^']*'|\w+),", block, re.MULTILINE)
    }


@pytest.mark.parametrize("given", [sublime, helix, zed, jetbrains, neovim])
def test_the_server_takes_the_settings(given: Callable[[], dict[str, Any]]) -> None:
    assert given()
    assert settings_from(given())[1] == []


@pytest.mark.parametrize("given", [sublime, jetbrains, neovim])
def test_those_that_list_all_list_their_defaults(given: Callable[[], dict[str, Any]]) -> None:
    assert given() == {name: getattr(EditorSettings(), field) for name, field in NAMES.items()}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_pages_name_settings_that_are_there(page: Path) -> None:
    named = re.findall(r"ckwatch = \{ (\w+) =|\(:ckwatch \(:(\w+)", page.read_text())
    assert {one or other for one, other in named} <= set(NAMES)


@pytest.mark.parametrize(
    "path", [path for name in ("jetbrains/*", "kate", "zed") for path in EDITORS.glob(f"{name}/*.json")], ids=str
)
def test_json_is_well_formed(path: Path) -> None:
    assert json.loads(path.read_text())


@pytest.mark.parametrize(
    "path",
    [*EDITORS.glob("zed/*.toml"), *EDITORS.glob("zed/languages/*/*.toml"), *EDITORS.glob("helix/*.toml")],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_toml_is_well_formed(path: Path) -> None:
    assert tomllib.loads(path.read_text())


def test_every_editor_knows_every_kind_of_file() -> None:
    kate = " ".join(ET.parse(path).getroot().get("extensions", "") for path in EDITORS.glob("kate/*.xml"))  # noqa: S314  # our own
    texts = {
        "kate": kate,
        "jetbrains": (EDITORS / "jetbrains/ckwatch/template.json").read_text(),
        "helix": (EDITORS / "helix/languages.toml").read_text(),
        "sublime": "".join(path.read_text() for path in EDITORS.glob("sublime/*.sublime-syntax")),
        "zed": "".join(path.read_text() for path in EDITORS.glob("zed/languages/*/config.toml")),
    }
    missing = {(name, one) for name, text in texts.items() for one in (*PATTERNS, "ckwatch.toml") if one not in text}
    assert not missing


def test_the_template_for_jetbrains_has_what_lsp4ij_reads() -> None:
    template = json.loads((EDITORS / "jetbrains/ckwatch/template.json").read_text())
    assert template["programArgs"]["default"].split() == ["ckwatch", "lsp"]
    mappings = {one["languageId"]: one["fileType"]["patterns"] for one in template["fileTypeMappings"]}
    assert mappings.keys() == {"ckwatch-template", "ckwatch-kernel"}
    assert "*.j2" in mappings["ckwatch-template"]
    assert "*.kernel.toml" in mappings["ckwatch-kernel"]


def test_kates_modes_are_those_that_its_server_is_for() -> None:
    modes = {ET.parse(path).getroot().get("name") or "" for path in EDITORS.glob("kate/*.xml")}  # noqa: S314  # our own
    servers = json.loads((EDITORS / "kate/settings.json").read_text())["servers"].values()
    assert modes == {one for one in modes if any(re.match(server["highlightingModeRegex"], one) for server in servers)}
    assert len(modes) == 2
