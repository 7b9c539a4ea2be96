"""The VS Code extension, seen in a page: code-server, Chromium, the real language server, daemon and toolchain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from editors.vscode_page import Page, opened, served
from tools.editors.vscode_install import VsCode, install, package_extension

pytestmark = [pytest.mark.editors, pytest.mark.toolchain, pytest.mark.network, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
KERNELS = "gemm_f16.kernel.toml"
INSTANCE = "v3_128x128x64_intrawave"
EDITOR = ".editor-group-container.active"


def ckwatch(*arguments: str | Path, env: dict[str, str]) -> str:
    command: list[str | Path] = [sys.executable, "-m", "ckwatch", *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def vscode() -> VsCode:
    return install()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a user who has a daemon, and whose sockets and state are the test's own."""
    runtime = tmp_path_factory.mktemp("run")
    runtime.chmod(0o700)
    given = {name: value for name, value in os.environ.items() if name != "CKWATCH_NO_DAEMON"}
    return {**given, "XDG_RUNTIME_DIR": str(runtime)}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Path]:
    """The GEMM example with its template beside it, built."""
    folder = tmp_path_factory.mktemp("editor") / "gemm"
    shutil.copytree(ROOT / "examples/gemm", folder)
    for kernel in folder.glob("*.kernel.toml"):
        if kernel.name != KERNELS:
            kernel.unlink()
    shutil.copytree(ROOT / "templates/ckwatch_templates/ck", folder / "templates/ck")
    ckwatch("trust", folder, env=environment)
    ckwatch("build", f"gemm_f16/{INSTANCE}", "-C", folder, env=environment)
    try:
        yield folder
    finally:
        ckwatch("stop", "-C", folder, env=environment)


@pytest.fixture(scope="module")
def page(
    vscode: VsCode, workspace: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    settings = {
        "ckwatch.command": str(Path(sys.executable).with_name("ckwatch")),
        "editor.minimap.enabled": False,
        "editor.accessibilitySupport": "off",
        "security.workspace.trust.enabled": False,
        "telemetry.telemetryLevel": "off",
        "workbench.startupEditor": "none",
        "workbench.tips.enabled": False,
    }
    extension = package_extension(ROOT / "editors/vscode")
    home = tmp_path_factory.mktemp("code-server")
    with (
        served(vscode, home, extension, settings, environment) as address,
        opened(vscode, f"{address}?folder={workspace}") as page,
    ):
        page.wait("[id$='ckwatch.status']")
        yield page


def test_the_status_item_says_that_the_daemon_is_there(page: Page) -> None:
    page.wait("[id$='ckwatch.status']", "ckwatch")
