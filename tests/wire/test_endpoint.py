"""Address of a daemon, and who may be it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.wire.endpoint import (
    LONGEST_SOCKET_PATH_BYTES,
    Endpoint,
    acquire,
    bind,
    endpoint_of,
    owner,
    prepare_folder,
    release,
)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A private folder with a short name, as a socket needs one."""
    with tempfile.TemporaryDirectory(prefix="ckw") as folder:
        yield Path(folder)


@pytest.fixture
def environment(runtime: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(runtime / "state"), "HOME": "/home/nobody"}


@pytest.fixture
def endpoint(runtime: Path, environment: dict[str, str]) -> Endpoint:
    found = endpoint_of(runtime, environment)
    prepare_folder(found.socket.parent)
    return found


def test_names_depend_on_the_folder_not_on_the_way_to_it(tmp_path: Path, environment: dict[str, str]) -> None:
    for name in ("a b", "ü"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("a b")
    first = endpoint_of(tmp_path / "a b", environment)
    assert endpoint_of(tmp_path / "link", environment) == first
    assert endpoint_of(tmp_path / "ü" / ".." / "a b", environment) == first
    other = endpoint_of(tmp_path / "ü", environment)
    assert not {first.socket, first.lock, first.log} & {other.socket, other.lock, other.log}


def test_names_depend_on_version_and_code_but_the_log_goes_on(tmp_path: Path, environment: dict[str, str]) -> None:
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    (package / "room" / "door.py").write_text("a = 1")
    seen = [endpoint_of(tmp_path, environment, package)]
    os.utime(package / "room" / "door.py", ns=(2**61, 2**61))
    seen.append(endpoint_of(tmp_path, environment, package))
    (package / "window.py").write_text("")
    os.utime(package / "window.py", ns=(1, 1))  # an older file, as a checkout may bring
    seen.append(endpoint_of(tmp_path, environment, package))
    version = "0.0.0.test"
    seen.append(endpoint_of(tmp_path, environment, package, version))
    assert len({found.socket for found in seen}) == len({found.lock for found in seen}) == 4
    assert len({found.log for found in seen}) == 1
    (package / "room" / "__pycache__").mkdir()
    (package / "room" / "__pycache__" / "door.py").write_text("what Python writes does not count")
    assert endpoint_of(tmp_path, environment, package, version) == seen[-1]


def test_the_log_is_in_the_users_state_folder(tmp_path: Path, environment: dict[str, str]) -> None:
    assert endpoint_of(tmp_path, environment).log.is_relative_to(
        Path(environment["XDG_STATE_HOME"], "ckwatch", "workspaces")
    )
    del environment["XDG_STATE_HOME"]
    assert endpoint_of(tmp_path, environment).log.is_relative_to("/home/nobody/.local/state/ckwatch/workspaces")


@pytest.mark.parametrize("runtime_folder", [None, "", "relative", "missing", "a file", "others may write", "long" * 40])
def test_the_fallback_is_a_folder_of_the_user(
    runtime_folder: str | None, runtime: Path, environment: dict[str, str]
) -> None:
    (runtime / "a file").write_text("")
    (runtime / "others may write").mkdir()
    (runtime / "others may write").chmod(0o777)
    (runtime / ("long" * 40)).mkdir()
    environment.pop("XDG_RUNTIME_DIR")
    if runtime_folder is not None:
        absolute = runtime_folder not in ("", "relative")
        environment["XDG_RUNTIME_DIR"] = str(runtime / runtime_folder) if absolute else runtime_folder
    found = endpoint_of(runtime, environment)
    assert found.socket.parent == found.lock.parent == Path(tempfile.gettempdir()) / f"ckwatch-{os.getuid()}"


def test_a_socket_path_always_fits(runtime: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for length in range(1, 120):
        folder = runtime / ("d" * length)
        folder.mkdir()
        found = endpoint_of(runtime, environment | {"XDG_RUNTIME_DIR": str(folder)})
        assert len(os.fsencode(found.socket)) <= LONGEST_SOCKET_PATH_BYTES
        seen.add(found.socket.is_relative_to(folder))
    assert seen == {True, False}
    monkeypatch.setattr(tempfile, "tempdir", str(runtime / ("d" * 119)))
    found = endpoint_of(runtime, {})
    assert found.socket.parent == Path("/tmp") / f"ckwatch-{os.getuid()}"


def test_the_folder_is_private(runtime: Path) -> None:
    old = os.umask(0)
    try:
        prepare_folder(runtime / "new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((runtime / "new").stat().st_mode) == 0o700
    prepare_folder(runtime / "new")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("symlink", "symlink"),
        ("symlink to nothing", "symlink"),
        ("file", "not a folder"),
        ("another's", "belongs to user"),
        ("open to a group", "mode 0750"),
        ("open to all", "mode 0777"),
        ("in a folder open to all", "rename"),
        ("in a folder that is not there", "No such file"),
    ],
)
def test_a_folder_that_is_not_safe_is_refused_and_left_alone(
    what: str, says: str, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runtime / "ckwatch"
    (runtime / "real").mkdir(mode=0o700)
    match what:
        case "symlink":
            folder.symlink_to("real")
        case "symlink to nothing":
            folder.symlink_to("nothing")
        case "file":
            folder.write_text("")
        case "another's":
            folder.mkdir(mode=0o700)
            another = os.getuid() + 1
            monkeypatch.setattr(os, "getuid", lambda: another)
        case "open to a group" | "open to all":
            folder.mkdir()
            folder.chmod(0o750 if what == "open to a group" else 0o777)
        case "in a folder open to all":
            (runtime / "real").chmod(0o777)
            folder = runtime / "real" / "ckwatch"
        case "in a folder that is not there":
            folder = runtime / "missing" / "ckwatch"
    before = folder.lstat() if os.path.lexists(folder) else None
    with pytest.raises(CkwatchError) as refusal:
        prepare_folder(folder)
    assert says in refusal.value.message
    assert refusal.value.hint
    assert (folder.lstat() if os.path.lexists(folder) else None) == before


def test_one_daemon_at_a_time(endpoint: Endpoint) -> None:
    assert owner(endpoint) is None
    lock = acquire(endpoint)
    assert lock is not None
    assert (acquire(endpoint), owner(endpoint)) == (None, os.getpid())
    assert not os.get_inheritable(lock)
    release(endpoint, lock)
    assert owner(endpoint) is None
    again = acquire(endpoint)
    assert again is not None
    release(endpoint, again)


def test_a_killed_daemon_leaves_nothing_in_the_way(endpoint: Endpoint, runtime: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ckwatch.wire.endpoint import *\n"
        "endpoint = Endpoint(*map(Path, sys.argv[1:])); acquire(endpoint); bound = bind(endpoint)\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", program, str(endpoint.socket), str(endpoint.lock), str(endpoint.log)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        assert (owner(endpoint), acquire(endpoint)) == (daemon.pid, None)
        daemon.send_signal(signal.SIGKILL)
    assert endpoint.socket.exists()
    assert owner(endpoint) is None
    lock = acquire(endpoint)
    assert lock is not None
    assert owner(endpoint) == os.getpid()
    with bind(endpoint), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(endpoint.socket))
    release(endpoint, lock)


def test_who_looks_does_not_pass_for_a_daemon(endpoint: Endpoint) -> None:
    program = (
        "import sys; from pathlib import Path; from ckwatch.wire.endpoint import *\n"
        "endpoint = Endpoint(*map(Path, sys.argv[1:]))\n"
        "print('ready', flush=True)\n"
        "while True: owner(endpoint)\n"
    )
    arguments = [sys.executable, "-c", program, str(endpoint.socket), str(endpoint.lock), str(endpoint.log)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as onlooker:
        assert onlooker.stdout is not None
        onlooker.stdout.readline()
        for _ in range(300):
            lock = acquire(endpoint)
            assert lock is not None
            os.close(lock)
        onlooker.kill()


def test_a_holder_that_cannot_be_seen_is_an_error_not_a_wrong_number(endpoint: Endpoint) -> None:
    lock = acquire(endpoint)
    assert lock is not None
    # the last two: above the largest process number, and cut short by a full disk, where the whole is another's number
    for content in ("", "-1\n", "0\n", "what\n", "4194305\n", "1"):
        endpoint.lock.write_text(content)
        with pytest.raises(CkwatchError, match="cannot be seen"):
            owner(endpoint, 0.01)
    release(endpoint, lock)


def test_a_lock_that_cannot_be_signed_is_given_up(endpoint: Endpoint) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from ckwatch.wire.endpoint import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))\n"
        "try: acquire(Endpoint(*map(Path, sys.argv[1:])))\n"
        "except Exception as error: print(error)\n"
    )
    arguments = [sys.executable, "-c", program, str(endpoint.socket), str(endpoint.lock), str(endpoint.log)]
    said = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"the lock {endpoint.lock} cannot be used" in said
    assert not endpoint.lock.exists()


def test_the_socket_is_the_users_alone(endpoint: Endpoint) -> None:
    old = os.umask(0)
    try:
        bound = bind(endpoint)
    finally:
        os.umask(old)
    with bound:
        assert stat.S_IMODE(endpoint.socket.stat().st_mode) == 0o600
        assert not bound.getblocking()
        assert not bound.get_inheritable()


@pytest.mark.parametrize("what", ["file", "folder", "symlink"])
def test_only_a_socket_is_replaced(what: str, endpoint: Endpoint) -> None:
    match what:
        case "file":
            endpoint.socket.write_text("precious")
        case "folder":
            endpoint.socket.mkdir()
        case "symlink":
            endpoint.socket.symlink_to("elsewhere")
    with pytest.raises(CkwatchError, match="not a socket of ckwatch"):
        bind(endpoint)
    assert os.path.lexists(endpoint.socket)


def test_it_is_quick_to_import() -> None:
    program = "import sys, ckwatch.wire.endpoint; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not {"pydantic", "fastapi", "anyio", "asyncio", "sqlite3", "platformdirs", "ckwatch.store"} & set(loaded)
