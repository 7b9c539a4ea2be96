"""A daemon's life, from the lock to the last file."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from benches.served import over
from ckwatch.model.errors import CkwatchError, UntrustedError
from ckwatch.server import ENDED, TAKEN
from ckwatch.server.daemon import IN_PLACE_S, run_daemon
from ckwatch.server.engine_api import Engine
from ckwatch.wire.endpoint import acquire, bind, endpoint_of, is_in_place, owner, prepare_folder, release
from ckwatch.workspace.trust import FILE_VARIABLE, trust
from fakes.fake_engine import FakeEngine
from fakes.patience import PATIENCE_S


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that is trusted."""
    folder = tmp_path / "kernels ü"
    folder.mkdir()
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "trusted"))
    trust(folder)
    return folder


@dataclass
class Opened:
    """Opens a fake engine, and records when it is open and whether it was closed in peace."""

    engine: FakeEngine = field(default_factory=FakeEngine)
    slow: bool = False
    story: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def __call__(self, _root: Path, **_options: Any) -> AsyncIterator[Engine]:
        self.story.append("opening")
        try:
            if self.slow:
                await anyio.sleep_forever()
            self.story.append("open")
            yield self.engine
        finally:
            self.story.append("closing")
            await anyio.lowlevel.checkpoint()  # raises if what happens here is cancelled
            self.story.append("closed")


class Running:
    """A daemon in a task of this process."""

    def __init__(self, root: Path) -> None:
        self.endpoint = endpoint_of(root)
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.status: int | None = None

    async def run(self, root: Path, opened: Opened, idle_exit_s: float | None, in_place_s: float) -> None:
        self.status = await run_daemon(
            root, open_engine=opened, idle_exit_s=idle_exit_s, in_place_s=in_place_s, on_ready=self.ready.set
        )
        self.ended.set()

    def gone(self) -> bool:
        """Return True if nothing of it is left."""
        return not self.endpoint.socket.exists() and not self.endpoint.lock.exists() and owner(self.endpoint) is None


@asynccontextmanager
async def running(
    root: Path, opened: Opened, idle_exit_s: float | None = 0, in_place_s: float = IN_PLACE_S
) -> AsyncIterator[Running]:
    """A daemon that is to end by itself before the context is left."""
    it = Running(root)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.run, root, opened, idle_exit_s, in_place_s)
            yield it
            await it.ended.wait()
    assert it.status == ENDED
    assert it.gone()


LIFE = ["opening", "open", "closing", "closed"]


async def test_stop_ends_it_and_its_streams(root: Path) -> None:
    opened = Opened()
    async with running(root, opened) as it:
        await it.ready.wait()
        assert owner(it.endpoint) == os.getpid()
        assert stat.S_IMODE(it.endpoint.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(it.endpoint.socket.parent.stat().st_mode) == 0o700
        async with over(it.endpoint.socket) as http, http.stream("GET", "/events?client=x") as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            assert (await http.post("/stop")).status_code == 204
            with pytest.raises(StopAsyncIteration):  # the stream ends in order: its last line is whole
                await anext(lines)
    assert opened.story == LIFE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it(number: signal.Signals, root: Path) -> None:
    opened = Opened()
    before = signal.getsignal(number)
    async with running(root, opened) as it:
        await it.ready.wait()
        os.kill(os.getpid(), number)
    assert opened.story == LIFE
    # asyncio gives Ctrl-C back to Python, whoever had it before.
    assert signal.getsignal(number) == (signal.default_int_handler if number == signal.SIGINT else before)


async def test_a_signal_ends_it_while_it_opens(root: Path) -> None:
    opened = Opened(slow=True)
    async with running(root, opened):
        while "opening" not in opened.story:
            await anyio.lowlevel.checkpoint()
        os.kill(os.getpid(), signal.SIGTERM)
    assert opened.story == ["opening", "closing"]  # the opening was cancelled, hence so was what it does at its end


async def test_an_ignored_signal_stays_ignored(root: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with running(root, Opened()) as it:
            await it.ready.wait()
            os.kill(os.getpid(), signal.SIGHUP)
            async with over(it.endpoint.socket) as http:
                assert (await http.get("/status")).status_code == 200
                await http.post("/stop")
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_it_ends_when_nobody_uses_it(root: Path) -> None:
    opened = Opened()
    async with running(root, opened, idle_exit_s=0.1):
        pass
    assert opened.story == LIFE


async def test_it_does_not_end_while_it_works_or_somebody_follows(root: Path) -> None:
    opened = Opened()
    opened.engine.busy = True
    async with running(root, opened, idle_exit_s=0.1) as it:
        await it.ready.wait()
        await asked(opened.engine, 8)  # the engine was asked for longer than the daemon would wait
        async with over(it.endpoint.socket) as http, http.stream("GET", "/events"):
            await opened.engine.until_waiting(1)
            opened.engine.busy = False
            await asked(opened.engine, 30)
            assert not it.ended.is_set()


async def asked(engine: FakeEngine, times: int) -> None:
    """Wait until the engine's status was asked for so many times more."""
    until = len(engine.of("status")) + times
    while len(engine.of("status")) < until:
        await engine.changed.wait()


async def test_the_engine_may_set_how_long_to_wait(root: Path) -> None:
    opened = Opened()
    opened.engine.idle_exit_s = 0.1
    async with running(root, opened, idle_exit_s=None):
        pass


async def test_a_daemon_that_cannot_be_found_ends(root: Path) -> None:
    async with running(root, Opened(), in_place_s=0.01) as it:
        await it.ready.wait()
        it.endpoint.socket.unlink()
    async with running(root, Opened(), in_place_s=0.01) as it:
        await it.ready.wait()
        it.endpoint.lock.unlink()
        other = acquire(it.endpoint)  # another takes the place
        assert other is not None
        with bind(it.endpoint):
            await it.ended.wait()
            assert owner(it.endpoint) == os.getpid()
            assert is_in_place(it.endpoint, other)
        release(it.endpoint, other)


async def test_a_daemon_whose_code_was_changed_ends(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(root, Opened(), in_place_s=0.01) as it:
        await it.ready.wait()
        monkeypatch.setattr("ckwatch.wire.endpoint.code_identity", lambda _package: b"edited")
        await it.ended.wait()


async def test_it_needs_trust(tmp_path: Path, root: Path) -> None:
    (tmp_path / "other").mkdir()
    opened = Opened()
    with pytest.raises(UntrustedError):
        await run_daemon(tmp_path / "other", open_engine=opened)
    assert opened.story == []
    assert not endpoint_of(tmp_path / "other").socket.parent.exists()


async def test_it_needs_a_folder_of_its_own(root: Path, runtime: Path) -> None:
    (runtime / "elsewhere").mkdir()
    (runtime / "ckwatch").symlink_to("elsewhere")
    with pytest.raises(CkwatchError, match="symlink"):
        await run_daemon(root, open_engine=Opened())
    assert list((runtime / "elsewhere").iterdir()) == []


async def test_what_is_no_socket_is_not_replaced(root: Path) -> None:
    endpoint = endpoint_of(root)
    prepare_folder(endpoint.socket.parent)
    endpoint.socket.write_text("precious")
    with pytest.raises(CkwatchError, match="not a socket of ckwatch"):
        await run_daemon(root, open_engine=Opened())
    assert endpoint.socket.read_text() == "precious"
    assert owner(endpoint) is None


async def test_an_engine_that_does_not_open_leaves_nothing(root: Path) -> None:
    @asynccontextmanager
    async def fails(root: Path, *, log_file: Path) -> AsyncIterator[Engine]:
        if not (root / "ckwatch.toml").exists():
            raise CkwatchError("no workspace")
        yield FakeEngine()

    with pytest.raises(CkwatchError, match="no workspace"):
        await run_daemon(root, open_engine=fails)
    assert Running(root).gone()


PROGRAM = """
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
import anyio
from ckwatch.server.daemon import IN_PLACE_S, run_daemon
from fakes.fake_engine import FakeEngine

@asynccontextmanager
async def open_engine(root, *, log_file):
    yield FakeEngine()

sys.stdin.readline()
run = partial(run_daemon, Path(sys.argv[1]), open_engine=open_engine, on_ready=partial(print, "ready", flush=True))
sys.exit(anyio.run(run))
"""


def start(root: Path) -> subprocess.Popen[bytes]:
    """A daemon in a process of its own, which begins when it is sent a line."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    arguments = [sys.executable, "-c", PROGRAM, str(root)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def said(process: subprocess.Popen[bytes], *, begin: bool = True) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    if begin:
        process.stdin.write(b"\n")
        process.stdin.flush()
    return process.stdout.readline()


def test_of_many_that_start_at_once_one_lives(root: Path) -> None:
    many = [start(root) for _ in range(3)]
    for process in many:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    words = [said(process, begin=False) for process in many]
    assert sorted(words) == [b"", b"", b"ready\n"]
    living = many[words.index(b"ready\n")]
    assert owner(endpoint_of(root)) == living.pid
    assert [process.wait() for process in many if process is not living] == [TAKEN] * 2
    living.terminate()
    assert living.wait() == ENDED
    assert Running(root).gone()
    for process in many:
        process.communicate()


def test_the_next_replaces_what_a_killed_one_left(root: Path) -> None:
    for _ in range(2):
        with start(root) as process:
            assert said(process) == b"ready\n"
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(endpoint_of(root).socket))) as client:
                assert client.get("http://localhost/v1/status").status_code == 200
            process.kill()
        assert endpoint_of(root).socket.exists()
        assert owner(endpoint_of(root)) is None
    with start(root) as process:
        assert said(process) == b"ready\n"
        process.terminate()
    assert process.returncode == ENDED
    assert Running(root).gone()
