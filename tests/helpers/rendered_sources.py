"""Renders of templates that tests write, with their maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ckwatch_templates
from ckwatch.cpp.mappings import RenderedSource
from ckwatch.render.renderer import Renderer
from helpers.units import unit


def rendered_source(folder: Path, files: dict[str, str], **parameters: Any) -> RenderedSource:
    """The first of the templates, rendered."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    outcome = Renderer((folder, ckwatch_templates.ROOT)).render(unit(next(iter(files)), **parameters))
    assert outcome.rendered is not None, outcome.diagnostics
    return RenderedSource(outcome.rendered.text, outcome.rendered.source_map)
