"""Report of a command on a planted mistake, and its score."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from ckwatch.cli import main
from mistakes.corpus import Case, Mark, plant


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the command prints it. `file` is relative to the workspace; None: without a place."""

    file: str | None
    line: int
    column: int
    code: str
    text: str

    def __str__(self) -> str:
        place = "nowhere" if self.file is None else f"{self.file}:{self.line + 1}:{self.column + 1}"
        return f"{place}: {self.text} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How right the messages about a mistake are. `noise`: messages beyond one."""

    case: Case
    marks: tuple[Mark, ...]
    messages: tuple[Message, ...]
    file: bool
    line: bool
    column: bool
    cause: bool

    @property
    def noise(self) -> int:
        return max(len(self.messages) - 1, 0)

    @property
    def right(self) -> bool:
        """Return True if there is one message, at the right place, that names the mistake."""
        return self.column and self.cause and not self.noise

    def __str__(self) -> str:
        wrong = [name for name in ("file", "line", "column", "cause") if not getattr(self, name)]
        wrong += ["noise"] if self.noise else []
        lines = [
            f"{self.case} [{', '.join(wrong) or 'right'}]",
            f"    expected {' or '.join(map(str, self.marks))}, /{self.case.says}/",
            *(f"    got      {message}" for message in self.messages or ["nothing"]),
        ]
        return "\n".join(lines)


def judge(case: Case, served: Path | None = None) -> Verdict:
    """Plant the mistake in a workspace of its own, run the command on it, and compare what it reports.

    `served`: make the same of this workspace instead, and ask its daemon.
    """
    with tempfile.TemporaryDirectory(prefix="ckwatch-mistake-") as folder:
        root = Path(folder).resolve() / "workspace"
        marks = plant(case, root)
        if served is None:
            messages = report([case.command, *case.options, "--no-daemon"], root)
        else:
            become(served, root)
            messages = report([case.command, *case.options], served)
    first = messages[0] if messages else None
    in_file = [mark for mark in marks if first and mark.file == first.file]
    place = (first.line, first.column) if first else (-1, -1)
    line = any(mark.has_line(place[0]) for mark in in_file)
    return Verdict(
        case,
        tuple(marks),
        tuple(messages),
        file=bool(in_file),
        line=line,
        column=line and any(mark.has(place) for mark in in_file),
        cause=bool(first and re.search(case.says, first.text, re.IGNORECASE)),
    )


def become(target: Path, source: Path) -> None:
    """Give `target` the files of `source` and no others; what is the same already is not touched."""
    wanted = {path.relative_to(source): path for path in source.rglob("*")}
    for path in sorted(target.rglob("*"), reverse=True):
        if path.relative_to(target) not in wanted:
            path.rmdir() if path.is_dir() else path.unlink()
    for name, path in sorted(wanted.items()):
        there = target / name
        if path.is_dir():
            there.mkdir(exist_ok=True)
        elif not there.exists() or there.read_bytes() != path.read_bytes():
            there.write_bytes(path.read_bytes())


ADVICE = "performance"
"""The source of what is no mistake."""


def report(command: Sequence[str], root: Path) -> list[Message]:
    """The messages that a command prints about a workspace, each once, in its order; advice is none."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main([*command, "--trust", "--json", "-C", str(root)])
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    diagnostics = [one for event in events for one in of_event(event)]
    messages = [message_of(one, root) for one in diagnostics if one["source"] != ADVICE]
    messages += [Message(None, 0, 0, "stderr", line) for line in err.getvalue().splitlines() if "error:" in line]
    return list(dict.fromkeys(messages))


def of_event(event: dict[str, object]) -> Sequence[dict[str, object]]:
    """The diagnostics in one line of output; those of units come again at the end, equal ones once."""
    if event["event"] == "diagnostic":
        return [event]
    if event["event"] == "unit":
        return ()
    found = event.get("diagnostics", [])
    assert isinstance(found, list)
    return found


def message_of(diagnostic: dict[str, object], root: Path) -> Message:
    """The part of a diagnostic that is judged."""
    span = diagnostic["span"]
    code, text = str(diagnostic["code"]), str(diagnostic["message"])
    if not isinstance(span, dict):
        return Message(None, 0, 0, code, text)
    start = span["start"]
    return Message(os.path.relpath(os.path.realpath(span["path"]), root), start["line"], start["column"], code, text)


def use_own_folders(folder: str) -> None:
    """State and trust of their own for a process; what was compiled is shared."""
    os.environ["XDG_STATE_HOME"] = folder
    os.environ["CKWATCH_TRUST_FILE"] = str(Path(folder, "trusted"))
