"""`ckwatch` in a process of its own, which no failed test leaves behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def own_command(*words: str, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Run `ckwatch WORDS`, with settings of Popen. It is waited for at the end, and killed after an error: nothing else
    would end it."""
    with subprocess.Popen([sys.executable, "-m", "ckwatch", *words], text=True, **settings) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
