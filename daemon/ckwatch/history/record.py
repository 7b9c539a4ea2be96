"""What is known of one run of a unit, and how it stands in the database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

ReadSet = Mapping[str, str]
"""Paths of the templates that a unit read, with the SHA-256 of their contents."""


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """The result of a unit.

    `unit` is `KERNEL/INSTANCE@ARCH`; `token_key` and `key` are of what was rendered and compiled, `key` empty where it
    never was. `outcome` is built, failed or faulted. `finished_at` is in Unix seconds, for display; `seconds` and
    `peak_memory_bytes` are what the compilers took, and `from_store` is true where they did not have to run.
    `cause` says why it ran: what happened and when (Unix seconds), newest first.
    """

    unit: str
    token_key: str
    key: str
    outcome: str
    finished_at: float
    seconds: float
    peak_memory_bytes: int
    from_store: bool
    reads: ReadSet
    cause: tuple[tuple[str, float], ...]


COLUMNS = "token_key, key, outcome, finished_at, seconds, peak_memory_bytes, from_store, cause"
"""The columns of a run that are a record's own."""


def values_of(record: UnitRecord) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    return (
        *(record.token_key, record.key, record.outcome, record.finished_at, record.seconds),
        *(record.peak_memory_bytes, record.from_store, json.dumps(record.cause)),
    )


def record_of(unit: str | bytes, reads: ReadSet, values: tuple[Any, ...]) -> UnitRecord:
    """The record of a unit, as `stored_name` gives it, from the values of `COLUMNS`."""
    token_key, key, outcome, finished_at, seconds, peak_memory_bytes, from_store, cause = values
    return UnitRecord(
        unit=unit if isinstance(unit, str) else unit.decode("utf-8", "surrogatepass"),
        token_key=intern(token_key),
        key=key,
        outcome=outcome,
        finished_at=finished_at,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes,
        from_store=bool(from_store),
        reads=reads,
        cause=tuple((intern(what), at) for what, at in json.loads(cause)),
    )


def stored_name(unit: str) -> str | bytes:
    """A unit's name as it is stored: as text where it is text.

    A kernel may be called after a file whose name is not UTF-8; SQLite takes only bytes then.
    """
    try:
        unit.encode()
    except UnicodeEncodeError:
        return unit.encode("utf-8", "surrogatepass")
    return unit


def stored_reads(reads: ReadSet) -> tuple[str, str]:
    """The hash by which equal read sets are one, and the set as it is stored."""
    text = json.dumps(dict(sorted(reads.items())), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest(), text
