"""Findings in the formats that other programs read: code hosts, test reports, annotations.

The table has the writers of all formats by name; each is a pure function of `Findings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckwatch.cli.reports.findings import Findings

FORMATS: Mapping[str, str] = {
    "sarif": "SARIF 2.1.0, for code scanning",
    "junit": "JUnit XML, a test case for each unit",
    "github": "commands that GitHub shows as annotations",
    "gitlab": "GitLab's code quality report",
}
"""The formats, each a module of this package with a function `report`, in words."""


def report(findings: Findings, name: str) -> str:
    """Return the findings in a format of `FORMATS`, with a line break at the end."""
    write: Callable[[Findings], str] = import_module(f"ckwatch.cli.reports.{name}").report
    return write(findings)
