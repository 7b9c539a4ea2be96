"""The report of a run: values alone, from which every format is made.

Paths in diagnostics are absolute, those of the base's tree too, which are shown at the same file of the work tree;
`CiReport.relative` is how a format that names files of a repository writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span
from ckwatch.wire.unit_changes import ChangeSummary, UnitChange

Presence = Literal["kept", "new", "removed", "renamed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A state of the repository: `name` as it was asked for (`origin/main`), the hash of its `commit`, empty where
    there is none yet. `dirty`: files of the work tree differ from the commit."""

    name: str
    commit: str
    dirty: bool = False

    def __str__(self) -> str:
        """`origin/main (1a2b3c4d5e)`."""
        short = self.commit[:10]
        words = self.name if not short or short == self.name[:10] else f"{self.name} ({short})"
        return f"{words} with uncommitted changes" if self.dirty else words


@dataclass(frozen=True, slots=True, kw_only=True)
class CiUnit:
    """A unit that the change affects.

    `place`: its instance in its kernel file (of a removed one, where it stood). `because`: changed files that it is
    made from, relative to the repository. `change` has the verdict, its reasons, the figures that differ and the
    outcomes before and after (errors, report, predicted times, verification). `diagnostics`: errors and warnings of its
    present state, and one with code `ci/VERDICT` at `place` for what the verdict says and no error does. `fails`: its
    verdict is one of those that fail the run.
    """

    id: str
    place: Span
    presence: Presence
    change: UnitChange
    because: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    fails: bool = False

    @property
    def verdict(self) -> str:
        """The value of its `ChangeVerdict`."""
        return self.change.verdict.value

    @property
    def was(self) -> str:
        """Its name at the base, where it was renamed."""
        return self.change.was


@dataclass(frozen=True, slots=True, kw_only=True)
class CiReport:
    """A run of `ckwatch ci`.

    `workspace` and `repository` are absolute folders. `changed`: files that differ, relative to the repository. `units`
    in the order of the kernel files, then removed ones. `unaffected` counts the other units. `diagnostics`: everything
    to show at a place, mistakes in `ckwatch.toml` and kernel files first; those of several units are joined.
    `new_mistakes`: errors in these files that the base does not have. `notes`: what was not compared, and why, as
    sentences. `fail_on`: verdicts that fail the run. `seconds`: how long it took.
    """

    workspace: str
    repository: str
    base: Revision
    head: Revision
    changed: tuple[str, ...]
    units: tuple[CiUnit, ...]
    unaffected: int
    diagnostics: tuple[Diagnostic, ...]
    summary: ChangeSummary
    fail_on: tuple[str, ...]
    exit_status: int
    new_mistakes: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def failing(self) -> Sequence[CiUnit]:
        """The units because of which it fails."""
        return [one for one in self.units if one.fails]

    def relative(self, path: str) -> str | None:
        """The path as it is named in the repository; None for a file outside of it, such as a header of CK."""
        inside = path.startswith(f"{self.repository}/")
        return path[len(self.repository) + 1 :] if inside else None
