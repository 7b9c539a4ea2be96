"""Programs that use HIP and were written elsewhere, on the emulator: what came of each.

`python -m benchmarks.programs_of_others NAME=FOLDER … [--programs N --seed S] [--seconds T]` looks in each folder for
programs: folders with a single source file that has a `main`. `ckwatch emulate` compiles it and runs it with the
arguments that its Makefile's `run` target names; a number of repetitions, the last argument above 9, becomes 2, as an
emulated launch takes longer than one of a GPU. `results/programs_of_others.md` is written anew from this run.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting import RESULTS

PAGE = RESULTS / "programs_of_others.md"
SOURCES = (".hip", ".cu", ".cpp")
MAIN = re.compile(r"\bmain\s*\(")
RUN = re.compile(r"^run:.*\n\t.*?\./(?:\$\(program\)|\w+)\s*(.*)$", re.MULTILINE)
INCLUDE = re.compile(r"(?<=\s)-I[\w./-]+")
REFUSED = re.compile(r"(hip\w+) is not emulated")
ERROR = re.compile(r"(?:fatal )?error: (.+)")
ENDED = "ended, nothing found"


@dataclass(frozen=True, slots=True)
class Program:
    """A source file with a `main`, and the arguments and `-I` flags that its authors give it."""

    name: str
    source: Path
    arguments: tuple[str, ...]
    includes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a program; `detail` is its first error, or empty."""

    program: str
    kind: str
    detail: str
    seconds: float


def programs_in(folder: Path) -> Iterator[Program]:
    """The programs below `folder`, by name."""
    for place in sorted({path.parent for path in folder.rglob("*") if path.suffix in SOURCES}):
        sources = [path for path in place.iterdir() if path.suffix in SOURCES]
        if len(sources) == 1 and MAIN.search(sources[0].read_text(errors="replace")):
            makefile = place / "Makefile"
            text = makefile.read_text(errors="replace") if makefile.is_file() else ""
            yield Program(str(place.relative_to(folder)), sources[0], _arguments(text), tuple(INCLUDE.findall(text)))


def _arguments(makefile: str) -> tuple[str, ...]:
    found = RUN.search(makefile)
    given = shlex.split(found[1], comments=True) if found else []
    if given and given[-1].isdecimal() and int(given[-1]) > 9:
        given[-1] = "2"
    return tuple(given)


def outcome(program: Program, arch: str, limit_s: float, extra: Sequence[str]) -> Outcome:
    """Compile and run the program."""
    place = program.source.parent
    flags = shlex.join(["-O3", f"-I{place}", *program.includes, *extra])
    command = [sys.executable, "-m", "ckwatch", "emulate", f"--arch={arch}", f"--flags={flags}", program.source.name]
    began = time.monotonic()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, *program.arguments], cwd=place, stdout=pipe, stderr=pipe, start_new_session=True
    ) as ran:
        try:
            out, err = ran.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)
            return Outcome(program.name, f"had not ended after {limit_s:.0f} s", "", limit_s)
    kind, detail = judged(ran.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    return Outcome(program.name, kind, detail, time.monotonic() - began)


def judged(status: int, out: str, err: str) -> tuple[str, str]:
    """The kind of an outcome, and its first error."""
    first = next((match[1] for match in ERROR.finditer(err)), "")
    if "does not compile" in err:
        return "does not compile", first
    if "[verify/" in err:
        return "a finding", first
    if refused := REFUSED.search(err):
        return "asks for what is not emulated", refused[1]
    if status:
        return "ended with a status of its own", f"{status}: {(err.strip() or out.strip()).splitlines()[-1:]}"
    return ENDED, ""


def table(projects: dict[str, list[Outcome]], arch: str) -> str:
    """The page."""
    lines = ["# Programs of others on the emulator", "", f"For {arch}, on {platform.machine()}; one run of each."]
    for name, found in projects.items():
        kinds = Counter(one.kind for one in found).most_common()
        ended = [one.program for one in found if one.kind == ENDED]
        others = [one for one in found if one.kind != ENDED]
        lines += ["", f"## {name}", ""]
        lines += [f"- {count} of {len(found)}: {kind}" for kind, count in kinds]
        lines += ["", f"Nothing was found in: {', '.join(ended)}.", ""]
        lines += ["| program | what came of it | its first error |", "|---|---|---|"]
        lines += [f"| {one.program} | {one.kind} | {one.detail.replace('|', '¦')[:160]} |" for one in others]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the programs, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("projects", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--programs", type=int, help="so many of each folder, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--flag", action="append", default=[], help="one more flag of hipcc: --flag=-I../include")
    options = parser.parse_args(arguments)
    results: dict[str, list[Outcome]] = {}
    for project in options.projects:
        name, _, folder = project.partition("=")
        programs = list(programs_in(Path(folder)))
        if options.programs is not None and options.programs < len(programs):
            drawn = random.Random(options.seed).sample(programs, options.programs)  # noqa: S311
            programs = sorted(drawn, key=lambda one: one.name)
        for program in programs:
            found = outcome(program, options.arch, options.seconds, options.flag)
            results.setdefault(name, []).append(found)
            print(f"{name}: {found.program}: {found.kind} {found.detail[:120]} ({found.seconds:.0f} s)", flush=True)
    PAGE.write_text(table(results, options.arch))


if __name__ == "__main__":
    main()
