"""Commands and the daemons that they start, where their own files are none, little may be opened or written, and output fails.

FIFOs, folders, links and devices in the place of the list of trusted workspaces, of the daemon's folder, socket, locks and log,
of the history and the caches; low limits of open files, of file sizes and of memory; a full disk or a closed pipe behind stdout;
Ctrl-C at any moment. Each command ends, says in words what is wrong, and never with a traceback; no process is left, and with
everything in order all goes on.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ckwatch.wire.endpoint import Endpoint, endpoint_of, owner
from ckwatch.workspace.trust import trust
from helpers.workspaces import gemm_kernel
from torture.bystander import remove
from torture.files import ODD
from torture.kill import strangers
from torture.rounds import Rounds

COMMAND_S = 120.0
"""How long a command may take. Most take less than a second on an idle machine; `stop` may ask thrice."""

TEMPLATE = 'extern "C" PT_EXPORT int {{ KERNEL_NAME }}() { return {{ Tile }}; }\n'
COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("status",), ("list",), ("check", "k"), ("explain", "k/one"), ("history", "k/one"), ("stop",), ("start",), ("restart",)),
    *(("cancel",), ("store", "size"), ("templates", "list"), ("render", "k/one"), ("trust",), ("doctor",), ("logs", "k/one")),
    *(("check", "--json"), ("status", "--json"), ("best",), ("rank",), ("devices",), ("store", "gc"), ("check", "--no-daemon")),
)  # fmt: skip
LIMITS: dict[str, tuple[int, tuple[int, ...]]] = {
    "files": (resource.RLIMIT_NOFILE, (12, 20, 30, 40, 64, 128)),
    "file size": (resource.RLIMIT_FSIZE, (0, 1, 4096, 100_000)),
    "core": (resource.RLIMIT_CORE, (0,)),
}
PROGRAM = [sys.executable, "-m", "ckwatch"]


@dataclass(frozen=True)
class Place:
    """Path at which ckwatch keeps something, and its kind."""

    name: str
    path: Path


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    root = rounds.folder / "ws"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text("[compile]\njobs = 1\n")
    (root / "templates/k.cpp.j2").write_text(TEMPLATE)
    (root / "k.kernel.toml").write_text(
        gemm_kernel("k.cpp.j2", {"one": {"Tile": 1}}, dtype="f32", layouts=("row", "row", "row"))
    )
    trust(root)
    trusted = Path(os.environ["CKWATCH_TRUST_FILE"])
    content = trusted.read_bytes()
    endpoint = endpoint_of(root)
    try:
        for chance in rounds:
            with rounds.watched():
                made: list[Path] = []
                try:
                    play(rounds, root, endpoint, chance, made)
                finally:
                    for path in made:
                        remove(path)
                    trusted.write_bytes(content)
                    trusted.chmod(0o600)
                check_in_order(root, endpoint)
    finally:
        end_daemon(endpoint)
        for line in strangers(rounds.folder):  # a daemon whose lock was replaced notices that within a minute
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


def play(rounds: Rounds, root: Path, endpoint: Endpoint, chance: random.Random, made: list[Path]) -> None:
    """One round; what it makes goes to `made`."""
    commands = chance.sample(COMMANDS, chance.randrange(1, 4))
    if chance.random() < 0.5:
        end_daemon(endpoint)
    way = chance.choice(("files", "files", "files", "limits", "limits", "output", "interrupt"))
    match way:
        case "files":
            place = chance.choice(places(root, endpoint))
            kind = chance.choice(sorted(ODD))
            rounds.using(f"{place.name}: {kind}, then {commands}")
            with suppress(OSError):
                place.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            remove(place.path)
            made.append(place.path)
            ODD[kind](place.path)
            for command in commands:
                check(ran(root, command), command)
        case "limits":
            name = chance.choice(sorted(LIMITS))
            limited, amounts = LIMITS[name]
            amount = chance.choice(amounts)
            rounds.using(f"{name} {amount}: {commands}")
            for command in commands:
                check(ran(root, command, limit=(limited, amount)), command, words=amount > 30 or name != "files")
            end_daemon(endpoint)
        case "output":
            which = chance.choice(("/dev/full", "closed", "pipe"))
            rounds.using(f"stdout {which}: {commands}")
            for command in commands:
                check(ran(root, command, stdout=which), command, words=False)
        case _:
            after_s = chance.random() * chance.choice((0.2, 1.0, 3.0))
            number = chance.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            rounds.using(f"{number.name} after {after_s:.3f} s: {commands}")
            for command in commands:
                check(ran(root, command, interrupt=(after_s, number)), command, words=False)


def places(root: Path, endpoint: Endpoint) -> Sequence[Place]:
    """Files that are ckwatch's own."""
    state = endpoint.log.parent
    trusted = Path(os.environ["CKWATCH_TRUST_FILE"])
    cache = Path(os.environ["XDG_CACHE_HOME"])
    return (
        Place("trust", trusted),
        Place("the lock of trust", trusted.with_name(f".{trusted.name}.lock")),
        Place("runtime folder", endpoint.socket.parent),
        Place("socket", endpoint.socket),
        Place("lock", endpoint.lock),
        Place("starting", endpoint.lock.with_suffix(".starting")),
        Place("log", endpoint.log),
        Place("history", state / "history.sqlite"),
        Place("the history's log", state / "history.sqlite-wal"),
        Place("state of the workspace", state),
        Place("state", Path(os.environ["XDG_STATE_HOME"], "ckwatch")),
        Place("cache", cache / "ckwatch"),
        Place("cache of all", cache),
    )


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str


def ran(
    root: Path,
    command: Sequence[str],
    *,
    limit: tuple[int, int] | None = None,
    stdout: str = "",
    interrupt: tuple[float, signal.Signals] | None = None,
) -> Ran:
    """Run a command. Raises AssertionError when it does not end."""
    where = [] if command[0] == "doctor" else ["-C", str(root)]
    begun: Callable[[], None] | None = None
    if limit is not None:
        kind, amount = limit
        begun = lambda: resource.setrlimit(kind, (amount, resource.getrlimit(kind)[1]))  # noqa: E731
    target: int = subprocess.PIPE
    closing = []
    if stdout == "/dev/full":
        target = os.open("/dev/full", os.O_WRONLY)
        closing.append(target)
    elif stdout == "pipe":
        reading, target = os.pipe()
        os.close(reading)
        closing.append(target)
    elif stdout == "closed":
        begun = lambda: os.close(1)  # noqa: E731
    try:
        with subprocess.Popen(
            [*PROGRAM, *command, *where], stdin=subprocess.DEVNULL, stdout=target, stderr=subprocess.PIPE,
            preexec_fn=begun, cwd=root.parent, text=True, errors="replace", env=os.environ | {"COLUMNS": "100"},
        ) as process:  # fmt: skip
            if interrupt is not None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(interrupt[0])
                process.send_signal(interrupt[1])
            try:
                out, err = process.communicate(timeout=COMMAND_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise AssertionError(f"`ckwatch {' '.join(command)}` does not end: {out}{err}") from None
    finally:
        for descriptor in closing:
            os.close(descriptor)
    return Ran(process.returncode, out or "", err)


def check(ended: Ran, command: Sequence[str], *, words: bool = True) -> None:
    """It says in words what is wrong."""
    for text in (ended.stdout, ended.stderr):
        # Ctrl-C may meet the interpreter before it has come to ckwatch
        ours = words or "/ckwatch/" in text.replace("/ckwatch/__init__.py", "")
        assert not ours or "Traceback" not in text, f"`ckwatch {' '.join(command)}`: {text[-4000:]}"
        assert "Exception ignored" not in text, f"`ckwatch {' '.join(command)}`: {text[-4000:]}"
    allowed: tuple[int, ...] = (0, 1, 2, 3, 130, 128 + signal.SIGTERM, 128 + signal.SIGHUP, 141, -signal.SIGPIPE)
    allowed += (-signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT) if not words else ()
    assert ended.status in allowed, f"`ckwatch {' '.join(command)}` ended with {ended.status}: {ended.stderr[-2000:]}"
    if words and ended.status not in (0, 3):
        assert (ended.stdout + ended.stderr).strip(), f"`ckwatch {' '.join(command)}` says nothing"


def check_in_order(root: Path, endpoint: Endpoint) -> None:
    """With everything in order a daemon can be started and stopped, and its log has no traceback."""
    if endpoint.log.is_file():
        text = endpoint.log.read_bytes()[-100_000:].decode(errors="replace")
        endpoint.log.write_bytes(b"")
        assert "Traceback" not in text, text[-5000:]
    ended = ran(root, ("start",))
    assert ended.status == 0, ended
    ended = ran(root, ("check", "k"))
    assert ended.status == 0, ended
    ended = ran(root, ("stop",))
    assert ended.status == 0, ended
    assert "SIGKILL" not in ended.stdout + ended.stderr, ended
    assert owner(endpoint) is None


def end_daemon(endpoint: Endpoint) -> None:
    """Kill it, if there is one."""
    with suppress(Exception):
        process = owner(endpoint)
        if process is not None:
            os.kill(process, signal.SIGKILL)
            until_s = time.monotonic() + 20
            while Path(f"/proc/{process}").exists() and time.monotonic() < until_s:
                time.sleep(0.01)
