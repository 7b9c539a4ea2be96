"""The daemon as a client starts it: in the background, with a pipe over which it reports how it went."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from ckwatch.server import TAKEN as TAKEN_STATUS
from ckwatch.wire.endpoint import endpoint_of, owner
from ckwatch.wire.readiness import READY, TAKEN, Readiness, parse
from ckwatch.workspace.trust import FILE_VARIABLE, trust


@pytest.fixture
def root(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace without kernels; no daemon outlives the test."""
    (tmp_path / "kernels ü").mkdir()
    (tmp_path / "kernels ü" / "ckwatch.toml").write_text("")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "trusted"))
    yield tmp_path / "kernels ü"
    for lock in runtime.glob("ckwatch/*.lock"):
        with suppress(ProcessLookupError):
            os.kill(int(lock.read_text()), signal.SIGKILL)


def started(root: Path) -> Readiness:
    """Return the report of a daemon that starts in the background; the process that was started ends at once."""
    listening, ready_fd = os.pipe()
    with open(listening, "rb") as heard:  # noqa: PTH123 - a descriptor
        arguments = [sys.executable, "-m", "ckwatch.server", str(root), "--ready-fd", str(ready_fd)]
        subprocess.run(arguments, pass_fds=[ready_fd], check=True, start_new_session=True, stdin=subprocess.DEVNULL)
        os.close(ready_fd)
        return parse(heard.read())


def test_in_the_background(root: Path) -> None:
    endpoint = endpoint_of(root)
    refused = started(root)
    assert (refused.state, refused.hint) == ("failed", f"`ckwatch trust '{root}'` trusts it.")
    assert "is not trusted" in endpoint.log.read_text()
    trust(root)
    assert started(root) == READY
    process = owner(endpoint)
    assert process is not None
    try:
        assert os.getsid(process) != process  # it cannot get a terminal
        assert started(root) == TAKEN
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(endpoint.socket))) as client:
            status = client.get("http://localhost/v1/status").json()
        assert (status["pid"], status["log_file"]) == (process, str(endpoint.log))
        foreground = subprocess.run([sys.executable, "-m", "ckwatch.server", str(root)], check=False)
        assert foreground.returncode == TAKEN_STATUS
        ended = os.pidfd_open(process)
    finally:
        os.kill(process, signal.SIGTERM)
    assert signal.SIGTERM.name in ended_log(endpoint.log, ended)
    assert owner(endpoint) is None
    assert not endpoint.socket.exists()


def ended_log(log: Path, process: int) -> str:
    """The log when the process, by its descriptor, has ended."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(10_000)
    os.close(process)
    return log.read_text()


def test_mistakes_are_reported_without_a_traceback(root: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ckwatch.server", str(root)], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "is not trusted" in ran.stderr
    assert "Traceback" not in ran.stderr
