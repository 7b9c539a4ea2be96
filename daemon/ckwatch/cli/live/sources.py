"""Lines of source files that may change while they are shown."""

from __future__ import annotations

from pathlib import Path


class Sources:
    """Files as they were when they were first asked for, until they are forgotten."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[str, ...]] = {}

    def read_line(self, path: str, line: int) -> str | None:
        """Line `line` (zero-based) of the file at `path`; None if there is none."""
        lines = self._lines.get(path)
        if lines is None:
            lines = self._lines[path] = _read(path)
        return lines[line] if 0 <= line < len(lines) else None

    def forget(self) -> None:
        """Read the files anew the next time."""
        self._lines.clear()


def _read(path: str) -> tuple[str, ...]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return ()
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
