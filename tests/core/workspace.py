"""A small workspace in which everything is built, and short ways to say what happens to it."""

from __future__ import annotations

from collections.abc import Callable

from ckwatch.core.events import BuildRequested, OverlayChanged
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from core.language import TOML
from core.world import World

K1, K2 = "/ws/k1.kernel.toml", "/ws/k2.kernel.toml"
T1, T2, MACROS = "/ws/templates/t1", "/ws/templates/t2", "/ws/templates/macros"
H1, H2, H3 = "/ck/h1", "/ck/h2", "/ck/h3"
FILES = {
    TOML: "settings 0\njobs 2",
    K1: "template t1\ninstance a 1\ninstance b 2",
    K2: "template t2\ninstance c 1",
    T1: "include macros\nheader h1",
    T2: "token 0\nheader h2",
    MACROS: "token 0",
    H1: "token 0",
    H2: "token 0",
    H3: "token 0",
}
A, B, C = "k1/a@gfx942", "k1/b@gfx942", "k2/c@gfx942"
Act = Callable[[World], None]


def built(**changes: str) -> World:
    """A world in which everything is built."""
    world = World(FILES | changes, State(root="/ws"))
    world.send(BuildRequested("all", "", None))
    world.drain()
    world.take_log()
    world.audience.requests.clear()
    return world


def unit(world: World, name: str, client: str = "") -> UnitState:
    seen = world.state.seen(client, name)
    assert seen is not None
    return seen


def story(world: World, name: str) -> list[str]:
    """The causes of a unit's state, newest first, as `explain` prints them."""
    return [cause.what for cause in unit(world, name).cause.chain]


def set_overlay(world: World, client: str, path: str, text: str | None) -> None:
    world.send(OverlayChanged(client, path, text, text))


def edited(path: str, text: str | None) -> Act:
    return lambda world: world.save(path, text)


def lost(name: str) -> Act:
    """The store loses what a unit compiled to."""

    def act(world: World) -> None:
        result = unit(world, name).compile.result
        assert result is not None
        world.lose({result.artifact})

    return act


def way(*units: str, to: str = "compile") -> list[str]:
    """Units one after the other on their way, as far as `to`."""
    steps = ["render", "look-up", "compile"]
    return [f"{step} {name}" for name in units for step in steps[: steps.index(to) + 1]]


def old_reader(world: World, path: str, text: str) -> int:
    """A seed with which a work reads the file as it was before its last change."""
    before = world.disk.version - 1
    return next(seed for seed in range(1, 99) if seed % 5 != 4 and world.disk.reader(before, seed)(path) == text)
