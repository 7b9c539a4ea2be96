"""Profile the processor's time in the jobs of `many_units`: in the daemon and in the processes that it starts.

    python -m benchmarks.profiling FILE      writes the tables as Markdown

py-spy samples all threads of all of them 200 times a second and counts those that run or want to. It is not among
ckwatch's requirements: `pip install py-spy`. What the daemon does before it answers for the first time is not seen.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.large_workspace import UNITS
from benchmarks.many_units import compared
from benchmarks.references import UnavailableError
from benchmarks.reporting import SHORT, commit

RATE = 200
SHOWN = 25

WAITING = {
    *("Condition.wait", "EpollSelector.select", "QueueListener.dequeue"),
    *("serve", "main", "_end_with_input"),  # of the processes that render and watch
}
"""Functions in which threads wait, which the kernel does not tell from work everywhere."""

ASKED = "StatusQueries.status"
"""Function that tells `many_units` whether all is known; not a part of the job."""

_PROCESS = re.compile(r'process \d+:"?(?P<command>.*)')
_MODULE = re.compile(r"/daemon/ckwatch/(?P<file>[\w/]+)\.py|-m ckwatch\.(?P<module>[\w.]+)")
_FOLDER = re.compile(r"\b(?:site-packages|daemon|python\d\.\d+|benchmarks)/")
_FRAME = re.compile(r"(?P<name>.+) \((?P<path>.+?)(:\d+)?\)$")


def py_spy() -> str:
    """The program. Raises UnavailableError."""
    found = shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")
    if found is None:
        raise UnavailableError("there is no py-spy", "`pip install py-spy` installs it")
    return found


class Profile:
    """The stacks of one job, as py-spy writes them: a line for each, frames from the outermost, and how often."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.own: Counter[tuple[str, str, str]] = Counter()
        """By kind of process, place and function."""
        self.whole: Counter[tuple[str, str, str]] = Counter()
        """The same, with what is called from it."""
        self.rooms: Counter[tuple[str, str]] = Counter()
        """By kind of process and room, with what it calls that is none of ckwatch's."""
        for line in lines:
            stack, _, count = line.rpartition(" ")
            self._add(stack.split(";"), int(count))

    def _add(self, stack: list[str], count: int) -> None:
        process, frames = "daemon", []
        for entry in stack:
            if found := _PROCESS.match(entry):
                process = kind_of(found["command"])
            elif found := _FRAME.match(entry):
                frames.append((process, place_of(found["path"]), found["name"]))
        if frames and frames[-1][2] not in WAITING and not any(name == ASKED for _, _, name in frames):
            self.own[frames[-1]] += count
            rooms = (room for _, place, _ in reversed(frames) if (room := room_of(place)))
            self.rooms[process, next(rooms, "no room")] += count
            self.whole.update(dict.fromkeys(frames, count))

    def tables(self) -> Iterator[str]:
        """Lines of Markdown."""
        total = self.rooms.total()
        yield f"{total / RATE:.1f} s of running threads were seen."
        yield from ("", "| process | room | with libraries |", "|---|---|---|")
        for (process, room), count in self.rooms.most_common(SHOWN // 2):
            yield f"| {process} | {room} | {count / total:.1%} |"
        yield from ("", "| process | where | function | own | with what it calls |", "|---|---|---|---|---|")
        for key, count in self.own.most_common(SHOWN):
            process, place, name = key
            yield f"| {process} | {place} | `{name}` | {count / total:.1%} | {self.whole[key] / total:.1%} |"
        yield ""


def kind_of(command: str) -> str:
    """The purpose of a process."""
    found = _MODULE.search(command)
    return "daemon" if found is None else (found["module"] or found["file"].replace("/", "."))


def place_of(path: str) -> str:
    """A file without what is different on each machine."""
    return _FOLDER.split(path)[-1]


def room_of(place: str) -> str | None:
    """The room of a file of ckwatch's."""
    package, _, rest = place.partition("/")
    return rest.partition("/")[0] if package == "ckwatch" else None


def main() -> int:
    """Write the file; the exit status."""
    (target,) = sys.argv[1:]
    program, profiles = py_spy(), dict[str, Profile]()

    @contextmanager
    def sampled(job: str, process: int) -> Iterator[None]:
        with tempfile.NamedTemporaryFile() as file:
            options = ["--subprocesses", "--function", "--full-filenames", "--format", "raw", "--rate", str(RATE)]
            command = [program, "record", "--pid", str(process), *options, "--output", file.name]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sampler:
                try:
                    yield
                finally:
                    sampler.send_signal(signal.SIGINT)
            profiles[job] = Profile(Path(file.name).read_text().splitlines())

    seconds, _ = compared(1, sampled)
    load = f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"
    parts = [f"# The daemon's processor time, {UNITS:,} units", "", f"Commit {commit()[:SHORT]}, {load}.", ""]
    for job, profile in profiles.items():
        parts += [f"## {job}: {seconds[job][0]:.1f} s", "", *profile.tables()]
    Path(target).write_text("\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
