"""How much an assistant may have compiled, executed and tuned in one session."""

from __future__ import annotations

from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(slots=True)
class SessionBudget:
    """The rest of a session's budget: compiles, verifications of a unit, seconds that tools may work."""

    compiles: int
    verifications: int
    seconds: float

    def require(self, *, compiles: int = 0, verifications: int = 0) -> None:
        """Raise CkwatchError for work that the budget has not."""
        if self.seconds <= 0:
            raise CkwatchError("the session's time is used up", "`ckwatch mcp --time TIME` gives more")
        if compiles > self.compiles:
            what = f"{count(compiles, 'compile')} needed, {self.compiles} left in the session's budget"
            raise CkwatchError(what, "name fewer units, or let the user start `ckwatch mcp --compiles N`")
        if verifications > self.verifications:
            what = f"{count(verifications, 'verification')} needed, {self.verifications} left in the session's budget"
            raise CkwatchError(what, "name fewer units, or let the user start `ckwatch mcp --verifications N`")

    def spend(self, *, compiles: int = 0, verifications: int = 0, seconds: float = 0.0) -> None:
        """Take off what was done."""
        self.compiles = max(0, self.compiles - compiles)
        self.verifications = max(0, self.verifications - verifications)
        self.seconds -= seconds
