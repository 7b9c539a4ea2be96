"""Problems of the environment are reported once, with a remedy; daemons and editors come and go without losing anything."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from ckwatch.workspace.trust import trust
from lsp.editing import Editor, capabilities, copy_of, editor


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the GEMM example, which nobody has trusted."""
    return copy_of("gemm", tmp_path)


def asked(made: Editor, what: str) -> list[str]:
    """The messages with actions in which `what` occurs."""
    return [each["message"] for each in made.all("window/showMessageRequest") if what in each["message"]]


async def test_an_untrusted_workspace_is_asked_about_once(root: Path) -> None:
    kernel_file = root / "gemm_f16.kernel.toml"
    async with editor(root) as made:
        made.choices.append("Not now")
        await made.open(kernel_file)
        await made.heard_of("window/showMessageRequest", lambda params: "not trusted" in params["message"])
        await made.replace(kernel_file, "MPerBlock = 128", "MPerBlock = 96")
        await made.save(kernel_file)
        await made.at("textDocument/hover", kernel_file, "template")
        assert len(asked(made, "not trusted")) == 1
        assert made.diagnostics(kernel_file) in (None, [])


async def test_trust_starts_the_daemon(root: Path) -> None:
    kernel_file = root / "gemm_f16.kernel.toml"
    async with editor(root) as made:
        made.choices.append("Trust")
        text = kernel_file.read_text().replace("MPerBlock = 128", "MPerBlock = 96", 1)
        await made.open(kernel_file, text)
        found = await made.diagnosed(kernel_file)
        assert any("MPerBlock" in one["message"] for one in found)
        assert len(asked(made, "not trusted")) == 1


async def test_a_daemon_that_is_killed_is_replaced(root: Path) -> None:
    trust(root)
    kernel_file = root / "gemm_f16.kernel.toml"
    async with editor(root) as made:
        await made.open(kernel_file)
        await made.replace(kernel_file, "MPerBlock = 128", "MPerBlock = 96")
        await made.diagnosed(kernel_file)
        await kill_daemon(root)
        await made.replace(kernel_file, "MPerBlock = 96", "MPerBlock = 128")
        await made.diagnosed(kernel_file, lambda found: not [one for one in found if one["severity"] == 1])
        await made.replace(kernel_file, "MPerBlock = 128", "MPerBlock = 96")
        await made.diagnosed(kernel_file, lambda found: [one for one in found if one["severity"] == 1])


async def test_each_folder_has_its_daemon(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    roots = [copy_of("gemm", tmp_path / "one"), copy_of("gemm", tmp_path / "two")]
    for root in roots:
        trust(root)
    async with editor(*roots) as made:
        files = [root / "gemm_f16.kernel.toml" for root in roots]
        for file in files:
            await made.open(file)
        await made.replace(files[0], "MPerBlock = 128", "MPerBlock = 96")
        await made.diagnosed(files[0])
        assert made.diagnostics(files[1]) in (None, [])
        await made.replace(files[1], "MPerBlock = 128", "MPerBlock = 96")
        await made.diagnosed(files[1])


async def test_no_process_is_left_behind(root: Path) -> None:
    trust(root)
    async with editor(root, able=capabilities(window__workDoneProgress=None), process=True) as made:
        await made.open(root / "gemm_f16.kernel.toml")
        await made.replace(root / "gemm_f16.kernel.toml", "MPerBlock = 128", "MPerBlock = 96")
        await made.diagnosed(root / "gemm_f16.kernel.toml")
        assert children_of(made.server.pid) == []


def children_of(process: int) -> list[str]:
    """The processes that it has started and that have not gone, dead ones among them."""
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


async def kill_daemon(root: Path) -> None:
    """As the kernel does when memory runs out."""
    import json
    import sys

    own = {name: value for name, value in os.environ.items() if name != "CKWATCH_NO_DAEMON"}
    command = [sys.executable, "-m", "ckwatch", "status", "-C", str(root), "--json"]
    printed = await anyio.run_process(command, env=own)
    os.kill(json.loads(printed.stdout)["pid"], signal.SIGKILL)
