"""ckwatch is upgraded while an editor runs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import anyio
import pytest

import ckwatch
import ckwatch_lsp
import ckwatch_templates
from ckwatch.workspace.trust import trust
from ckwatch_lsp.protocol.server import CkwatchServer
from ckwatch_lsp.protocol.transport import message_source
from ckwatch_lsp.reexec import HandedOverState, UpgradeWatcher
from ckwatch_lsp.session.session import Session
from fakes.patience import PATIENCE_S
from lsp.editing import Editor, copy_of, editor

PACKAGES = (ckwatch, ckwatch_lsp, ckwatch_templates)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The packages, as an installation that can be upgraded, by a server that looks for that often."""
    folder = tmp_path / "installed"
    for package in PACKAGES:
        source = Path(package.__path__[0])
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    module = folder / "ckwatch_lsp" / "reexec.py"
    text = module.read_text()
    assert text.count("CHECK_S = 10.0") == 1
    module.write_text(text.replace("CHECK_S = 10.0", "CHECK_S = 0.1"))
    return folder


def arguments(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")[:-1]


def daemons(root: Path) -> list[int]:
    """Those of a workspace, without the child that one of them is about to turn into a program."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = arguments(int(path.name))
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if "ckwatch.server" in words and str(root) in words:
            found[int(path.name)] = parent
    return [process for process, parent in found.items() if parent not in found]


async def upgraded(made: Editor, file: Path, text: str) -> None:
    asked = len(made.all("workspace/configuration"))
    await anyio.Path(file).write_text(text)
    await made.until(lambda: len(made.all("workspace/configuration")) > asked)


async def test_an_upgrade_is_survived_with_what_is_not_saved(tmp_path: Path, installed: Path) -> None:
    root = copy_of("gemm", tmp_path)
    trust(root)
    path = root / "gemm_f16.kernel.toml"
    own = {"PYTHONPATH": str(installed)}
    async with editor(root, environment=own, process=True) as made:
        await made.open(path)
        await made.replace(path, "MPerBlock = 128", "MPerBlock = 96")
        await made.diagnosed(path, lambda told: any(one["code"] == "rule/m-per-block" for one in told))
        unit = "gemm_f16/v1_128x128x64_intrawave@gfx942"
        assert (await made.command("ckwatch.chooseInstance", uri=made.uri(path), unit=unit))["unit"] == unit
        (old,) = daemons(root)

        version = installed / "ckwatch" / "__init__.py"
        shown = len(made.all("textDocument/publishDiagnostics"))
        heard = len(made.all("experimental/serverStatus"))
        await upgraded(made, version, version.read_text() + "# another version\n")

        assert "--resume" in arguments(made.server.pid)
        await made.until(lambda: any(one["quiescent"] for one in made.all("experimental/serverStatus")[heard:]))
        since = [each for each in made.all("textDocument/publishDiagnostics")[shown:] if each["uri"] == made.uri(path)]
        assert all(any(one["code"] == "rule/m-per-block" for one in each["diagnostics"]) for each in since)
        # what is typed goes on where it was, in a text that only the editor and the servers have
        await made.replace(path, "MPerBlock = 96", "MPerBlock = 128")
        await made.diagnosed(path, lambda told: not [one for one in told if one["severity"] == 1])
        assert await made.at("textDocument/hover", path, 'name = "v3_128x128x64_intrawave"') is not None
        assert any(one["active"] and one["id"] == unit for one in await made.command("ckwatch.units"))
        os.kill(old, signal.SIGTERM)  # it would find that its code is not there any more, within a minute
        command = [sys.executable, "-m", "ckwatch", "stop", "-C", str(root)]
        await anyio.run_process(command, env=os.environ | own)


async def test_a_version_that_does_not_start_replaces_nothing() -> None:
    found, asked = [b"old", b"broken", b"broken", b"broken", b"new", b"", b"new", b"new"], []

    def identity() -> bytes:
        return found.pop(0) if len(found) > 1 else found[0]

    async def can_start() -> bool:
        asked.append(len(found))
        return len(asked) == 2

    out, into = os.pipe()
    with os.fdopen(into, "wb", buffering=0):
        async with anyio.create_task_group() as tasks:
            session = Session(tasks, lambda _path: None)
            server = CkwatchServer(lambda _server, _params: None, tasks)
            reader = await message_source(os.fdopen(out, "rb"))
            watcher = UpgradeWatcher(server, session, reader, check_s=0.0, identity=identity, can_start=can_start)
            with anyio.fail_after(PATIENCE_S):
                await watcher.watch()
            tasks.cancel_scope.cancel()
    # once for what was broken, and not while files are being replaced
    assert asked == [5, 1]
    assert watcher.successor == HandedOverState([], [], "", {})
    assert server.ended.is_set()


@pytest.mark.parametrize("cut", [5, 19, 23, 30])
async def test_nothing_that_was_read_is_lost(cut: int) -> None:
    message = b"Content-Length: 13\r\n\r\n" + b'{"number": 7}'
    out, into = os.pipe()
    with os.fdopen(into, "wb", buffering=0) as pipe:
        first = await message_source(os.fdopen(out, "rb"))
        pipe.write(message + message[:cut])
        assert await first.next() == {"number": 7}
        with anyio.move_on_after(0.01):
            await first.next()
        rest = await first.rest()
        assert rest == message[:cut]
    out, into = os.pipe()
    with os.fdopen(into, "wb", buffering=0) as pipe:
        second = await message_source(os.fdopen(out, "rb"), rest)
        pipe.write(message[cut:] + message)
        assert await second.next() == {"number": 7}
        assert await second.next() == {"number": 7}
        assert await second.rest() == b""


@pytest.mark.parametrize("content", [b"", b"Content-Length: 13\r\n\r\n" + b'{"number": 7}'])
async def test_input_that_is_a_file(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(content)
    for path, count in ((file, bool(content)), (Path(os.devnull), 0)):
        with anyio.fail_after(PATIENCE_S), os.fdopen(os.open(path, os.O_RDONLY), "rb") as stream:
            reader = await message_source(stream)
            for _ in range(count):
                assert await reader.next() == {"number": 7}
            assert await reader.next() is None
