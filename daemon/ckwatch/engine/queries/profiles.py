"""Profiles of units: a launch on the emulator, counted instruction by instruction, and the lines of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.bench.worker_protocol import LaunchCounted
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.core.events import MAIN, CompileFacts
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.verify import VerifyRunner
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.emulated_archs import emulated_device
from ckwatch.model.errors import CkwatchError
from ckwatch.model.trials import Trial
from ckwatch.verification.problems import profiled_trial
from ckwatch.wire.analysis import UnitProfile

if TYPE_CHECKING:
    from ckwatch.engine.queries.listings import IsaListings

LAUNCHES_KEPT = 20


@dataclass(eq=False)
class ProfileQueries:
    """`make_listings` is called in a thread: its modules take a while to load."""

    _lookup: UnitLookup
    _runner: VerifyRunner
    make_listings: Callable[[], IsaListings]
    _kept: dict[tuple[str, Trial], LaunchCounted] = field(default_factory=dict, init=False)

    async def _counted(self, unit: UnitState, result: CompileFacts, trial: Trial) -> LaunchCounted:
        """The counts of a launch of an artifact, which are the same each time."""
        key = (result.artifact, trial)
        launched = self._kept.pop(key, None) or await self._runner.counted(unit.unit, result, trial)
        self._kept[key] = launched
        if len(self._kept) > LAUNCHES_KEPT:
            del self._kept[next(iter(self._kept))]
        return launched

    async def profile(self, client: str | None, unit: str, shape: str | None, *, lines: bool) -> UnitProfile:
        """The profile of a unit's present artifact.

        Raises CkwatchError for a unit that is not built or not emulated, a shape that means none, and a launch that
        cannot be executed.
        """
        state = await self._lookup.one(client or MAIN, unit)
        result = state.built
        if result is None:
            raise CkwatchError(f"'{unit}' is not built", "build it")
        trial = await to_thread.run_sync(profiled_trial, state.unit, shape)
        launched = await self._counted(state, result, trial)
        if not launched.kernels:
            raise CkwatchError(f"'{unit}' was not executed: {launched.failure or 'it launched no kernel'}")
        listings = await to_thread.run_sync(self.make_listings)
        kernels = await listings.counted(state, launched, result, lines=lines)
        return UnitProfile(
            unit=unit,
            artifact_key=result.key,
            device=emulated_device(state.unit.arch) or state.unit.arch,
            shape=trial.shape,
            shape_name=trial.name,
            kernels=kernels,
            hints=await to_thread.run_sync(hints_of, kernels),
            executed=launched.executed,
            failure=launched.failure,
        )
