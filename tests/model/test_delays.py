"""One table names every delay between a keystroke or a save and its answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ckwatch
import ckwatch_lsp
from ckwatch.model import delays
from ckwatch.model.delays import DELAYS, SETTLE, Way, total_s
from ckwatch.workspace.settings import DaemonSection
from helpers.parsed_sources import parsed

DAEMON, LSP = Path(ckwatch.__file__).parent, Path(ckwatch_lsp.__file__).parent
ON_THE_WAY = (LSP, DAEMON / "engine", DAEMON / "core", DAEMON / "render", DAEMON / "client")

OTHERS = {
    "engine/bootstrap.py": "the store is cleaned up now and then",
    "engine/queries/changes.py": "releases for many followers keep a distance, CHANGES_UNDER_LOAD at most",
    "engine/handlers/measure.py": "a device is given back that no tuning run needs any more",
    "engine/handlers/farm_link.py": "the farm is looked at now and then",
    "engine/handlers/history_recorder.py": "results of a while are written to the history together",
    "engine/loop.py": "memory is measured, and a long step gives others a turn",
    "engine/watch/notify_process.py": "what follows a ring is gathered",
    "engine/watch/watcher.py": "scans for what no event reported; a batch is due by `PendingChanges.due_s`",
    "client/events.py": "a daemon that has gone is sought again",
    "client/http.py": "a daemon that is busy is asked again",
    "client/launch.py": "a daemon is being started",
    "client/overlays.py": "a daemon that has gone is sought again",
    "session/overlays.py": "the same, for an unsaved text",
    "protocol/server.py": "the server ends with its editor",
    "reexec.py": "the installation is checked for another version",
}
"""Modules that sleep, and why that is no part of an answer."""


@pytest.mark.parametrize(
    ("way", "ms"),
    [("diagnostics", 0), ("compiler errors", 5), ("hints", 120), ("rendered source", 120), ("build", 6)],
)
def test_delays_add_up_to(way: Way, ms: int) -> None:
    """Whoever adds a delay changes this number."""
    assert total_s(way) == pytest.approx(ms / 1000)


def test_the_table_is_all_there_is_in_its_module() -> None:
    assert len(DELAYS) > 20
    assert {name for name in vars(delays) if name.isupper()} == {*DELAYS, "DELAYS"}
    assert all(delay.seconds > 0 and delay.why for delay in DELAYS.values())


def test_the_default_of_the_setting_is_the_table_s() -> None:
    assert DaemonSection().settle_ms == 1000 * SETTLE.seconds


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ON_THE_WAY:
        root = LSP if folder is LSP else DAEMON
        for path, tree in parsed(folder, ("sleep", "Debouncer")):
            yield str(path.relative_to(root)), tree


def sleeps(tree: ast.Module) -> Iterator[str]:
    """Seconds of sleeps, and the delays of debouncers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("anyio.sleep", "time.sleep"):
                yield ast.unparse(node.args[0])
            elif called == "anyio.sleep_until":
                yield ast.unparse(node.args[0]).rpartition(" + ")[2]
            elif called == "Debouncer":
                yield f"{ast.unparse(node.args[2])}.seconds"


def test_nothing_else_delays_an_answer() -> None:
    by_parameter = {"session/debounce.py", "engine/handlers/compiler_messages.py", "session/kept_answers.py"}
    undeclared = {
        (module, slept)
        for module, tree in modules()
        for slept in sleeps(tree)
        if slept.removesuffix(".seconds") not in DELAYS and module not in OTHERS.keys() | by_parameter
    }
    assert undeclared == set()


def test_what_is_excepted_still_sleeps() -> None:
    sleeping = {module for module, tree in modules() if [*sleeps(tree)]}
    assert OTHERS.keys() <= sleeping


def test_every_delay_is_used() -> None:
    used = {
        node.id if isinstance(node, ast.Name) else node.attr
        for folder in (DAEMON, LSP)
        for path, tree in parsed(folder, DELAYS)
        if path.name != "delays.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    }
    assert DELAYS.keys() - used <= {"SETTLE"}
