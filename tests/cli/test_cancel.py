"""`build`, Ctrl-C and `cancel`, with a daemon whose compilers end only when they are ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import Bench
from ckwatch.cli import main
from ckwatch.cli.session import work_left
from ckwatch.client import connect
from ckwatch.workspace.trust import trust
from fakes.patience import PATIENCE_S
from helpers.own_command import own_command
from helpers.workspaces import gemm_kernel

TESTS = Path(__file__).parents[1]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def bench(daemons: Path, tmp_path: Path) -> Iterator[Bench]:
    """A workspace with two units, one compiler at a time, and its daemon."""
    bench = Bench(tmp_path / "bench")
    bench.write("ckwatch.toml", (bench.root / "ckwatch.toml").read_text().replace("jobs = 2", "jobs = 1"))
    bench.will("slow")
    trust(bench.root)
    command = [sys.executable, str(TESTS / "benches/killable_daemon.py"), str(bench.folder)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
            process.stdout.readline()
            main(["check", "-C", str(bench.root)])
            yield bench
            anyio.run(stopped, bench)
        finally:
            process.kill()


async def stopped(bench: Bench) -> None:
    async with connect(bench.root, start=False) as client:
        await client.stop()


async def ended(bench: Bench) -> None:
    """Return when no compiler runs any more."""
    with anyio.fail_after(PATIENCE_S):
        while bench.alive:  # noqa: ASYNC110  # another process
            await anyio.sleep(0.01)


async def edited(bench: Bench) -> None:
    """Return when an edit is being compiled, which is not asked for."""
    bench.write("templates/macros.j2", "int edited;\n")
    await bench.started(1)


def interrupted(bench: Bench, *command: str) -> tuple[int, str]:
    """Exit status and messages of a command that is interrupted when it has printed a line, and a compiler works."""
    with own_command(*command, cwd=bench.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        anyio.run(bench.started, 1)
        process.send_signal(signal.SIGINT)
        return process.wait(PATIENCE_S), process.stderr.read()


UNBUILT = "ckwatch: {} not built; what was built is in the store: `ckwatch build` goes on from there\n"


def test_an_interrupted_command_drops_what_has_not_begun_and_says_so(bench: Bench) -> None:
    assert interrupted(bench, "build", "--json") == (
        130,
        UNBUILT.format("1 unit is")
        + "ckwatch: the daemon goes on with 1 unit compiling; `ckwatch cancel` ends that\nckwatch: interrupted\n",
    )


def test_what_goes_on_after_ctrl_c_is_said_and_can_be_cancelled(bench: Bench, capsys: Capture) -> None:
    anyio.run(edited, bench)
    status, errors = interrupted(bench, "watch", "--json")
    assert (status, errors) == (
        130, "ckwatch: the daemon goes on with 1 unit compiling, 1 unit waiting; `ckwatch cancel` ends that\n"
    )  # fmt: skip
    capsys.readouterr()
    assert main(["cancel", "-C", str(bench.root), "k/two"]) == 0
    assert capsys.readouterr().out == (
        "cancelled  k/two@gfx942\n1 unit cancelled; an edit or `ckwatch build` starts again\n"
    )
    assert main(["cancel", "-C", str(bench.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "running": True, "cancelled": ["k/one@gfx942"]}
    anyio.run(ended, bench)
    assert main(["cancel", "-C", str(bench.root)]) == 0
    assert capsys.readouterr().out == "nothing to cancel\n"
    assert main(["cancel", "-C", str(bench.root), "k/three"]) == 2


def test_a_build_that_is_cancelled_ends_with_status_2(bench: Bench, capsys: Capture) -> None:
    with own_command("build", "-C", str(bench.root), stdout=subprocess.PIPE) as process:
        anyio.run(bench.started, 1)
        assert main(["cancel", "-C", str(bench.root)]) == 0
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "2 units: 2 cancelled in " in out) == (2, True)


def test_what_is_built_is_written_while_others_are_compiled(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    bench.will("slow", now=False)
    assert main(["build", "-C", str(bench.root), "k/one"]) == 0
    bench.will("slow")
    out = tmp_path / "out"
    arguments = ["build", "-C", str(bench.root), "--out", str(out), "--json"]
    with own_command(*arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        file = next(line for line in map(json.loads, process.stdout) if line["event"] == "file")
        assert file["path"] == str(out / "k/one@gfx942.so")
        assert (out / "k/one@gfx942.so").exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


def test_names_that_are_too_long_for_files_are_cut(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    bench.will("slow", now=False)
    long = ["漢" * 119 + end for end in "ab"]
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {name: {"Tile": 1} for name in [*long, "short"]}))
    assert main(["build", "-C", str(bench.root), "--out", str(tmp_path / "out")]) == 0
    names = sorted(path.name for path in (tmp_path / "out/k").iterdir())
    assert names[:2] == ["short@gfx942.hsaco", "short@gfx942.so"]
    assert len(names) == 6
    assert all(len(name.encode()) <= 255 for name in names)


def test_without_a_daemon_there_is_nothing_to_cancel(daemons: Path, small: Path, capsys: Capture) -> None:
    assert main(["cancel", "-C", str(small)]) == 0
    assert capsys.readouterr().out == "the daemon is not running\n"


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ([], ""),
        ([("done", False), ("idle", False)], ""),
        ([("compiling", False)], "1 unit compiling"),
        ([("compiling", False)] * 2 + [("queued", False), ("waiting", False)], "2 units compiling, 2 units waiting"),
        ([("done", True)], "1 unit to be timed"),
    ],
)
def test_what_is_left(units: list[tuple[str, bool]], words: str) -> None:
    expected = f"ckwatch: the daemon goes on with {words}; `ckwatch cancel` ends that\n" if words else ""
    assert work_left(units, "ckwatch cancel") == expected
