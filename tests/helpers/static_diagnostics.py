"""A kernel file of an example with one change, and what is said of a unit of it before any compiler runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import ckwatch_templates
from ckwatch.checks.static_checks import static_checks
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.text import Span
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
BUILTIN = Path(ckwatch_templates.ROOT)


@cache
def renderer(folders: tuple[Path, ...]) -> Renderer:
    """One for all units of a search path."""
    return Renderer(folders)


def changed_example(folder: Path, example: str, changes: Mapping[str, str]) -> tuple[list[Diagnostic], list[Unit]]:
    """The workspace `example` with the first of each text in `changes` replaced: its errors, and its units."""
    root = folder / "workspace"
    shutil.copytree(EXAMPLES / example.partition("/")[0], root)
    path = root / f"{example.partition('/')[2]}.kernel.toml"
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    workspace = load_workspace(root)
    errors = [one for one in workspace.diagnostics if one.severity is Severity.ERROR]
    return errors, [unit for unit in workspace.units if unit.kernel.path == str(path)]


def diagnostics_of(
    unit: Unit, folders: tuple[Path, ...] = (BUILTIN,), passed: Mapping[str, ParameterValue] | None = None
) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of rendering and checks for a unit."""
    outcome = renderer(folders).render(unit)
    return static_checks(unit, outcome, rules=True, builtin=str(BUILTIN), passed=passed).diagnostics


def text_at(span: Span) -> str:
    """Return the text of the range; of several lines the first."""
    line = Path(span.path).read_text().splitlines()[span.start.line]
    return line[span.start.column : span.end.column if span.end.line == span.start.line else None]
