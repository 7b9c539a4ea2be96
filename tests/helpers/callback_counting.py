"""An event loop that does something before the n-th callback, for tests that cancel at every one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any


class CountedLoop(asyncio.SelectorEventLoop):
    """Calls `at` when so many callbacks have been scheduled from the event loop's own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        self.at: Callable[[], None] = lambda: None
        self._owner = threading.get_ident()

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]  # any arguments are passed on
        """As the loop does, counted."""
        if self.left > 0 and threading.get_ident() == self._owner:
            self.left -= 1
            if not self.left:
                self.at()
        return super().call_soon(callback, *arguments, context=context)
