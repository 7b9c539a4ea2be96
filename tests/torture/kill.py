"""kill −9 at random moments: the daemon, its compilers, its workers, in the middle of edits, builds and measurements.

Every source and every header carries a stamp, and so does what the host's compiler makes of them. Whatever the store gives
for a key must hold the stamp of its own source and of the header as it is now. What a client was told is there afterwards,
and no process is left when the next daemon is at work.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx

from ckwatch.bench.history.runs import History
from ckwatch.bench.leases import FOLDER_VARIABLE
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.wire.endpoint import endpoint_of
from engine.timed_workspace import KERNEL, TEMPLATE, Timed
from fakes.patience import PATIENCE_S
from helpers.own_timings import OwnTimings
from torture.daemons import Daemon, daemons, descendants
from torture.rounds import Rounds

LONGEST_LIVES_S = (1.0, 2.5, 2.5, 8.0)
LOOKED_AT_EVERY = 6
STAMPED = (
    '#include "{header}"\n'
    '__attribute__((used)) static const char stamped[] = "source {{% include "stamp.j2" %}} {{{{ Factor }}}} header " HEADER;\n'
)
COMPILER = """#!/bin/sh
for last; do :; done
case "$*" in
*-march=native*-###*) echo ' "-target-cpu" "any" ' >&2 ;;
*-shared*) exec cc -shared -o "$last" kernel.o ;;
*) echo x >> "{folder}/runs"; cc -O1 -fPIC -x c++ -c kernel.cpp -o "$last" || exit 1
   [ -z "$CC_PRINT_HEADERS_FILE" ] || echo "{folder}/include/h.h" >> "$CC_PRINT_HEADERS_FILE" ;;
esac
"""
BROKEN = 's9 " undeclared "'
STAMPS = ("s0", "s1", "s2", "s3", "s4", BROKEN)
STAMP = re.compile(rb"source (\w+) (\w+) header (\w+)")
IN_SOURCE = re.compile(rb'"source (\w+) (\w+) header " HEADER')


class Workspace:
    """Stamped files that change, and what clients were told of them."""

    def __init__(self, bench: Timed) -> None:
        self.bench = bench
        self.outcomes: dict[str, str] = {}
        self.timings: set[int] = set()
        self._lock = threading.Lock()
        (bench.folder / "hipcc").write_text(COMPILER.format(folder=bench.folder))
        bench.write("templates/k.cpp.j2", STAMPED.format(header=bench.header) + TEMPLATE)
        self.edit_all(1, 2, "s0", "h0")

    def edit_all(self, one: int, two: int, stamp: str, header: str) -> None:
        """Write all files."""
        self.write_kernel(one, two)
        self.bench.write("templates/stamp.j2", stamp)
        self.write_header(header)

    def write_kernel(self, one: int, two: int) -> None:
        """Two instances; `Factor` is right only where it is 1."""
        more = f'\n[[instance]]\nname = "two"\nFactor = {two}\n'
        self.bench.write("k.kernel.toml", KERNEL.replace("Factor = 1", f"Factor = {one}") + more)

    def write_header(self, header: str) -> None:
        """The header that all sources include."""
        temporary = self.bench.header.with_suffix(".new")
        temporary.write_text(f'#define HEADER "{header}"\n')
        temporary.rename(self.bench.header)

    def edit(self, chance: random.Random) -> None:
        """Change something. There are few texts, so that each comes again."""
        match chance.randrange(4):
            case 0:
                self.bench.write("templates/stamp.j2", chance.choice(STAMPS))
            case 1:
                self.write_header(f"h{chance.randrange(4)}")
            case 2:
                self.write_kernel(chance.randrange(1, 4), chance.randrange(1, 4))
            case _:
                self.edit_all(
                    chance.randrange(1, 4), chance.randrange(1, 4), chance.choice(STAMPS), f"h{chance.randrange(4)}"
                )

    def heard(self, line: dict[str, Any]) -> None:
        """A client read such a line."""
        unit, timing = line.get("unit"), line.get("timing")
        with self._lock:
            if isinstance(unit, dict) and unit["fresh"] and unit["key"] and unit["outcome"] in ("built", "failed"):
                self.outcomes[unit["key"]] = unit["outcome"]
            if timing is not None and timing["id"]:
                self.timings.add(timing["id"])

    def look(self) -> None:
        """Check that the files on disk are whole and true, and hold all that was reported."""
        roots = PathRoots(self.bench.toolchain.roots)
        present = re.findall(rb'"(\w+)"', self.bench.header.read_bytes())[0]
        with ArtifactStore(self.bench.store) as store:
            assert store.verify() == []
            for key in {
                entry.parent.name for entry in self.bench.store.glob("artifacts/??/*/*")
            } | self.outcomes.keys():
                artifact = store.lookup(key, roots)
                if artifact is None or not artifact.record.ok:
                    continue
                source = IN_SOURCE.search((artifact.folder / artifact.record.source).read_bytes())
                made = STAMP.search(store.load(artifact.folder / artifact.products["shared-object"]))
                assert source is not None
                assert made is not None
                assert made.groups() == (*source.groups(), present), f"{key}: {made[0]!r} of {source[0]!r}, {present!r}"
            for key, outcome in self.outcomes.items():
                entries = [store.entry(key, path.name) for path in self.bench.store.glob(f"artifacts/??/{key}/*")]
                assert any(entry is not None and entry.ok == (outcome == "built") for entry in entries), key
        if not self.bench.history.exists():
            return
        history = History(self.bench.history)
        history.open()
        with closing(history):
            assert all(record.cause for record in history.units().values())
            assert history.notice is None
        with closing(sqlite3.connect(self.bench.history)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        timings = OwnTimings(self.bench.history)
        timings.open()
        with closing(timings):
            lost = {number for number in self.timings if timings.one(number) is None}
        assert not lost, f"timings {lost} were reported and are gone"


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    folder = rounds.folder / "bench"
    leases = rounds.folder / "leases"
    leases.mkdir()
    os.environ[FOLDER_VARIABLE] = str(leases)
    bench = Timed(folder)
    workspace = Workspace(bench)
    with daemons(bench) as daemon:
        for chance in rounds:
            with rounds.watched():
                live_and_die(daemon, workspace, chance)
                workspace.look()
                if rounds.number % LOOKED_AT_EVERY == LOOKED_AT_EVERY - 1:
                    recover(daemon, workspace)
                daemon.check_log()
            if daemon.is_running():
                daemon.kill()


def live_and_die(daemon: Daemon, workspace: Workspace, chance: random.Random) -> None:
    """A daemon with two clients and an editor, and the end of some of its processes, at last its own."""
    daemon.fork()
    over = threading.Event()
    socket = str(endpoint_of(workspace.bench.root).socket)
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/builds", {}),
        ("/benchmarks", {"units": ["k/one"], "force": chance.random() < 0.5}),
    )
    clients = [threading.Thread(target=use, args=(socket, path, body, workspace, over)) for path, body in asked]
    for client in clients:
        client.start()
    deaths = chance.choice((0, 0, 1, 2, 4))
    longest_s = chance.choice(LONGEST_LIVES_S)
    moments = sorted((chance.random() * longest_s, kind) for kind in ["edit"] * 4 + ["kill"] * deaths)
    began_s = time.monotonic()
    for moment_s, kind in moments:
        time.sleep(max(0, began_s + moment_s - time.monotonic()))
        if kind == "edit":
            workspace.edit(chance)
        elif children := descendants(daemon.pid):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)
    assert daemon.is_running(), f"the daemon ended with status {daemon.ended()}"
    daemon.kill()
    over.set()
    for client in clients:
        client.join()


def use(socket: str, path: str, body: dict[str, Any], workspace: Workspace, over: threading.Event) -> None:
    """Be a client: ask for the same again and again, note what is reported, until there is no daemon any more."""
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=socket), base_url="http://localhost/v1", timeout=PATIENCE_S
    ) as http:
        while not over.wait(0.02):
            with suppress(httpx.TransportError), http.stream("POST", path, json=body) as answer:
                if answer.status_code == 200:
                    for line in answer.iter_lines():
                        workspace.heard(json.loads(line))


def recover(daemon: Daemon, workspace: Workspace) -> None:
    """The next daemon builds what is there now, the one after it finds that, and nothing of the last ones is left."""
    daemon.start()
    built = build(daemon, workspace)
    broken = (workspace.bench.root / "templates/stamp.j2").read_text() == BROKEN
    assert {unit["outcome"] for unit in built.values()} == {"failed" if broken else "built"}, built
    if not broken:
        with daemon.http.stream("POST", "/benchmarks", json={"shapes": ["small"], "force": True}) as answer:
            for text in answer.iter_lines():
                workspace.heard(json.loads(text))
        check_stamps(daemon, workspace, built)
    workspace.look()
    daemon.kill()
    runs = len(workspace.bench.runs)
    daemon.start()
    again = build(daemon, workspace)
    assert {name: (unit["key"], unit["outcome"]) for name, unit in again.items()} == {
        name: (unit["key"], unit["outcome"]) for name, unit in built.items()
    }
    assert len(workspace.bench.runs) == runs, "it compiled again"
    until_s = time.monotonic() + PATIENCE_S / 4
    while left := strangers(workspace.bench.folder):
        assert time.monotonic() < until_s, f"left behind: {left}"
        time.sleep(0.1)
    daemon.kill()


def build(daemon: Daemon, workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Build both units; what became of them."""
    with daemon.http.stream("POST", "/builds", json={}) as answer:
        lines = [json.loads(line) for line in answer.iter_lines()]
    for line in lines:
        workspace.heard(line)
    built = {line["unit"]["id"]: line["unit"] for line in lines if line.get("unit") is not None}
    assert len(built) == 2, lines
    assert all(unit["fresh"] for unit in built.values()), built
    return built


def check_stamps(daemon: Daemon, workspace: Workspace, built: Iterable[str]) -> None:
    """The artifacts that the daemon gives are made of the files as they are now."""
    root = workspace.bench.root
    stamp = (root / "templates/stamp.j2").read_text()
    factors = re.findall(r"Factor = (\d)", (root / "k.kernel.toml").read_text())
    for unit, factor in zip(sorted(built), factors, strict=True):
        found = daemon.http.get(f"/units/{unit}/artifact").json()
        made = STAMP.search(Path(found["products"]["shared-object"]).read_bytes())
        assert made is not None
        assert (made[1].decode(), made[2].decode()) == (stamp, factor), made[0]


def strangers(folder: Path) -> list[str]:
    """Processes that are at work in `folder` and do not belong to the present daemon."""
    own = {*descendants(os.getpid()), os.getpid()}
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = str((entry / "cwd").readlink())
            if int(entry.name) not in own and (str(folder) in command or place.startswith(str(folder))):
                found.append(f"{entry.name} {command}")
    return found
