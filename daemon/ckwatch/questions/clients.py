"""What clients' own methods are made of: states and events, a client's view, questions that they split or name."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.questions.endpoint import NDJSON, FileName, delete, get, post, put

if TYPE_CHECKING:
    from ckwatch.wire.cpp import CppAnswer, CppRequest
    from ckwatch.wire.language import Paths
    from ckwatch.wire.messages import EditorRequest, FocusRequest, OverlayRequest, ViewRequest
    from ckwatch.wire.schema import ClientId, Seq
    from ckwatch.wire.state import Change, File, Snapshot


TYPES_IN = (
    "ckwatch.wire.state",
    "ckwatch.wire.messages",
    "ckwatch.wire.language",
    "ckwatch.wire.cpp",
)


class ClientQuestions:
    """What a client asks and orders for itself, not as its user calls it."""

    @get("/snapshot", viewed=True)
    def snapshot(self) -> Snapshot:
        """Every state, and the number after which to follow events."""

    @get("/events", viewed=True, media=NDJSON)
    def events(self, after: Seq | None = None, *, quiet: bool = False) -> Change:
        """One line per change, as long as the connection is open. After a `reset` take a new snapshot.

        What comes after a number; without it, after now. `quiet`: heartbeats only, for a client that has them show
        that it is there.
        """

    @get("/files", viewed=True)
    def file(self, path: FileName) -> File:
        """The diagnostics of a file."""

    @post("/readers", viewed=True)
    def readers_of(self, paths: Paths) -> list[list[str]]:
        """The units that read each of several files."""

    @post("/cpp", slow=True, operation="ask_cpp")
    def ask_cpp(self, request: CppRequest) -> CppAnswer:
        """What clangd says of C++ at a place. Closing the connection gives the question up."""

    @put("/clients/{client}/overlays")
    def overlay(self, client: ClientId, request: OverlayRequest) -> None:
        """Set the text of an unsaved buffer, or drop it."""

    @put("/clients/{client}/focus")
    def focus(self, client: ClientId, request: FocusRequest) -> None:
        """What the client looks at comes first."""

    @put("/clients/{client}/view")
    def view(self, client: ClientId, request: ViewRequest) -> None:
        """How the client's view differs from the workspace."""

    @put("/clients/{client}/editor")
    def editor(self, client: ClientId, request: EditorRequest) -> None:
        """Whether the client is an editor that shows places."""

    @delete("/clients/{client}")
    def leave(self, client: ClientId) -> None:
        """The client goes: its streams end, and its unsaved text is dropped."""

    @post("/stop", retry="never")
    def stop(self) -> None:
        """End the daemon."""
