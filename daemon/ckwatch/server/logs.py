"""The daemon's log. A thread of its own writes it, so that a slow disk delays nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue

FILE_BYTES = 2**20
"""Of the log; the one before it is kept, too."""

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@contextmanager
def logging_to(handler: logging.Handler) -> Iterator[None]:
    """Everything from INFO on (of other packages: from WARNING on) goes to `handler`, which is closed at the end."""
    handler.setFormatter(logging.Formatter(_FORMAT))
    waiting: SimpleQueue[logging.LogRecord] = SimpleQueue()
    taking = QueueHandler(waiting)
    writing = QueueListener(waiting, handler)
    root, ours = logging.getLogger(), logging.getLogger("ckwatch")
    before = ours.level
    root.addHandler(taking)
    ours.setLevel(logging.INFO)
    writing.start()
    try:
        yield
    finally:
        root.removeHandler(taking)
        ours.setLevel(before)
        writing.stop()
        with suppress(OSError):  # a full disk
            handler.close()


def file_handler(path: Path) -> logging.Handler:
    """A log file, or stderr where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and not path.is_file():  # a FIFO would block who opens it
            return logging.StreamHandler()
        return _LogFile(path, maxBytes=FILE_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return logging.StreamHandler()


class _LogFile(RotatingFileHandler):
    """On a full disk the log stops, and nothing else."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in `logging`
        """Say nothing, since there is nowhere to say it."""
