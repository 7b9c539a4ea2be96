"""Thousands of units: one step does a bounded piece, and all of it is done in the end. Its time is in the benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.machine_step import HEADERS, MACRO, Daemon, built, kernel_units, template
from ckwatch.core.effects import Changed
from ckwatch.core.events import (
    AnyEvent,
    BuildRequested,
    CancelRequested,
    ClientLost,
    FilesChanged,
    FocusChanged,
    OverlayChanged,
    RequestDropped,
)
from ckwatch.core.phases import Phase
from core.invariants import check_invariants, is_at_rest

KERNELS = 100
AT_ONCE = 4
"""Pieces of different kinds that one step may do."""


@pytest.fixture(scope="module")
def daemon() -> Daemon:
    return built([kernel_units(number) for number in range(KERNELS)])


def edited(daemon: Daemon, *paths: str) -> FilesChanged:
    text = str(daemon.state.order)
    daemon.contents |= dict.fromkeys(paths, text)
    return FilesChanged(dict.fromkeys(paths, text))


def overlaid(daemon: Daemon) -> OverlayChanged:
    text = f"unsaved {daemon.state.order}"
    return OverlayChanged("ann", MACRO, text, text)


def resized(daemon: Daemon, instances: int) -> FilesChanged:
    daemon.kernels[0] = kernel_units(0, instances=instances)
    return FilesChanged({}, reload=True)


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(lambda daemon: edited(daemon, MACRO), id="a macro file of all"),
        pytest.param(lambda daemon: edited(daemon, *map(template, range(KERNELS))), id="all templates"),
        pytest.param(lambda _: FilesChanged({next(iter(HEADERS.present)): "1"}), id="a header of all"),
        pytest.param(lambda _: FilesChanged({f"/ws/{n}": "1" for n in range(10_000)}), id="files that nobody reads"),
        pytest.param(lambda _: BuildRequested("all", "", None), id="a build of everything"),
        pytest.param(lambda _: BuildRequested("force", "", None, force=True), id="a forced build of everything"),
        pytest.param(lambda _: FocusChanged("ann", frozenset(), everything=True), id="everything in focus"),
        pytest.param(overlaid, id="a macro file edited in an editor"),
        pytest.param(overlaid, id="and edited again"),
        pytest.param(lambda daemon: edited(daemon, template(0)), id="a file edited while it has unsaved text"),
        pytest.param(lambda daemon: CancelRequested("ann", frozenset(daemon.state.main.units)), id="all cancelled"),
        pytest.param(lambda _: ClientLost("ann"), id="its client lost"),
        pytest.param(lambda daemon: resized(daemon, 1000), id="a sweep of 1,000 instances"),
        pytest.param(lambda daemon: resized(daemon, 5), id="and back"),
        pytest.param(lambda _: RequestDropped("nobody's"), id="a request that is over"),
    ],
)
def test_pieces(daemon: Daemon, news: Callable[[Daemon], AnyEvent], monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[int] = []
    send = Daemon.send

    def counted(self: Daemon, event: AnyEvent) -> None:
        send(self, event)
        named.append(len({effect for effect in self.effects if isinstance(effect, Changed)}))

    monkeypatch.setattr(Daemon, "send", counted)
    daemon.news(news(daemon))
    # Each unit is shown with the files of its diagnostics, of which there are none here, and the workspace.
    assert max(named) <= AT_ONCE * daemon.state.units_at_once + 1
    check_invariants(daemon.state)
    assert is_at_rest(daemon.state)
    assert not daemon.state.requests
    assert {unit.phase for unit in daemon.state.all_units()} == {Phase.DONE}
