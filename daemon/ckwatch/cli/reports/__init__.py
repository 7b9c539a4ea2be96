"""Findings in the formats that other programs read: code hosts, test reports, annotations.

The table has the writers of all formats by name; each is a pure function of `Findings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ckwatch.model.errors import CkwatchError

if TYPE_CHECKING:
    from ckwatch.cli.reports.findings import Findings

FORMATS: Mapping[str, str] = {
    "sarif": "SARIF 2.1.0, for code scanning",
    "junit": "JUnit XML, a test case for each unit",
    "github": "commands that GitHub shows as annotations",
    "gitlab": "GitLab's code quality report",
}
"""The formats, each a module of this package with a function `report`, in words."""


Place = tuple[str, Path | None]
"""A format, and the file that a report goes to; None for standard output."""


def places(reports: Sequence[Place]) -> list[Place]:
    """The reports that are asked for. Raises CkwatchError where two of them go to one place."""
    paths = [path for _, path in reports]
    for at, path in enumerate(paths):
        if path in paths[:at]:
            where = "standard output" if path is None else str(path)
            raise CkwatchError(f"two reports cannot go to {where}", "`--report FORMAT=FILE` names a file.")
    return list(reports)


def report(findings: Findings, name: str) -> str:
    """Return the findings in a format of `FORMATS`, with a line break at the end."""
    write: Callable[[Findings], str] = import_module(f"ckwatch.cli.reports.{name}").report
    return write(findings)
