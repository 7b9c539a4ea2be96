"""Keeps answers of the daemon. One that may be out of date is used as it is, and requested again at the same time."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_lsp.session.session import Session

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Kept(Generic[Answer]):
    """The last answer, and the stamp that it is about. `asked` is set when an answer on its way is there."""

    ask: Callable[[], Awaitable[Answer]]
    wanted: object
    stamp: object = None
    answer: Answer | None = None
    at_s: float = -math.inf
    asked: anyio.Event | None = None


class KeptAnswers(Generic[Answer]):
    """Answers by key, at most `limit`; those that were asked for last are kept. Another stamp asks for another answer.

    An answer is requested `again_s` after the last one at the earliest, and once more when it is older than `age_s`.
    """

    def __init__(self, session: Session, limit: int, *, again_s: float = 0.0, age_s: float = math.inf) -> None:
        self._session = session
        self._limit = limit
        self._again_s = again_s
        self._age_s = age_s
        self._kept: dict[Hashable, _Kept[Answer]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def is_about(self, key: Hashable, stamp: object) -> bool:
        """Return True if the known answer is about this stamp."""
        return key in self._kept and self._kept[key].answer is not None and self._kept[key].stamp == stamp

    def known(self, key: Hashable, stamp: object, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """Return the known answer; one about the stamp is requested, and known the next time."""
        return self._want(key, stamp, ask).answer

    async def get(
        self,
        key: Hashable,
        stamp: object,
        ask: Callable[[], Awaitable[Answer]],
        first_s: float,
        newer_s: float = 0.0,
    ) -> Answer | None:
        """Wait `first_s` for an answer if there is none, `newer_s` for one about the stamp if there is another."""
        kept = self._want(key, stamp, ask)
        limit_s = first_s if kept.answer is None else newer_s
        if kept.asked is not None and limit_s:
            with anyio.move_on_after(limit_s):
                await kept.asked.wait()
        return kept.answer

    def _want(self, key: Hashable, stamp: object, ask: Callable[[], Awaitable[Answer]]) -> _Kept[Answer]:
        kept = self._kept.pop(key) if key in self._kept else _Kept(ask, stamp)
        kept.ask, kept.wanted = ask, stamp
        self._kept[key] = kept
        if len(self._kept) > self._limit:
            del self._kept[next(iter(self._kept))]
        if kept.asked is None and not self._is_present(kept):
            kept.asked = anyio.Event()
            self._session.start(self._fetch, kept, kept.asked)
        return kept

    def _is_present(self, kept: _Kept[Answer]) -> bool:
        age_s = time.monotonic() - kept.at_s
        return kept.answer is not None and kept.stamp == kept.wanted and age_s <= self._age_s

    async def _fetch(self, kept: _Kept[Answer], asked: anyio.Event) -> None:
        try:
            while not self._is_present(kept):
                await anyio.sleep(max(0.0, kept.at_s + self._again_s - time.monotonic()))
                stamp = kept.wanted
                kept.answer, kept.stamp, kept.at_s = await kept.ask(), stamp, time.monotonic()
        except CkwatchError as error:
            _log.info("%s", error)
        finally:
            kept.asked = None
            asked.set()
