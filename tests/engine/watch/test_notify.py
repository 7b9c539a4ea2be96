"""The process that watches folders with watchfiles, what it says when it cannot, and what the user is told then."""

# ruff: noqa: ASYNC240  # the tests themselves save small files

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ckwatch.engine.watch import notify_process
from ckwatch.engine.watch.notify import as_os_error, describe_shortage, watchfiles_process
from ckwatch.engine.watch.notify_process import CLOSED, GONE
from fakes.patience import PATIENCE_S


async def test_hints(workspace: Path) -> None:
    (workspace / "a/b").mkdir(parents=True)
    (workspace / "old").write_text("")
    with anyio.fail_after(PATIENCE_S):
        async with watchfiles_process([str(workspace)], True) as hints:
            (workspace / "a/b/new").write_text("1")
            (workspace / "old").unlink()
            found: dict[str, int] = {}
            while len(found) < 2:
                found.update(await anext(hints))
            assert {path: hint & GONE for path, hint in found.items()} == {
                str(workspace / "a/b/new"): 0,
                str(workspace / "old"): GONE,
            }


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a bell")
async def test_what_is_closed(workspace: Path) -> None:
    """In folders that were there before, and in those that came, also under another name; not what is still written.
    Where the library is faster than the bell, nothing is said of a save."""
    (workspace / "a").mkdir()

    async def save_again_and_again(path: Path) -> None:
        while True:
            path.with_name("save~").write_text("1")
            path.with_name("save~").rename(path)
            await anyio.sleep(0.05)

    with anyio.fail_after(PATIENCE_S):
        async with watchfiles_process([str(workspace)], True) as hints:
            with (workspace / "a/open").open("w") as file:
                file.write("1")
                file.flush()
                while (hint := (await anext(hints)).get(str(workspace / "a/open"))) is None:
                    pass
                assert not hint & CLOSED
            for _ in range(20):  # some are gone when they are looked at
                (workspace / "new").mkdir()
                (workspace / "new").rmdir()
            (workspace / "new").mkdir()
            for path in (workspace / "a/moved", workspace / "new/moved"):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(save_again_and_again, path)
                    while not (await anext(hints)).get(str(path), 0) & CLOSED:
                        pass
                    tasks.cancel_scope.cancel()


async def test_without_a_bell(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where folders are too many for one, or come to be."""
    monkeypatch.setattr(notify_process, "BELL_FOLDERS", 1)
    with pytest.raises(OSError, match="too many"):
        notify_process.Bell([str(workspace), str(workspace.parent)], recursive=False)
    if sys.platform == "linux":
        bell = notify_process.Bell([str(workspace)], recursive=True)
        (workspace / "more").mkdir()
        assert bell.wait(1000)
        with pytest.raises(OSError, match="too many"):
            bell.closed()


async def test_only_what_is_directly_in_a_folder(workspace: Path) -> None:
    (workspace / "a").mkdir()
    with anyio.fail_after(PATIENCE_S):
        async with watchfiles_process([str(workspace)], False) as hints:
            (workspace / "a/new").write_text("1")
            (workspace / "marker").write_text("1")
            assert [*await anext(hints)] == [str(workspace / "marker")]


@pytest.mark.parametrize("name", [b"none", b"\xff"], ids=["missing", "no UTF-8"])
async def test_what_cannot_be_watched(workspace: Path, name: bytes) -> None:
    path = os.fsdecode(os.fsencode(workspace) + b"/" + name)
    if name != b"none":
        Path(path).mkdir()
    with pytest.raises(FileNotFoundError if name == b"none" else OSError):
        async with watchfiles_process([path], True):
            raise AssertionError


async def test_a_name_that_is_no_utf_8_ends_it(workspace: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with watchfiles_process([str(workspace)], True) as hints:
            Path(os.fsdecode(os.fsencode(workspace) + b"/\xff.j2")).write_text("1")
            with pytest.raises(OSError, match="decode"):
                await anext(hints)


def test_it_ends_with_its_input(workspace: Path) -> None:
    """Whoever is killed cannot kill."""
    import watchfiles

    request = {
        "library": [str(Path(watchfiles.__file__).parent)],
        "folders": [str(workspace)],
        "recursive": True,
        "step_ms": 30,
        "ring_ms": 2,
    }
    command = (sys.executable, "-I", "-S", notify_process.__file__)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"{}\n"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("begun", [b"", b'{"library": ["'])
def test_one_whose_parent_was_killed_before_it_had_asked_ends_quietly(begun: bytes) -> None:
    command = (sys.executable, "-I", "-S", notify_process.__file__)
    ended = subprocess.run(command, input=begun, capture_output=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("OSError", 'OS file watch limit reached. about ["/w"]', errno.ENOSPC),
        ("RuntimeError", "Error creating recommended watcher: Too many open files (os error 24)", errno.EMFILE),
        ("PermissionError", "Permission denied", errno.EACCES),
        ("FileNotFoundError", "No path was found.", errno.ENOENT),
        ("WatchfilesRustInternalError", "anything else", errno.EIO),
    ],
)
def test_errors(name: str, text: str, number: int) -> None:
    assert as_os_error(name, text).errno == number
    assert as_os_error(name, text).strerror


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, "fs.inotify.max_user_watches="),
        (errno.EMFILE, "fs.inotify.max_user_instances="),
        (errno.ENOMEM, "tried again"),
    ],
)
def test_limits(number: int, expected: str) -> None:
    message, hint = describe_shortage(OSError(number, os.strerror(number)))
    assert expected in hint
    assert "polled" in message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a bell")
def test_the_bell_rings_for_another_mode(workspace: Path) -> None:
    """As the library reports it; a file that was closed before is closed."""
    file = workspace / "file"
    file.write_text("1")
    bell = notify_process.Bell([str(workspace)], recursive=True)
    file.chmod(0o600)
    assert bell.wait(1000)
    assert bell.closed() == {str(file): False}
    file.write_text("2")
    file.chmod(0o644)
    assert bell.closed() == {str(file): True}
