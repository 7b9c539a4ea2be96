"""Questions about the daemon, its workspace, and the words of templates and files."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ckwatch.questions.endpoint import FileName, Form, UnitName, get, post

if TYPE_CHECKING:
    from ckwatch.wire.language import ParameterValue, TemplateDetail, TemplateName, Vocabulary
    from ckwatch.wire.messages import UnsavedText
    from ckwatch.wire.schema import Coordinate, LineCount, Name
    from ckwatch.wire.state import Status, WorkspaceDetail


def _one_of_both(asked: Any) -> None:
    if (asked.name is None) == (asked.path is None):
        raise ValueError("give either name or path")


Candidates = Annotated[Sequence[Any], Form("CandidateValues", lambda values, _: list(values))]
Parameters = Annotated[Mapping[str, Any], Form("ParameterValues", lambda values, _: dict(values))]


class WorkspaceQuestions:
    """The daemon, the workspace, and what may stand in its files."""

    @get("/status")
    def status(self) -> Status:
        """The daemon itself: version, process, counts of units by phase and outcome, warnings."""

    @get("/workspace", viewed=True)
    def workspace(self) -> WorkspaceDetail:
        """The workspace itself: its files, and what is wrong in its settings and kernel files."""

    @get("/log")
    def log(self, lines: LineCount = 100) -> str:
        """The end of the daemon's log."""

    @post("/show", retry="unsent")
    def show(self, path: FileName, line: Coordinate, column: Coordinate = 0) -> int:
        """Have the editors of the workspace show a place of a file, wherever that lies; how many were asked.

        `line` and `column`, in code points, count from zero. The topic `workspace` says how many editors there are.
        Raises CkwatchError where there is no file that can be read.
        """

    @get("/unsaved")
    def unsaved(self) -> list[UnsavedText]:
        """The texts that editors of the workspace have not saved, by path."""

    @get("/vocabulary")
    def vocabulary(self) -> Vocabulary:
        """The hooks, filters, tests, names and tags of templates, and the keys of kernel files and `ckwatch.toml`.

        It is the same as long as the daemon runs.
        """

    @get("/templates", viewed=True)
    def templates(self) -> list[TemplateName]:
        """Every template that a kernel file could name, in order of the search path."""

    @get("/template", viewed=True, check=_one_of_both)
    def template(self, name: Name | None = None, *, path: FileName | None = None) -> TemplateDetail:
        """The files that a template includes and its parameters, by its name or by its file's path.

        Files that templates include are found by their paths, too. Raises CkwatchError where there is none.
        """

    @get("/readers", viewed=True)
    def readers(self, path: FileName) -> list[str]:
        """The ids of the units that read a file, as observed: as template, header or kernel file."""

    @post("/values", viewed=True)
    def values(
        self,
        unit: UnitName,
        parameter: Name,
        values: Candidates | None = None,
        *,
        parameters: Parameters | None = None,
    ) -> list[ParameterValue]:
        """Judge values of a parameter by the instance rules: accepted ones first, then the nearest.

        Without `values` those that the parameter may have, or some near its present one. `parameters`: all parameters
        of the instance, where they differ from those that the daemon knows.
        """
