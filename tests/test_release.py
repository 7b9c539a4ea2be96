"""A release: one version everywhere, a changelog's section for it, and a wheel that holds every file of the packages."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from ckwatch import __version__
from tools import release


def test_every_file_names_the_same_version() -> None:
    assert release.version() == __version__


def test_the_notes_are_the_section_of_the_changelog() -> None:
    notes = release.notes(__version__)
    assert notes.startswith("### ")
    assert "\n## " not in notes
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no section 9\.9\.9"):
        release.notes("9.9.9")


def test_the_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(release.ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    packaged = release.packaged_files()
    assert {"ckwatch/examples/gemm/ckwatch.toml", "ckwatch/py.typed"} <= packaged.keys()
    assert packaged.keys() - held == set()
