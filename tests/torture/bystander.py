"""A workspace in which one kernel is ill-treated and another is not: what must hold of the daemon meanwhile, and after."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from benches.daemon_bench import COMPILER, KERNEL, MACROS, PLACEHOLDER, TEMPLATE, Bench
from helpers.workspaces import gemm_kernel
from torture.daemons import Daemon, daemons
from torture.rounds import Rounds

ANSWER_S = 120.0
"""How long anything may take; what takes as long as a compile takes a hundredth of it on an idle machine."""

MEMORY_LIMIT_KIB = 700_000
"""Of the daemon's own process, whatever is in the files."""

GOOD = "int tile = {{ Tile }};\nint {{ KERNEL_NAME }}();\n"


class Illtreated(Bench):
    """Kernel `k` is for ill-treatment: its template includes `macros.j2` and a header; kernel `g` shares no file with it.

    The scripted compiler reads no header, and reports those that the source names.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        reported = f'echo "{folder}/include/h.h" >> "$CC_PRINT_HEADERS_FILE"'
        named = COMPILER.format(folder=folder, placeholder=PLACEHOLDER).replace(
            reported, 'grep -a "^#include" kernel.hip | cut -d \'"\' -f 2 >> "$CC_PRINT_HEADERS_FILE" || :'
        )
        (folder / "hipcc").write_text(named)
        self.write("templates/g.hip.j2", GOOD)
        self.round = 0
        self.mend()

    def mend(self) -> None:
        """Put all that was ill-treated in order, with another text than before."""
        self.round += 1
        folder = self.root / "templates"
        if folder.is_symlink() or not folder.is_dir():
            remove(folder)  # first of all: what is behind a link is not ours
            folder.mkdir()
        for path in [*self.root.iterdir(), *folder.iterdir(), self.header]:
            if path.name not in ("templates", "g.kernel.toml", "g.hip.j2"):
                remove(path)
        if not (folder / "g.hip.j2").is_file():
            self.write("templates/g.hip.j2", GOOD)
        self.header.write_text(f"int h{self.round};\n")
        settings = f"[store]\nfolder = {json.dumps(str(self.store))}\n[compile]\njobs = 2\n"
        self.write("ckwatch.toml", settings + '[daemon]\nbuild = "edited"\n[render]\ntime_limit_s = 3\n')
        self.write("templates/macros.j2", f"{MACROS}int macros = {self.round};\n")
        self.write("templates/k.hip.j2", f'#include "{self.header}"\n{TEMPLATE}')
        self.write("k.kernel.toml", KERNEL)
        self.edit_good()

    def edit_good(self) -> None:
        """Give the daemon something to do for the other kernel."""
        self.round += 1
        self.write("g.kernel.toml", gemm_kernel("g.hip.j2", {"one": {"Tile": self.round}}))


def ill_treat(rounds: Rounds, play: Callable[[Rounds, Daemon, Illtreated, random.Random], None]) -> None:
    """Play rounds until their time is over: each begins and has to end with everything in order."""
    bench = Illtreated(rounds.folder / "bench")
    with daemons(bench) as daemon:
        for chance in rounds:
            with rounds.watched():
                bench.mend()
                if not daemon.is_running():
                    daemon.start()
                play(rounds, daemon, bench, chance)
                check_mended(daemon, bench)
                check_alive(daemon)
            if rounds.has_found and daemon.is_running():
                daemon.kill()


def remove(path: Path) -> None:
    """Whatever it is. Raises RuntimeError for what lies behind a link: that is somebody else's."""
    if path.parent.is_symlink():
        raise RuntimeError(f"{path} lies behind a link")
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def build(daemon: Daemon, *units: str) -> dict[str, dict[str, Any]]:
    """Build units and wait; the state of each. None where the daemon refuses the question."""
    found = {}
    asked = {"units": list(units)} if units else {}
    with daemon.http.stream("POST", "/builds", json=asked, timeout=ANSWER_S) as answer:
        if answer.status_code != 200:
            text = answer.read().decode()
            assert answer.status_code < 500, text
            assert json.loads(text)["error"], text
            return {}
        for text in answer.iter_lines():
            line = json.loads(text)
            if line.get("unit") is not None:
                found[line["unit"]["id"]] = line["unit"]
    return found


def errors(daemon: Daemon) -> list[dict[str, Any]]:
    """All errors that are reported anywhere; each has a place and a message that can be read."""
    answer = daemon.http.get("/snapshot", timeout=ANSWER_S)
    assert answer.status_code == 200, answer.text
    found = []
    for state in answer.json()["states"].values():
        if state["kind"] == "workspace" and state["problem"]:
            found.append({"message": state["problem"], "span": {"path": ""}, "severity": "error"})
        for one in state.get("diagnostics", ()):
            assert one["message"].strip(), one
            assert len(one["message"]) < 20_000, f"{len(one['message'])} characters: {one['message'][:300]}"
            assert one["span"]["path"], one
            bad = [char for char in one["message"] if not char.isprintable() and char not in "\n\t"]
            assert not bad, f"{bad} in {one['message']!r:.300}"
            if one["severity"] == "error" and not one["stale"]:
                found.append(one)
    return found


def check_others(daemon: Daemon, bench: Illtreated) -> None:
    """The other kernel is built as ever, questions are answered, and the daemon is not large."""
    bench.edit_good()
    until_s = time.monotonic() + ANSWER_S
    while True:
        built = build(daemon, "g")
        if [one["outcome"] for one in built.values() if one["fresh"]] == ["built"] and str(bench.round) in bench.runs:
            break
        assert time.monotonic() < until_s, f"{outcomes(built)}: {said(errors(daemon))}"
        time.sleep(0.05)
    check_alive(daemon)


def check_alive(daemon: Daemon) -> None:
    """The daemon runs, answers, is not large, and has logged no traceback."""
    assert daemon.is_running(), f"the daemon ended with status {daemon.ended()}"
    answer = daemon.http.get("/status", timeout=ANSWER_S)
    assert answer.status_code == 200, answer.text
    peak = peak_memory_kib(daemon.pid)
    assert peak < MEMORY_LIMIT_KIB, f"the daemon took {peak // 1024} MiB"
    daemon.check_log()


def check_mended(daemon: Daemon, bench: Illtreated) -> None:
    """With everything in order all is built, and no error is left."""
    bench.mend()
    until_s = time.monotonic() + ANSWER_S
    while True:
        with suppress(httpx.RemoteProtocolError):
            built = build(daemon)
            left = errors(daemon)
            if len(built) == 3 and {one["outcome"] for one in built.values()} == {"built"} and not left:
                return
        assert time.monotonic() < until_s, f"{outcomes(built)}: {said(left)}"
        time.sleep(0.05)


def outcomes(built: dict[str, dict[str, Any]]) -> dict[str, str]:
    """In short."""
    return {name: f"{one['outcome']}{'' if one['fresh'] else ', not fresh'}" for name, one in built.items()}


def said(found: list[dict[str, Any]]) -> list[str]:
    """In short."""
    return [f"{Path(one['span']['path']).name}: {one['message'][:200]}" for one in found]


def peak_memory_kib(process: int) -> int:
    """The largest resident set that the process had."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
