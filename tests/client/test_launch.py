"""Starting a daemon: one of them, with its own words when it cannot."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_UNIX, socket

import anyio
import pytest

from ckwatch.client import DaemonGoneError, connect, launch
from ckwatch.client.launch import ensure_daemon, find_daemon
from ckwatch.model.errors import CkwatchError, DaemonSilentError, UntrustedError
from ckwatch.wire import readiness
from ckwatch.wire.endpoint import LockHolder, endpoint_of, holder
from ckwatch.wire.readiness import Readiness
from ckwatch.workspace.trust import is_trusted, trust

pytestmark = pytest.mark.usefixtures("nothing_blocks")

PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "benches/started_daemon.py"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws ü"
    folder.mkdir()
    (folder / "ckwatch.toml").touch()
    trust(folder)
    return folder


@asynccontextmanager
async def ended(root: Path) -> AsyncIterator[None]:
    """Ends the daemon that was started."""
    try:
        yield
    finally:
        with socket(AF_UNIX) as connection:
            connection.connect(str(endpoint_of(root).socket))
            connection.send(b"x")
            await anyio.wait_readable(connection)


async def test_a_daemon_is_started_once(root: Path) -> None:
    assert await find_daemon(root) is None
    async with ended(root):
        endpoint = await ensure_daemon(root, program=(*PROGRAM, "serve"))
        assert await ensure_daemon(root, program=("/does/not/exist",)) == endpoint
        assert await find_daemon(root) == endpoint
        (process,) = map(int, (root / "started").read_text().split())
        assert os.getsid(process) != os.getsid(0)
        assert not _is_child(process)


def _is_child(process: int) -> bool:
    parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
    return int(parent) == os.getpid()


async def test_many_at_once_start_one(root: Path) -> None:
    """Nor do the others start processes that find it there."""
    counted = ("sh", "-c", 'echo x >> "$0/processes"; exec "$@"', str(root), *PROGRAM, "serve")
    async with ended(root):
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(lambda: ensure_daemon(root, program=counted))
        assert len((root / "started").read_text().split()) == 1
        assert (root / "processes").read_text().split() == ["x"]


@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        ("fail", CkwatchError, "the reason\nthe advice"),
        ("die", DaemonGoneError, "died while it started\na word before the end"),
        ("garbage", DaemonGoneError, "died while it started"),
    ],
)
async def test_a_daemon_that_does_not_start(root: Path, what: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        await ensure_daemon(root, program=(*PROGRAM, what))


async def test_no_program(root: Path) -> None:
    with pytest.raises(CkwatchError, match="the daemon cannot be started"):
        await ensure_daemon(root, program=("/does/not/exist",))


LOADING = "loading 5,000 kernel files"


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (
            [(4.9, None), (5.1, None), (9.0, None), (10.3, None)],
            [(5.1, "its process starts"), (10.3, "its process starts")],
        ),
        ([(6.0, None), (6.5, LOADING), (7.0, LOADING)], [(6.0, "its process starts"), (6.5, LOADING)]),
        ([(12.0, LOADING), (23.9, LOADING), (24.1, LOADING)], [(12.0, LOADING), (24.1, LOADING)]),
        ([(7.0, "")], [(7.0, "it ends")]),
    ],
)
def test_a_wait_is_said_after_seconds_and_then_more_seldom(
    looks: list[tuple[float, str | None]], said: list[tuple[float, str]]
) -> None:
    wait = launch.StartWait()
    found = [
        (passed_s, line)
        for passed_s, doing in looks
        if (line := wait.line(passed_s, None if doing is None else LockHolder(7, doing, stopped=False)))
    ]
    assert [passed_s for passed_s, _ in found] == [passed_s for passed_s, _ in said]
    for (passed_s, line), (_, doing) in zip(found, said, strict=True):
        assert line.startswith(f"Waiting for the daemon ({passed_s:.0f} s): {doing}")
        assert ("process 7, `ckwatch stop` ends it" in line) is (doing != "its process starts")


class Said(logging.Handler):
    """`first` is set by the first line that speaks of what the daemon does."""

    def __init__(self) -> None:
        super().__init__()
        self.first = anyio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if LOADING in record.getMessage():
            self.first.set()


@pytest.fixture
def said(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    """Return the reports on a daemon that loads until `go` is opened."""
    monkeypatch.setattr(launch, "SAID_S", 0.0)
    monkeypatch.setattr(launch, "LOOK_S", 0.01)
    os.mkfifo(root / "go")
    handler = Said()
    logger = logging.getLogger("ckwatch.client.launch")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def test_a_daemon_that_takes_long_is_waited_for_by_all(root: Path, said: Said) -> None:
    """Also by clients that find its socket there, and by those that come when the first was interrupted."""
    async with ended(root):
        with anyio.CancelScope() as first:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: ensure_daemon(root, program=(*PROGRAM, "linger")))
                await said.first.wait()
                first.cancel()
        assert await find_daemon(root) is None
        with pytest.raises(DaemonGoneError, match=f"still starts: {LOADING}"):
            async with connect(root, start=False):
                pytest.fail("it does not answer")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(lambda: ensure_daemon(root, program=(*PROGRAM, "die")))
            async with await anyio.open_file(root / "go", "wb"):
                pass
        assert await find_daemon(root) is not None
        assert len((root / "started").read_text().split()) == 1


async def test_a_daemon_that_is_stopped_while_it_starts_is_named(root: Path, said: Said) -> None:
    stopped: list[int] = []

    async def stop() -> None:
        await said.first.wait()
        found = holder(endpoint_of(root))
        assert found is not None
        stopped.append(found.process)
        os.kill(found.process, signal.SIGSTOP)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        with pytest.raises(DaemonSilentError, match=r"process \d+, is stopped \(SIGSTOP\)") as raised:
            await ensure_daemon(root, program=(*PROGRAM, "linger"))
    assert raised.value.hint == f"`kill -CONT {stopped[0]}` lets it go on; `ckwatch stop` ends it"
    with pytest.raises(DaemonSilentError, match="is stopped"):
        await find_daemon(root)
    os.kill(stopped[0], signal.SIGKILL)


async def test_an_untrusted_workspace(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").touch()
    with pytest.raises(UntrustedError):
        await ensure_daemon(tmp_path, program=("/does/not/exist",))
    with pytest.raises(UntrustedError):
        async with connect(tmp_path):
            pytest.fail("it was let in")
    assert not is_trusted(tmp_path)


async def test_a_folder_that_others_can_enter(root: Path, runtime: Path) -> None:
    endpoint_of(root).socket.parent.mkdir(mode=0o755)
    endpoint_of(root).socket.parent.chmod(0o755)
    for attempt in (find_daemon, ensure_daemon):
        with pytest.raises(CkwatchError, match="lets others in"):
            await attempt(root)


async def test_connect_without_a_daemon(root: Path) -> None:
    with pytest.raises(DaemonGoneError, match="there is no daemon for") as raised:
        async with connect(root, start=False):
            pytest.fail("there is none")
    assert raised.value.hint == "`ckwatch start` starts one"


async def test_connect_without_a_workspace(tmp_path: Path) -> None:
    with pytest.raises(CkwatchError, match=r"no ckwatch\.toml in"):
        async with connect(tmp_path):
            pytest.fail("there is none")


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (readiness.READY, readiness.READY),
        (readiness.TAKEN, readiness.TAKEN),
        (readiness.failed(CkwatchError("ü " * 10_000, "h")), Readiness("failed", "ü " * 5_000, "h")),
    ],
)
def test_readiness_crosses_a_pipe(sent: Readiness, received: Readiness) -> None:
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb") as pipe:
        readiness.report(write_fd, sent)
        assert readiness.parse(pipe.read()) == received


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"state": "ready"}', b"\xff"])
def test_what_is_not_understood_is_a_death(data: bytes) -> None:
    assert readiness.parse(data) == readiness.DIED


def test_nobody_listens() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    readiness.report(write_fd, readiness.READY)
