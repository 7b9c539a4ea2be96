"""Endpoints for clients' own methods: states and events, a client's view, questions that they split or name."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.questions.endpoint import NDJSON, FileName, delete, get, post, put

if TYPE_CHECKING:
    from ckwatch.wire.cpp import CppAnswer, CppRequest
    from ckwatch.wire.requests import EditorRequest, FocusRequest, OverlayRequest, ViewRequest
    from ckwatch.wire.rows import Overview
    from ckwatch.wire.schema import ClientId, Paths, Seq
    from ckwatch.wire.state import Change, File, Snapshot


class ClientQuestions:
    """Questions and orders of a client for itself, not as its user calls it."""

    @get("/snapshot", viewed=True)
    def snapshot(self) -> Snapshot:
        """Every state, and the number after which to follow events."""

    @get("/overview", viewed=True)
    def overview(self) -> Overview:
        """A snapshot with units as rows, JSON arrays of the fields of `UnitRow`, without their timings."""

    @get("/events", viewed=True, media=NDJSON)
    def events(self, after: Seq | None = None, *, quiet: bool = False, rows: bool = False) -> Change:
        """One line per change, as long as the connection is open. After a `reset` take a new snapshot.

        `after`: a number, by default the present one. `quiet`: heartbeats only, for a client that has them show
        that it is there. `rows`: units are rows, as those of an overview, with their timings.
        """

    @get("/files", viewed=True)
    def file(self, path: FileName) -> File:
        """The diagnostics of a file."""

    @post("/readers", viewed=True)
    def readers_of(self, paths: Paths) -> list[list[str]]:
        """The units that read each of several files."""

    @post("/cpp", viewed=True, slow=True, operation="ask_cpp")
    def ask_cpp(self, request: CppRequest) -> CppAnswer:
        """Ask clangd about C++ at a place. Closing the connection gives the question up."""

    @put("/clients/{client}/overlays")
    def overlay(self, client: ClientId, request: OverlayRequest) -> None:
        """Set the text of an unsaved buffer, or drop it."""

    @put("/clients/{client}/focus")
    def focus(self, client: ClientId, request: FocusRequest) -> None:
        """Put first what the client looks at."""

    @put("/clients/{client}/view")
    def view(self, client: ClientId, request: ViewRequest) -> None:
        """Set how the client's view differs from the workspace."""

    @put("/clients/{client}/editor")
    def editor(self, client: ClientId, request: EditorRequest) -> None:
        """Declare that the client is an editor, which shows places or does not."""

    @delete("/clients/{client}")
    def leave(self, client: ClientId) -> None:
        """Leave: the client's streams end, and its unsaved text is dropped."""

    @post("/stop", retry="never")
    def stop(self) -> None:
        """End the daemon."""
