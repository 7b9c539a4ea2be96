"""Fixtures of all tests: commands do their own work, and nothing is written to the user's own folders."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ckwatch.workspace.trust import trust
from helpers.left_processes import end_left_processes
from helpers.own_process import OwnProcess

ROOT = Path(__file__).parent.parent

# How long an example takes depends on the machine, and is no mistake. The examples are the same in every run, so that
# what passes here passes elsewhere; `CKWATCH_EXPLORE=1` looks for others.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=not os.environ.get("CKWATCH_EXPLORE"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules and tests are made, all of which stay: a tenth of the time went into it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what no UTF-8 can hold in a report: it travels to the process that prints it."""
    report = yield
    report.sections = [(name, _escaped(text)) for name, text in report.sections]
    if report.longrepr is not None and (text := str(report.longrepr)) != _escaped(text):
        report.longrepr = _escaped(text)
    return report


def _escaped(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@pytest.fixture(autouse=True, scope="session")
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """State, sockets and trust in folders of the test run; no command starts a daemon unless its test wants one, and
    none outlives the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CKWATCH_NO_DAEMON", "1")
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("CKWATCH_TRUST_FILE", str(tmp_path_factory.mktemp("config") / "trusted"))
        trust(ROOT / "examples")
        yield
    end_left_processes(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True, scope="session")
def own_renders() -> Iterator[None]:
    """Engines in the tests' process render there too."""
    from ckwatch.engine.render_pool import RenderPool
    from fakes.own_renders import OwnRenders

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RenderPool, "make_worker", OwnRenders)
        yield


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that changes environment, folder or processors for those that follow it in its process."""
    before = OwnProcess.now()
    yield
    after = OwnProcess.now()
    if after != before:
        before.give_back()
        assert after == before


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """The test's folder, whose workspaces are trusted."""
    trust(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True, scope="session")
def idle_threads() -> Iterator[None]:
    """The threads that numpy's BLAS starts in each process wait asleep; they spin for long, and others need the cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles
        yield


@pytest.fixture(autouse=True, scope="session")
def usual_signals() -> None:
    """As in a terminal: under nohup or in the background of a script some are ignored, by child processes too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
