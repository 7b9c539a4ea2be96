"""Addresses of the page: every parameter of every view is shown, or reported as gone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from benches.timed_units import timing_row
from cases.web_rows import feed_of, unit_row
from ckwatch import CkwatchError
from ckwatch_web.choices import COMPARED, GoneError, choose
from ckwatch_web.feed import Feed
from ckwatch_web.view import PageView
from ckwatch_web.views.all import VIEWS

ONE = unit_row("k/one@gfx942", timings=(timing_row("s", 10.0),), artifact="ab")
UNTIMED = unit_row("k/one@gfx942", artifact="ab")


class Client:
    """Knows a tuning run, and nothing else."""

    root = "/w"

    async def tuning_runs(self) -> list[Any]:
        return [SimpleNamespace(id=1, kernel="k", shapes=("s",), running=False, ended="done", began_at=0.0, device="d",
                                error="", resumable=True)]  # fmt: skip

    async def workspace(self) -> Any:
        return SimpleNamespace(kernel_names={})

    async def analysis(self, _unit: str) -> None:
        raise CkwatchError("no analysis")

    unit = analysis

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def nothing(*_: object, **__: object) -> list[Any]:
            return []

        return nothing


def feed(*rows: Any) -> Feed:
    return feed_of(*rows, client=Client())


PARAMETERS = {
    "heat-map": ("kernel", "arch", "device", "cache", "shapes", "against"),
    "roofline": ("kernel", "arch", "shape", "cache", "unit"),
    "history": ("unit", "shape", "limit"),
    "compare": ("unit", "against", "part"),
    "tuning": ("kernel", "run", "shape", "budget"),
    "compile-time": ("unit",),
    "predicted": ("unit", "kernel", "arch", "shape", "part"),
    "verification": ("unit",),
}


@pytest.mark.parametrize(("view", "key"), [(VIEWS[name], key) for name, keys in PARAMETERS.items() for key in keys])
async def test_what_is_gone_is_said_and_nothing_else_is_shown(view: PageView, key: str) -> None:
    feeds = [feed(UNTIMED)]
    feeds += [feed(ONE)] if (view.name, key) != ("roofline", "arch") else []  # timings of all archs are in one picture
    feeds += [feed()] if key in ("kernel", "unit") else []
    for one in feeds:
        with pytest.raises(GoneError, match=f"names {key}=k/gone, which no longer exists") as caught:
            await view.show(one, {key: "k/gone"})
        assert caught.value.choice.key == key


@pytest.mark.parametrize("name", ["history", "compare", "compile-time", "predicted", "verification"])
async def test_a_unit_that_disappears_is_not_replaced_by_another(name: str) -> None:
    view, query = VIEWS[name], {"unit": "k/one@gfx942"}
    await view.load()
    shown, two = feed(ONE), unit_row("k/two@gfx942")
    before = view.depends(shown, query)
    shown.units = {two.id: two}
    try:
        assert view.depends(shown, query) != before
    except GoneError:
        assert name == "predicted"
    with pytest.raises(GoneError) as caught:
        await view.show(shown, query)
    assert list(caught.value.choice.options) == [two.id]
    assert caught.value.near() == [two.id]


@pytest.mark.parametrize(("name", "action"), [("compile-time", "trace"), ("verification", "verify")])
async def test_nothing_is_done_to_another_unit(name: str, action: str) -> None:
    view = VIEWS[name]
    await view.load()
    with pytest.raises(CkwatchError, match="there is no such unit"):
        await view.actions[action](feed(ONE), {"unit": "k/gone@gfx942"})


def test_the_nearest_of_very_many_names_are_found() -> None:
    names = [f"gemm/tile_{number:04}@gfx942" for number in range(10 * COMPARED)]
    with pytest.raises(GoneError) as caught:
        choose("unit", "Unit", names, {"unit": "gem/tile_1203@gfx94"})
    assert caught.value.near()[0] == "gemm/tile_1203@gfx942"
    with pytest.raises(GoneError) as caught:
        choose("unit", "Unit", names, {"unit": "\u202e" + 10**5 * "x"})
    assert caught.value.near() == []
    assert "\u202e" not in caught.value.message
    assert len(caught.value.message) < 1000


def test_an_address_that_names_nothing_shows_the_default() -> None:
    assert choose("shape", "Shape", ["a", "b"], {"shape": ""}, "b").value == "b"
    assert choose("shape", "Shape", ["a", "b"], {}, "gone").value == "a"
    assert choose("shape", "Shape", [], {}).value == ""
