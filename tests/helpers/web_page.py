"""A browser, and the page of a workspace with a real daemon, for the tests in Chromium."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benches.timing_records import failed, measured, record, report, samples
from ckwatch import connect_sync
from ckwatch.client.blocking import SyncClient
from ckwatch.engine.bootstrap import database_path
from ckwatch.model.roofline import CacheState
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.trust import trust
from fakes.patience import PATIENCE_S
from helpers.own_timings import OwnTimings
from tools.editors.places import editors_folder
from tools.editors.vscode_install import program

ROOT = Path(__file__).parents[2]
CKWATCH = Path(sys.executable).with_name("ckwatch")
PATIENCE_MS = 1000 * PATIENCE_S

HOST_KERNEL = """\
name = "gemm"
template = "gemm_blocked.cpp.j2"

[operation]
kind = "gemm"
a = { dtype = "f32", layout = "row" }
b = { dtype = "f32", layout = "row" }
c = { dtype = "f32", layout = "row" }

[[shape]]
name = "small"
M = 96
N = 96
K = 96

[[shape]]
name = "flat"
M = 32
N = 256
K = 64

[defaults]
MPerBlock = 48
NPerBlock = 64
KPerBlock = 128
MPerThread = 4
NPerThread = 8
Threads = 1

[[instance]]
name = "4x8"

[[instance]]
name = "6x8"
MPerThread = 6

[[instance]]
name = "<img src=x onerror=alert(1)>"
MPerBlock = 96
"""

HIP_KERNEL = """\
name = "tiled"
template = "hip/gemm_tiled.hip.j2"

[operation]
kind = "gemm"
a = { dtype = "bf16", layout = "row" }
b = { dtype = "bf16", layout = "col" }
c = { dtype = "bf16", layout = "row" }

[[shape]]
name = "small"
M = 64
N = 64
K = 64

[defaults]
BlockSize = 256
MPerBlock = 64
NPerBlock = 64
KPerBlock = 16
MPerThread = 4
NPerThread = 4

[[instance]]
name = "k16"

[[instance]]
name = "k32"
KPerBlock = 32
"""

HOSTILE = "gemm/<img src=x onerror=alert(1)>@host"
"""A unit whose name is a script."""


def program_path() -> str:
    """Chromium's."""
    folder = editors_folder(os.environ) / "vscode"
    folder.mkdir(parents=True, exist_ok=True)
    return program("chromium", folder)


def run(root: Path, *arguments: str) -> str:
    """Return the output of a command that must succeed."""
    done = subprocess.run([CKWATCH, *arguments], cwd=root, env=daemon_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The machine's Chromium, or Debian's, which is installed for it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program_path(), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass(slots=True)
class Site:
    """`ckwatch web` on a workspace. `client` is another client of the same daemon."""

    root: Path
    client: SyncClient
    process: subprocess.Popen[str]
    address: str
    context: BrowserContext
    problems: list[str]

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return self.address.partition("/?")[0]

    def check(self, url: str) -> None:
        """Nothing is loaded from elsewhere."""
        if not url.startswith((self.origin, "data:", "blob:")):
            self.problems.append(f"a request to {url}")

    def watched(self) -> Page:
        """An empty page whose mistakes are problems."""
        page = self.context.new_page()
        page.on("request", lambda request: self.check(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: self.problems.append(f"a dialog: {dialog.message}"))
        return page

    @contextmanager
    def view(self, path: str, **query: str) -> Iterator[Page]:
        """A view that is live."""
        page = self.watched()
        page.goto(self.origin + path + (f"?{urlencode(query)}" if query else ""))
        page.locator("[role=status]", has_text="live").wait_for()
        yield page
        page.close()


def daemon_environment() -> dict[str, str]:
    """In which commands start and find daemons."""
    return {key: value for key, value in os.environ.items() if key != "CKWATCH_NO_DAEMON"}


@contextmanager
def web(root: Path, *options: str, browser: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`ckwatch web`, which opens the page in `browser` if there is one, and the address that it prints."""
    command = [str(CKWATCH), "web", *([] if browser else ["--no-open"]), *options]
    environment = daemon_environment() | {"BROWSER": browser}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.communicate()
        try:
            yield process, address
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=PATIENCE_S)


def write_workspace(root: Path) -> None:
    """Two kernels of the host's compiler and of hipcc, with a template of the workspace's own for the former."""
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n[verify]\nautomatic = "off"\n')
    shipped = ROOT / "templates/ckwatch_templates/cpp/gemm_blocked.cpp.j2"
    (root / "templates/gemm_blocked.cpp.j2").write_text(shipped.read_text())
    (root / "gemm.kernel.toml").write_text(HOST_KERNEL)
    (root / "tiled.kernel.toml").write_text(HIP_KERNEL)


def write_history(root: Path) -> None:
    """Timings of a test device: round numbers that no device gives."""
    tiled = next(kernel for kernel in load_workspace(root).kernels if kernel.name == "tiled")
    small = tiled.shapes[0]
    timings = OwnTimings(database_path(root, os.environ))
    timings.open()
    made = []
    for number, instance in enumerate(("k16", "k32")):
        unit = f"tiled/{instance}@gfx942"
        for at, day in enumerate((1000.0, 2000.0, 3000.0)):
            times = [100.0 + 10 * number - 5 * at + one / 100 for one in range(20)]
            whole = report(measured(unit, samples(CacheState.COLD, *times)))
            made.append(record(unit, shape="small", sizes=small.sizes, runtime=small.runtime, artifact_key=f"a{at}",
                               benchmark_key=f"{unit}{at}", taken_at=day, report=whole))  # fmt: skip
    made.append(failed("tiled/k16@gfx942", shape="gone", taken_at=4000.0))
    timings.add(made)
    timings.close()


@pytest.fixture(scope="session")
def workspace_of_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, SyncClient]]:
    """The workspace with everything built, and a client of its daemon."""
    root = tmp_path_factory.mktemp("page").resolve() / "workspace"
    write_workspace(root)
    trust(root)
    write_history(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CKWATCH_NO_DAEMON")
        with connect_sync(root, client_name="tests") as client:
            result = client.build()
            assert result.ok, [one.first_error for one in result.failed]
            yield root, client
            client.stop()


@contextmanager
def site_of(chromium: Browser, workspace: tuple[Path, SyncClient], *options: str, **context: Any) -> Iterator[Site]:
    """A browser that has opened the page of a workspace, in which nothing may go wrong."""
    root, client = workspace
    with web(root, *options) as (process, address):
        browser = chromium.new_context(viewport={"width": 1280, "height": 900}, **context)
        browser.set_default_timeout(PATIENCE_MS)
        site = Site(root, client, process, address, browser, [])
        first = browser.new_page()
        first.goto(address)
        first.locator("[role=status]", has_text="live").wait_for()
        first.close()
        yield site
        browser.close()
    assert site.problems == [], site.problems


@pytest.fixture(scope="module")
def site(chromium: Browser, workspace_of_page: tuple[Path, SyncClient]) -> Iterator[Site]:
    """The page as it is without options."""
    with site_of(chromium, workspace_of_page) as made:
        yield made
