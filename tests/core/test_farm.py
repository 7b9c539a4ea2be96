"""Compiles go to the farm beside those of this machine; what it cannot do is done here."""

from __future__ import annotations

from ckwatch.core.effects import Compile
from ckwatch.core.events import BuildRequested, CompilerEnded, FarmChanged, FarmFailed, FocusChanged, WorkKind
from ckwatch.core.phases import Phase
from core.language import TOML
from core.workspace import K1, MACROS, T1, A, built, unit
from core.world import QUICK, World

EIGHT = "template t1\n" + "\n".join(f"instance {name} {number}" for number, name in enumerate("abcdefgh"))
TEMPLATE_OF_HOST = "/ws/templates/t3.cpp.j2"


def with_farm(slots: int, **changes: str) -> World:
    """Eight units in need of a compiler, two of this machine, and a farm."""
    world = built(**{K1: EIGHT, TOML: "settings 0\njobs 2"} | changes)
    world.send(FarmChanged(slots))
    world.save(T1, "include macros\nheader h1\ntoken 2")
    return world


def compiles(world: World, *, on_farm: bool) -> list[str]:
    return [
        one.effect.work.key.unit.removesuffix("@gfx942")
        for one in world.works.values()
        if isinstance(one.effect, Compile) and one.effect.on_farm is on_farm and not one.cancelled
    ]


def test_without_a_farm_everything_is_compiled_here() -> None:
    world = with_farm(0)
    world.run(*QUICK)
    assert (len(compiles(world, on_farm=False)), compiles(world, on_farm=True)) == (2, [])
    world.drain()


def test_this_machine_is_one_more_worker() -> None:
    world = with_farm(3)
    world.run(*QUICK)
    assert (len(compiles(world, on_farm=False)), len(compiles(world, on_farm=True))) == (2, 3)
    world.drain()
    assert all(unit(world, f"k1/{name}@gfx942").phase is Phase.DONE for name in "abcdefgh")


def test_while_somebody_looks_the_machine_is_kept_for_that() -> None:
    world = built(**{K1: EIGHT, TOML: "settings 0\njobs 2"})
    world.send(FarmChanged(8))
    world.send(FocusChanged("ann", frozenset({A})))
    world.send(BuildRequested("r", "", None, force=True))
    world.run(*QUICK)
    assert compiles(world, on_farm=False) == ["k1/a"]
    assert len(compiles(world, on_farm=True)) == 8
    world.drain()


def test_what_is_looked_at_goes_to_the_farm_when_this_machine_is_full() -> None:
    world = with_farm(0)
    world.run(*QUICK)
    busy = compiles(world, on_farm=False)
    name = next(f"k1/{name}@gfx942" for name in "abcdefgh" if f"k1/{name}" not in busy)
    world.send(FocusChanged("ann", frozenset({name})))
    world.send(FarmChanged(1))
    world.run(*QUICK)
    assert compiles(world, on_farm=True) == [name.removesuffix("@gfx942")]
    world.drain()


def test_what_the_farm_cannot_do_is_done_here() -> None:
    world = with_farm(8)
    world.run(*QUICK)
    number = next(number for number, one in world.works.items() if number in world.state.on_farm)
    work = world.works[number].effect.work
    name = work.key.unit
    del world.works[number]
    world.send(FarmFailed(work, "a worker died"))
    world.run(*QUICK)
    assert unit(world, name).compile.not_on_farm
    assert unit(world, name).phase is Phase.QUEUED
    assert number not in world.state.on_farm
    world.drain()
    assert unit(world, name).phase is Phase.DONE
    world.save(MACROS, "token 7")
    world.run(*QUICK)
    assert not unit(world, name).compile.not_on_farm, "the next input may go there"
    world.drain()


def test_a_failure_of_an_earlier_input_concerns_nobody() -> None:
    world = with_farm(8)
    world.run(*QUICK)
    number = next(iter(world.state.on_farm))
    work = world.works[number].effect.work
    world.save(T1, "include macros\nheader h1\ntoken 3")
    assert unit(world, work.key.unit).phase is Phase.WAITING
    del world.works[number]
    world.send(FarmFailed(work, "a worker died"))
    assert not unit(world, work.key.unit).compile.not_on_farm
    world.drain()


def test_a_result_that_is_being_stored_makes_room() -> None:
    world = with_farm(1)
    world.run(*QUICK)
    (number,) = world.state.on_farm
    world.send(CompilerEnded(world.works[number].effect.work))
    assert len(compiles(world, on_farm=True)) == 2
    world.drain()


def test_what_only_this_machine_can_compile_does_not_hold_up_the_farm() -> None:
    world = built(**{K1: EIGHT, "/ws/k3.kernel.toml": "template t3.cpp.j2\ninstance a 1", TEMPLATE_OF_HOST: "token 0"})
    world.send(FarmChanged(8))
    world.send(BuildRequested("r", "", None, force=True))
    world.run(*QUICK)
    assert len(compiles(world, on_farm=True)) > 0
    assert not any(name.startswith("k3/") for name in compiles(world, on_farm=True))
    world.drain()


def test_a_compile_on_the_farm_is_stopped_with_its_unit() -> None:
    world = with_farm(8)
    world.run(*QUICK)
    name = compiles(world, on_farm=True)[0]
    world.save(K1, "template t1\ninstance z 1")
    world.run(WorkKind.LOAD, WorkKind.SCAN)
    assert name not in compiles(world, on_farm=True)
    world.drain()
