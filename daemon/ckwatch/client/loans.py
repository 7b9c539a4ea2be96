"""What a client lends, as plain values: which requests make the daemon have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ckwatch.wire.messages import FocusRequest, ViewRequest

Key = tuple[str, str]
"""What a request sets: `("overlays", PATH)`, `("focus", "")` or `("view", "")`."""


@dataclass(eq=False, slots=True)
class Loan:
    """A lent text. The text of a `ground` is what stands before it where no other text of the file is lent."""

    path: str
    text: str
    ground: str | None = None


class Loans:
    """Everything lent at a time. Of several texts of a file the last holds; additions follow it in their order."""

    def __init__(self) -> None:
        self.focus: FocusRequest | None = None
        self.view: ViewRequest | None = None
        self._texts: list[Loan] = []

    @property
    def differ(self) -> bool:
        """Whether the client's view is another than the workspace on disk."""
        return bool(self._texts) or self.view is not None

    def lend(self, path: str, text: str) -> Loan:
        """Lend the whole text of a file."""
        loan = Loan(path, text)
        self._texts.append(loan)
        return loan

    def add(self, path: str, text: str, ground: str) -> Loan:
        """Lend a file with text added to its end; `ground` is the file's own text."""
        loan = Loan(path, text, ground)
        self._texts.append(loan)
        return loan

    def take_back(self, loan: Loan) -> None:
        """Lend it no longer."""
        if loan in self._texts:
            self._texts.remove(loan)

    def text(self, path: str) -> str | None:
        """The text lent of a file, None where none is."""
        loans = [loan for loan in self._texts if loan.path == path]
        if not loans:
            return None
        additions = [loan.text for loan in loans if loan.ground is not None]
        whole = self._whole_text(path)
        return "".join((loans[0].ground or "" if whole is None else whole, *additions))

    def _whole_text(self, path: str) -> str | None:
        return next((loan.text for loan in reversed(self._texts) if loan.path == path and loan.ground is None), None)

    def wanted(self) -> dict[Key, BaseModel]:
        """The requests that make the daemon have everything."""
        from ckwatch.wire.messages import OverlayRequest

        found: dict[Key, BaseModel] = {}
        if self.view is not None:
            found["view", ""] = self.view
        for path in dict.fromkeys(loan.path for loan in self._texts):
            found["overlays", path] = OverlayRequest.model_construct(path=path, text=self.text(path))
        if self.focus is not None:
            found["focus", ""] = self.focus
        return found


def missing(wanted: Mapping[Key, BaseModel], given: Mapping[Key, BaseModel | None]) -> list[tuple[Key, BaseModel]]:
    """The requests that lead from what the daemon was given to what is wanted; what is taken back comes first.

    A value of None in `given`: the daemon may have something there.
    """
    from ckwatch.wire.messages import FocusRequest, OverlayRequest, ViewRequest

    changes: list[tuple[Key, BaseModel]] = []
    for key in given:
        if key not in wanted:
            kind, path = key
            nothing = {"overlays": OverlayRequest.model_construct(path=path, text=None)}
            changes.append((key, nothing.get(kind) or (FocusRequest() if kind == "focus" else ViewRequest())))
    return changes + [(key, request) for key, request in wanted.items() if given.get(key) != request]
