"""Errors between a client and its daemon."""

from __future__ import annotations

import json
from typing import Any

from ckwatch.model.errors import CkwatchError, ProtocolError, UnknownUnitError, UntrustedError

CLASSES: dict[int, type[CkwatchError]] = {403: UntrustedError, 404: UnknownUnitError}
"""Errors by an answer's status; any other is a CkwatchError."""

_MOST_DETAILS = 5


def error_of(status: int, body: bytes) -> CkwatchError:
    """The error that an answer with a status of 400 or more stands for; its body is a wire `Problem`."""
    try:
        problem: Any = json.loads(body)
        message, hint, details = problem["error"], problem.get("hint"), problem.get("details") or ()
        if not isinstance(message, str) or not isinstance(hint, str | None):
            raise TypeError
        more = [str(detail) for detail in details]
    except (ValueError, TypeError, KeyError, AttributeError):
        return ProtocolError(f"the daemon answered with status {status} and no reason")
    if len(more) > _MOST_DETAILS:
        more[_MOST_DETAILS:] = [f"and {len(more) - _MOST_DETAILS} more"]
    return CLASSES.get(status, CkwatchError)("\n".join([message, *(f"  {detail}" for detail in more)]), hint)
