"""What a message says about an instance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in the instance. `parameters` are those of the condition, `blamed` the one to look at first.

    `key` is equal for the repeats of one mistake.
    """

    code: str
    message: str
    parameters: tuple[str, ...]
    blamed: str | None
    key: tuple[str, ...]
