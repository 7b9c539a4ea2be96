"""Calls that may never return: they run in threads of their own, which are left behind after some time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

_Answer = TypeVar("_Answer")


class LeftBehindError(Exception):
    """There was no answer in time; the call may still go on."""


class _Asker:
    """A thread that answers one question after another, until it is left behind."""

    def __init__(self, name: str) -> None:
        self.questions: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.answers: SimpleQueue[tuple[object, Exception | None]] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (question := self.questions.get()) is not None:
            try:
                self.answers.put((question(), None))
            except Exception as error:  # noqa: BLE001  # raised where it was asked
                self.answers.put((None, error))


class TimeLimitedCalls:
    """Threads called `name`, as many as there are calls at one time. For use from threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[_Asker] = []

    def ask(self, question: Callable[[], _Answer], limit_s: float) -> _Answer:
        """Return what `question` returns, or raise what it raises. Raises LeftBehindError after the limit."""
        with self._lock:
            asker = self._idle.pop() if self._idle else _Asker(self._name)
        asker.questions.put(question)
        try:
            answer, error = asker.answers.get(timeout=limit_s)
        except Empty:
            asker.questions.put(None)  # it ends, should the answer ever come
            raise LeftBehindError from None
        with self._lock:
            self._idle.append(asker)
        if error is not None:
            raise error
        return cast("_Answer", answer)

    def close(self) -> None:
        """End the threads that wait for a question."""
        with self._lock:
            idle, self._idle = self._idle, []
        for asker in idle:
            asker.questions.put(None)
