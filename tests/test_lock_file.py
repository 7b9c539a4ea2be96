"""The lock file: it names every development dependency, and no index but the public one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK: list[dict[str, Any]] = tomllib.loads((ROOT / "pylock.toml").read_text())["packages"]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=; ]", requirement)[0]).lower()


def test_files_come_from_the_public_index_with_their_hashes() -> None:
    files = [file for each in LOCK for file in [*each.get("wheels", []), *filter(None, [each.get("sdist")])]]
    assert len(files) > 1000
    assert {file["url"].partition("/packages/")[0] for file in files} == {"https://files.pythonhosted.org"}
    assert all(re.fullmatch("[0-9a-f]{64}", file["hashes"]["sha256"]) for file in files)


def test_every_dependency_is_locked() -> None:
    project = PYPROJECT["project"]
    extras = [each for name, extra in project["optional-dependencies"].items() if name != "cuda" for each in extra]
    groups = [each for group in PYPROJECT["dependency-groups"].values() for each in group if isinstance(each, str)]
    wanted = [*project["dependencies"], *extras, *groups, *PYPROJECT["build-system"]["requires"]]
    assert {canonical(each) for each in wanted} - {each["name"] for each in LOCK} == set()
