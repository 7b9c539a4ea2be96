"""The rounds of one part: each has a chance of its own, by which it can be played again."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

FOUND_LIMIT = 20
"""Limit of findings: a part that finds as much has one fault that is found again and again."""


@dataclass(slots=True)
class Rounds:
    """Rounds of one `part` until `seconds` are over or there were `limit`, or the single one `only`.

    `folder` is the part's own. What is found is listed in `found` and saved, with what it was found with, in `findings`.
    """

    part: str
    folder: Path
    findings: Path
    seed: int = 0
    seconds: float = float("inf")
    limit: int | None = None
    only: int | None = None
    report: Callable[[str], None] = print
    number: int = -1
    done: int = 0
    found: list[str] = field(default_factory=list)
    _input: bytes = b""
    _began_s: float = field(default_factory=time.monotonic)

    def __iter__(self) -> Iterator[random.Random]:
        """The chance of each round."""
        number = self.only or 0
        while not self.over:
            self.number, self._input = number, b""
            self.note_progress()
            yield random.Random(f"{self.part} {self.seed} {number}")  # noqa: S311  # the same again for the same seed
            self.done += 1
            number += 1

    @property
    def has_found(self) -> bool:
        """Return True if anything was found in this round."""
        return any(one.startswith(f"round {self.number}:") for one in self.found)

    @property
    def over(self) -> bool:
        """Return True if no further round is to begin."""
        if self.only is not None:
            return self.done > 0
        return (
            self.done == self.limit or len(self.found) >= FOUND_LIMIT or time.monotonic() - self._began_s > self.seconds
        )

    def note_progress(self) -> None:
        """Leave behind which round it is, for whoever ends this process if it hangs."""
        with suppress(OSError):
            (self.folder / "round").write_text(str(self.number))

    def using(self, text: str | bytes) -> None:
        """Say what this round works with, which is saved if something is found."""
        self._input = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        with suppress(OSError):
            (self.folder / "input").write_bytes(self._input)

    def add(self, what: str) -> None:
        """Something was found in this round."""
        self.findings.mkdir(parents=True, exist_ok=True)
        saved = self.findings / f"{self.part}-{self.seed}-{self.number}"
        saved.write_bytes(what.encode("utf-8", "replace") + b"\n\n" + self._input + b"\n")
        first = what.strip().splitlines()[-1] if what.startswith("Traceback") else what.strip().splitlines()[0]
        self.found.append(f"round {self.number}: {first}")
        self.report(f"{self.part}: {self.found[-1]}\n    {again(self.part, self.seed, self.number)}    ({saved})")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Add what the body raises."""
        try:
            yield
        except Exception:  # noqa: BLE001  # whatever it is, it is found
            self.add(traceback.format_exc())

    async def watch(self, what: Awaitable[object]) -> None:
        """Wait for it, and add what it raises."""
        with self.watched():
            await what

    def summary(self) -> str:
        """One line."""
        what = f"{len(self.found)} found" if self.found else "nothing found"
        return f"{self.part:14} {self.done:6} rounds, {what} (seed {self.seed})"


def again(part: str, seed: int, number: int) -> str:
    """The command that plays a round again."""
    return f"PYTHONPATH=tests python -m torture {part} --seed {seed} --only {number}"
