"""Messages of commands, without a daemon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.topics import Topic
from ckwatch.wire.benchmarks import Compared
from ckwatch.wire.state import Change, Unit, Workspace
from ckwatch_lsp.commands.arguments import units_named
from ckwatch_lsp.commands.compare import comparison_page
from ckwatch_lsp.commands.daemon import status_of
from ckwatch_lsp.commands.running_tasks import title_of
from ckwatch_lsp.commands.units import line_of
from ckwatch_lsp.diagnostics.conversion import short_names
from ckwatch_lsp.figures.pages import plain
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from lsp.figures.made_up import compared, figures, timing, unit


def row(**changes: Any) -> Compared:
    fields: dict[str, Any] = {
        "shape": "4096", "cache": "cold", "ours": "k/one@gfx942", "theirs": "previous", "timing": timing(90.0),
        "comparison": compared(0.9),
    }  # fmt: skip
    return Compared(**(fields | changes))


def test_comparisons() -> None:
    rows = [
        row(),
        row(cache="hot", comparison=replace(compared(1.1, "SLOW"), interleaved=True)),
        row(theirs="library", comparison=None, why_not="no library was timed beside it"),
        row(theirs="k/two@gfx942", other=timing(device_description="stand-in")),
    ]
    found = [" ".join(line.split()) for line in plain(comparison_page("k/one@gfx942", rows)).split("\n") if line]
    assert found == [
        "k/one@gfx942 compared",
        "shape against time other change verdict",
        "4096, cold cache previous 90.00 µs 100.0 µs −10.0 % FAST",
        "4096, hot cache previous 90.00 µs 100.0 µs +10.0 % SLOW, in turns",
        "4096, against library: no library was timed beside it",
        "4096, against k/two@gfx942: a stand-in for a device: no figures",
    ]


OTHER_ARCH = unit("one", arch="gfx90a")
OTHER_KERNEL = replace(unit("one"), kernel="l", id="l/one@gfx942")


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ([unit("one"), unit("two")], ["one", "two"]),
        ([unit("one"), OTHER_ARCH], ["one@gfx942", "one@gfx90a"]),
        ([unit("one"), OTHER_KERNEL], ["k/one", "l/one"]),
    ],
)
def test_units_have_short_names_in_a_choice(units: list[Unit], expected: list[str]) -> None:
    assert short_names([one.id for one in units]) == expected


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ([unit("one")], "Building k/one"),
        ([unit("one"), unit("two")], "Building 2 units of k"),
        ([unit("one"), OTHER_KERNEL], "Building 2 units of k and l"),
    ],
)
def test_titles_of_progress(units: list[Unit], expected: str) -> None:
    assert title_of("Building", units) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (unit(), ("", None)),
        (unit(phase="compiling"), ("", "running")),
        (unit(timings=(timing(),)), ("50.00 µs ±1.00 %  100 TFLOP/s  50 %", "fresh")),
        (unit(timings=(timing(standing="stale"),)), ("50.00 µs ±1.00 %  100 TFLOP/s  50 %", "stale")),
        (unit(figures=figures()), ("occ 5  100 VGPR  1K LDS  0 spills  MFMA 50 %", "fresh")),
    ],
)
def test_a_unit_in_a_line(given: Unit, expected: tuple[str, str | None]) -> None:
    assert line_of(given) == expected


def folder(*units: Unit, connection: ConnectionState = ConnectionState.READY, **changes: Any) -> WorkspaceFolder:
    made = WorkspaceFolder(Path("/ws"), lambda _folder, _topics: None)
    fields: dict[str, Any] = {
        "root": "/ws", "loaded": True, "busy": False, "unit_count": len(units), "jobs": 2, "compiling": 0
    }  # fmt: skip
    made.workspace = Workspace(**(fields | changes))
    made.connection = connection
    for each in units:
        made._take(Change(seq=0, topic=Topic(f"unit/{each.id}"), state=each))  # what the daemon says
    return made


BUSY = [unit("a", phase="compiling"), unit("b", phase="queued"), unit("c", measuring="4096"), unit("d")]


@pytest.mark.parametrize(
    ("given", "health", "quiescent", "message"),
    [
        (folder(unit()), "ok", True, "1 unit"),
        (folder(*BUSY, busy=True), "ok", False, "1 compiling, 1 queued, timing k/c"),
        (folder(connection=ConnectionState.STARTING), "ok", False, "the daemon is being started"),
        (folder(connection=ConnectionState.UNTRUSTED), "warning", True, "the workspace is not trusted"),
        (folder(connection=ConnectionState.BROKEN), "error", True, "there is no daemon"),
        (folder(connection=ConnectionState.STOPPED), "warning", True, "the daemon was stopped"),
        (folder(problem="ckwatch.toml is broken"), "error", True, "ckwatch.toml is broken"),
        (folder(warnings={"toolchain": "there is none"}), "warning", True, "toolchain: there is none"),
    ],
)
def test_how_a_workspace_is(given: WorkspaceFolder, health: str, quiescent: bool, message: str) -> None:  # a row
    status = status_of(given)
    assert (status.health, status.quiescent, status.message, status.folder) == (health, quiescent, message, "/ws")


def test_how_a_workspace_is_after_changes() -> None:
    made = folder(*BUSY)
    for changed in (unit("a"), unit("b", phase="compiling"), unit("d", measuring="odd")):
        made._take(Change(seq=0, topic=Topic(f"unit/{changed.id}"), state=changed))  # as above
    assert status_of(made).message == "1 compiling, timing k/c"
    for gone in ("b", "c"):
        made._take(Change(seq=0, topic=Topic(f"unit/k/{gone}@gfx942")))  # as above
    assert status_of(made).message == "timing k/d"
    made._take(Change(seq=0, topic=Topic("unit/k/d@gfx942"), state=unit("d")))  # as above
    assert status_of(made).message == "2 units"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("k/one@gfx942", ["one"]), ("k/t*", ["two", "three"]), ("k", ["one", "two", "three"]), ("k/one", ["one"])],
)
def test_units_by_name(name: str, expected: list[str]) -> None:
    found = units_named([folder(), folder(unit("one"), unit("two"), unit("three"))], name)
    assert [each.instance for each in found[1]] == expected


def test_a_name_that_means_none() -> None:
    with pytest.raises(UnknownUnitError, match=r"no unit is called 'k/onne'\ndid you mean 'k/one'\?"):
        units_named([folder(unit("one"))], "k/onne")
    with pytest.raises(CkwatchError, match="no unit is called 'x'"):
        units_named([], "x")
