"""The phases of a unit, and the one table of which may follow which.

Every input of a unit takes the same way, once: WAITING for a renderer, RENDERING, LOOKING in the store for what the
tokens compile to, QUEUED for a compiler, COMPILING. It ends in one of two settled phases: DONE, with a result, errors
included, or IDLE, when the store has no result and no client wants one. A short cut ends earlier: an error before the
compiler, or tokens whose result is known. At a daemon's start, what the last one knew may still hold (`recall`).

A new input starts over: every phase leads back to WAITING. The unit's generation grows, its render or look-up is
stopped, and an answer that is on its way already is dropped. A compiler runs on until the new tokens are known: white
space and comments are no input to it. If the tokens are equal, the unit goes from RENDERING straight to COMPILING.

`move` is the only function that changes a phase. A pair that is not in `TRANSITIONS` is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from ckwatch.core.events import Cause, UnitKey
from ckwatch.model.errors import CkwatchError


class Phase(StrEnum):
    """A unit's position on the way from its present input to a result."""

    WAITING = "waiting"
    """For a renderer."""
    RENDERING = "rendering"
    LOOKING = "looking"
    """For the result in the store; the look-up waits for its turn or runs."""
    IDLE = "idle"
    """Rendered and checked. The store has no result, and no client wants one or there is no compiler."""
    QUEUED = "queued"
    """For a compiler."""
    COMPILING = "compiling"
    DONE = "done"
    """With a result: built, errors, or a fault of the host."""


NEW_INPUT = "it has a new input"
_NEW_TEXT = "it was compiled from another text with the same tokens: its messages need new places"

TRANSITIONS: Mapping[Phase, Mapping[Phase, str]] = MappingProxyType(
    {
        Phase.WAITING: {
            Phase.RENDERING: "a renderer is free",
            Phase.DONE: "the result that an earlier daemon knew holds",
            Phase.WAITING: NEW_INPUT,
        },
        Phase.RENDERING: {
            Phase.LOOKING: "it has rendered",
            Phase.COMPILING: "its tokens are those that an earlier input's compiler is at work on",
            Phase.QUEUED: "it has rendered, and is to be compiled whatever the store has",
            Phase.DONE: "the template or the instance has errors, its result holds for the same tokens, or a fault",
            Phase.IDLE: "it has rendered, and there is no compiler",
            Phase.WAITING: NEW_INPUT,
        },
        Phase.LOOKING: {
            Phase.DONE: "the store has its result, or a fault",
            Phase.QUEUED: "the store has no result, and a client requests one",
            Phase.IDLE: "the store has no result, and no client requests one",
            Phase.COMPILING: "its text was saved: the unsaved text's compiler goes on for it",
            Phase.WAITING: NEW_INPUT,
        },
        Phase.IDLE: {
            Phase.LOOKING: "a client requests it",
            Phase.WAITING: NEW_INPUT,
        },
        Phase.QUEUED: {
            Phase.COMPILING: "a compiler is free, or its text was saved and the unsaved text's compiler goes on for it",
            Phase.LOOKING: "what the store has is good enough again",
            Phase.IDLE: "no client requests it any longer, or it was cancelled",
            Phase.WAITING: NEW_INPUT,
        },
        Phase.COMPILING: {
            Phase.DONE: "its compiler has ended, or a fault",
            Phase.QUEUED: "its host pass has ended: the device pass is next; or the farm could not compile it",
            Phase.LOOKING: _NEW_TEXT,
            Phase.IDLE: "no client requests it any longer, or it was cancelled",
            Phase.WAITING: NEW_INPUT,
        },
        Phase.DONE: {
            Phase.WAITING: NEW_INPUT,
        },
    }
)
"""Phase → the phases that may follow it, each with the reason."""


class InvalidTransitionError(CkwatchError):
    """A bug of ours: a unit's phase cannot follow its last one. The hint is the unit's story, newest first."""


class HasPhase(Protocol):
    """A unit, as far as its phase is concerned."""

    key: UnitKey
    cause: Cause
    phase: Phase


def move(unit: HasPhase, phase: Phase) -> None:
    """Change the unit's phase. Raises InvalidTransitionError for a pair that is not in `TRANSITIONS`."""
    if phase not in TRANSITIONS[unit.phase]:
        story = "\n".join(cause.what for cause in unit.cause.chain)
        raise InvalidTransitionError(f"{unit.key} cannot go from {unit.phase} to {phase}", story)
    unit.phase = phase


def transitions_table() -> str:
    """`TRANSITIONS` in Markdown, as docs/unit-phases.md prints it."""
    rows = [f"| {old} | {new} | {why} |" for old, following in TRANSITIONS.items() for new, why in following.items()]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])
