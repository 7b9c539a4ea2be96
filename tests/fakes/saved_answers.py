"""Recorded answers of a real clangd about `tests/data/clangd/k.cpp.j2`, and the places of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ckwatch.cpp.mappings import RenderedSource
from ckwatch.cpp.places import MEMORY_FOLDER, TemplatePlaces
from helpers.rendered_sources import rendered_source

DATA = Path(__file__).parent.parent / "data/clangd"
TEMPLATE = (DATA / "k.cpp.j2").read_text()
ANSWERS: dict[str, Any] = json.loads((DATA / "answers.json").read_text())
URI = f"file://{MEMORY_FOLDER}/main/host/k.cpp"
UNIT = "k/one@x86-64"


def saved_source(folder: Path) -> RenderedSource:
    """The render that the answers are about."""
    return rendered_source(folder, {"k.cpp.j2": TEMPLATE}, MPerBlock=128, Type="float")


def saved_places(folder: Path) -> TemplatePlaces:
    """Its places, for questions about the template."""
    return TemplatePlaces(URI, UNIT, saved_source(folder), lambda _path: False, str(folder / "k.cpp.j2"))
