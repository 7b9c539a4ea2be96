"""The VS Code extension by itself: types, lint, its own tests, and what is in the package."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.editors.vscode_install import node_packages, package_extension

pytestmark = [pytest.mark.editors, pytest.mark.network, pytest.mark.timeout(1800)]

EXTENSION = Path(__file__).parents[2] / "editors/vscode"


@pytest.mark.parametrize("script", ["lint", "test"])
def test_script(script: str) -> None:
    node_packages(EXTENSION)
    done = subprocess.run(["npm", "run", script], cwd=EXTENSION, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_has_what_is_needed_and_no_more() -> None:
    names = zipfile.ZipFile(package_extension(EXTENSION)).namelist()
    assert {name.split("/")[1] for name in names if name.startswith("extension/")} == {
        *("LICENSE.txt", "package.json", "readme.md"),
        *("dist", "media", "syntaxes", "walkthrough"),
    }
    assert [name for name in names if name.startswith("extension/dist/")] == ["extension/dist/extension.js"]
