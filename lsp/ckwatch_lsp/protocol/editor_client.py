"""What features ask of the editor: show messages, publish, refresh, report progress."""

from __future__ import annotations

from ckwatch.model.errors import CkwatchError


def sentence_of(error: CkwatchError) -> str:
    """What is wrong and what to do, as sentences in one line."""
    parts = [part.strip() for part in (error.message, error.hint or "") if part.strip()]
    return " ".join(part if part.endswith((".", "!", "?", ":")) else f"{part}." for part in parts)
