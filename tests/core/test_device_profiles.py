"""Profiles from devices are announced for the artifact that they were taken of."""

from __future__ import annotations

from ckwatch.core.effects import Changed
from ckwatch.core.events import MAIN, DeviceProfileKept
from ckwatch.core.step import step
from ckwatch.model.topics import Topic
from core.workspace import A, B, built, unit


def test_the_unit_is_announced_if_it_has_the_artifact() -> None:
    world = built()
    result = unit(world, A).built
    assert result is not None
    event = DeviceProfileKept(at=5.0, unit=A, artifact=result.artifact)
    assert Changed(MAIN, Topic.unit(A)) in step(world.state, event)
    assert (unit(world, A).profiled_at, unit(world, B).profiled_at) == (5.0, None)
    assert step(world.state, DeviceProfileKept(at=6.0, unit=A, artifact="another")) == ()
    assert step(world.state, DeviceProfileKept(at=6.0, unit="gone", artifact=result.artifact)) == ()
    assert unit(world, A).profiled_at == 5.0
