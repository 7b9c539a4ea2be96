"""The formats of a report: a table from their names to what writes them, each a pure function of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckwatch.cli.ci.report import CiReport

FORMATS: Mapping[str, str] = {
    "text": "texts:text",
    "markdown": "texts:markdown",
    "json": "texts:json_text",
}
"""`MODULE:FUNCTION` of this package by the format's name. Functions take a `CiReport` and return the whole text."""


def formatted(report: CiReport, name: str) -> str:
    """Return the report in a format of `FORMATS`."""
    module, _, function = FORMATS[name].partition(":")
    write: Callable[[CiReport], str] = getattr(import_module(f"ckwatch.cli.ci.{module}"), function)
    return write(report)
