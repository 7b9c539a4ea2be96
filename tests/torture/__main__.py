"""`python -m torture [PART …]`: ill-treat ckwatch at random for some minutes, and print what it did not bear.

`make torture` runs it, and `make test` a few rounds of each part.

| part | what is done | what must hold |
|---|---|---|
| `kill` | daemons, compilers, workers and writers of the history are killed | artifacts hold the stamps of their own source and header; nothing that was reported is lost |
| `http` | requests by the OpenAPI document, and against it; no HTTP at all | no 5xx; answers are as the document says |
| `lsp` | messages of all kinds, megabytes of text; edits against a model of the text | one answer each, nothing logged as an error; the text is the model's |
| `templates` | attempts to leave the sandbox; templates that want too much | nothing is reached, read or leaked; the next render is right |
| `files` | FIFOs, sockets, devices, links, 10 GB, bad bytes, odd names in place of a workspace's files; files that change kind while they are read | an error at its place; the other kernel is built; all is, once the files are in order |
| `limits` | texts and requests that are too large, too deep or without end | the same |
| `emulator` | code objects with changed headers, notes, descriptors and instructions, loaded and launched | each is refused or executed; AddressSanitizer and UBSan say nothing |
| `commands` | commands whose own files (trust, socket, locks, log, history, caches) are none; low limits of files and sizes; a full disk; Ctrl-C | each ends, in words; all goes on once the files are in order |

In `files`, `limits` and `commands` also: no traceback anywhere, the daemon answers and stays below a bound of memory, and no
process is left. Each part runs in a process of its own, with a seed that is printed; `--seed S --only N PART` plays a single
round again, which is the command that stands beside each finding. Exit status 1 if anything was found; what it was found
with is saved.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from torture.rounds import Rounds, again

PARTS = {
    "kill": "the daemon, compilers, workers and writers of the history are killed at random moments",
    "http": "requests that the OpenAPI document allows and others, by schemathesis",
    "lsp": "messages of all kinds to the language server, and edits against a model of the text",
    "templates": "attempts to leave the templates' sandbox",
    "files": "FIFOs, devices, links in a circle, 10 GB and odd names where files are expected",
    "limits": "texts and messages that are too large, too deep or without end",
    "emulator": "changed code objects in the emulator, with sanitizers",
    "commands": "commands and daemons whose own files are none, with low limits, a full disk and Ctrl-C",
}
LAST_ROUND_S = 180.0
"""How much longer than its share a part may take, for the round that it is in; it hangs after that."""

PATIENCE_S = 20.0
"""How long a part's processes may take to end after it."""

MARK = "CKWATCH_TORTURE"
"""The environment variable by which a part's processes are known."""


def run_part(name: str, rounds: Rounds) -> Rounds:
    """Run one part in this process."""
    part = import_module(f"torture.{name}")  # what it takes from the user's cache is found now
    use_own_folders(rounds.folder)
    part.run(rounds)
    return rounds


def use_own_folders(folder: Path) -> None:
    """Sockets, state, caches and trust of this process and its children in a private folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, value in {"RUNTIME_DIR": "r", "STATE_HOME": "state", "CACHE_HOME": "cache"}.items():
        (folder / value).mkdir(mode=0o700, exist_ok=True)
        os.environ[f"XDG_{name}"] = str(folder / value)
    os.environ["CKWATCH_TRUST_FILE"] = str(folder / "trusted")
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"
    os.environ.pop("CKWATCH_NO_DAEMON", None)


def run_apart(name: str, seed: int, seconds: float, findings: Path, *, limit: int | None = None) -> tuple[str, bool]:
    """Run one part in a process of its own; its last line and whether it found nothing."""
    with tempfile.TemporaryDirectory(prefix="ckt-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "torture", name, "--here", folder, "--seed", str(seed)]
        command += ["--minutes", str(seconds / 60), "--findings", str(findings)]
        command += [] if limit is None else ["--rounds", str(limit)]
        environment = os.environ | {MARK: folder, "PYTHONPATH": str(Path(__file__).parents[1])}
        ended = ""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                printed, _ = process.communicate(timeout=seconds + LAST_ROUND_S)
            except subprocess.TimeoutExpired:
                ended = "hangs"
                kill(left_behind(folder))
                printed, _ = process.communicate()
        if not ended and process.returncode not in (0, 1):
            ended = f"ended with status {process.returncode}"
        left = left_behind(folder, PATIENCE_S)
        kill(left)
        if not ended and left:
            ended = f"left processes behind: {', '.join(left.values())}"
        lines = printed.splitlines()
        if not ended and lines:
            print("".join(f"{line}\n" for line in lines[:-1]), end="", flush=True)
            return lines[-1], process.returncode == 0
        number = int(read(folder, "round") or b"0")
        findings.mkdir(parents=True, exist_ok=True)
        saved = findings / f"{name}-{seed}-{number}"
        saved.write_bytes(read(folder, "input"))
        found = f"{name}: round {number} {ended}\n    {again(name, seed, number)}    ({saved})"
        print(*lines, found, sep="\n", flush=True)
        return f"{name:14} {number:6} rounds, {ended} (seed {seed})", False


def left_behind(mark: str, patience_s: float = 0) -> dict[int, str]:
    """Processes that a part started and that still run: number and command. Waits for them to end."""
    until_s = time.monotonic() + patience_s
    while True:
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(entry.name)] = command.strip()
        if not found or time.monotonic() > until_s:
            return found
        time.sleep(0.2)


def kill(processes: Iterable[int]) -> None:
    """End them."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def read(folder: str, name: str) -> bytes:
    """Return a file that a part left in its folder; empty without one."""
    try:
        return Path(folder, name).read_bytes()
    except OSError:
        return b""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts and print a line for each."""
    rows = "\n".join(f"  {name:11}{what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="torture", description=__doc__, epilog=rows, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, []], help="all if none is named")
    parser.add_argument("--minutes", type=float, default=10, help="for all parts together (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="a number that was printed (default: another one each time)")
    parser.add_argument("--only", type=int, metavar="N", help="play this round, and no other")
    parser.add_argument("--rounds", type=int, metavar="N", help="of each part, at most")
    parser.add_argument("--jobs", type=int, default=2, help="parts at one time (default: %(default)s)")
    parser.add_argument("--findings", type=Path, default=Path("torture-findings"), help="where to save (%(default)s)")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names: list[str] = options.parts or list(PARTS)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    findings = options.findings.absolute()
    if options.here is not None or options.only is not None:
        with tempfile.TemporaryDirectory(prefix="ckt-", ignore_cleanup_errors=True) as folder:
            here = options.here or Path(folder)
            ended = [
                run_part(name, Rounds(name, here, findings, seed, options.minutes * 60, options.rounds, options.only))
                for name in names
            ]
        print(*(one.summary() for one in ended), sep="\n", flush=True)
        return int(any(one.found for one in ended))
    began_s = time.monotonic()
    share_s = options.minutes * 60 / math.ceil(len(names) / options.jobs)
    print(f"seed {seed}: {share_s:.0f} s for each of {', '.join(names)}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda name: run_apart(name, seed, share_s, findings, limit=options.rounds), names))
    print(*(line for line, _ in results), sep="\n")
    print(f"{(time.monotonic() - began_s) / 60:.1f} minutes")
    return int(not all(good for _, good in results))


if __name__ == "__main__":
    raise SystemExit(main())
