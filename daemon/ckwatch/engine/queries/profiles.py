"""Profiles of units: a launch on the emulator, counted instruction by instruction, and the lines of these.

The lines of a profile are kept beside the artifact, with the templates' texts, and compared with those of later
artifacts. A rebuild of the same content has the same artifact, so that it is never compared with itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.bench.history.database import HistoryError
from ckwatch.codeobject.profile_changes import changes_of, moved_lines
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.core.events import CompileFacts
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.comparison import BASELINE, PREVIOUS, baseline_timings
from ckwatch.engine.handlers.derived_files import DerivedFile
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.verify import VerifyRunner, why_not_emulated
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.device_profiles import DeviceProfileQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.emulated_archs import emulated_device
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.profiles import KernelProfile, LineChange
from ckwatch.model.trials import Trial
from ckwatch.system.user_files import read_file
from ckwatch.wire.analysis import UnitProfile

if TYPE_CHECKING:
    from ckwatch.engine.queries.listings import IsaListings

FORMAT = 1
"""Changes with what is kept and how it is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProfile:
    """The lines of an artifact's kernels, and the texts of the templates among them, by path."""

    kernels: tuple[KernelProfile, ...]
    texts: dict[str, str]


@dataclass(eq=False)
class ProfileQueries:
    """`make_listings` is called in a thread: its modules take a while to load."""

    _loop: EngineLoop
    _tools: BuildTools
    _history: HistoryRecorder
    _lookup: UnitLookup
    _runner: VerifyRunner
    make_listings: Callable[[], IsaListings]
    _devices: DeviceProfileQueries

    async def profile(
        self, scope: str, unit: str, shape: str | None, *, lines: bool, against: str | None = None
    ) -> UnitProfile:
        """The profile of a unit's present artifact. Raises CkwatchError for a unit that is not built or not emulated, a
        shape that means none, a launch that cannot be executed, and a baseline that it is not in; so for the unit
        `against`."""
        state = await self._lookup.one(scope, unit)
        result = state.built
        if result is None:
            raise CkwatchError(f"'{unit}' is not built", "build it")
        on_device = await self._devices.kept(result)
        if on_device is not None and why_not_emulated(state.unit):
            return UnitProfile(
                unit=unit,
                artifact_key=result.key,
                device=on_device.device or on_device.source,
                shape=on_device.shape_name or "the launch",
                shape_name=on_device.shape_name or "the launch",
                kernels=on_device.executed,
                hints=on_device.hints,
                on_device=on_device,
            )
        is_earlier = against is None or against.partition(":")[0] in (PREVIOUS, BASELINE)
        earlier = await to_thread.run_sync(self._earlier, unit, result.artifact, against) if is_earlier else ()
        trial, launched = await self._runner.counted(state.unit, result, shape)
        if not launched.kernels:
            raise CkwatchError(f"'{unit}' was not executed: {launched.failure or 'it launched no kernel'}")
        listings = await to_thread.run_sync(self.make_listings)
        kernels = await listings.counted(state, launched, result, lines=lines)
        if is_earlier:
            changes = await self._changes(state, result, trial, kernels, earlier, keep=lines and not launched.failure)
        else:
            before = await self.profile(scope, await self._lookup.id_of(scope, against or ""), shape, lines=lines)
            against = before.unit
            changes = await to_thread.run_sync(changes_of, before.kernels, kernels)
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
            against="" if changes is None else against or "",
            changes=changes or (),
            on_device=on_device,
        )

    async def _changes(
        self,
        unit: UnitState,
        result: CompileFacts,
        trial: Trial,
        kernels: Sequence[KernelProfile],
        earlier: Sequence[str],
        *,
        keep: bool,
    ) -> tuple[LineChange, ...] | None:
        """Keep the profile, and return what is different from the first of the `earlier` artifacts that has one; None
        where none has."""
        overlays = dict(self._loop.state.views[unit.key.scope].overlays)
        file = _file_of(trial)

        def compared() -> tuple[LineChange, ...] | None:
            kept = _kept_of(kernels, overlays)
            if keep:
                file.keep(self._tools, result.artifact, kept, format=FORMAT)
            for artifact in earlier:
                before = file.value(file.read(self._tools, artifact), format=FORMAT)
                if before is not None:
                    return changes_of(before.kernels, kept.kernels, moved_lines(before.texts, kept.texts))
            return None

        return await to_thread.run_sync(compared)

    def _earlier(self, unit: str, artifact: str, against: str | None) -> Sequence[str]:
        """The artifacts to compare with. Raises CkwatchError for a baseline that has none of the unit; blocks."""
        artifacts, timings = self._history.artifacts, self._history.timings
        try:
            if against == PREVIOUS and artifacts is not None:
                return artifacts.others(unit, artifact)
            if against in (None, PREVIOUS) or timings is None:
                return ()
            return tuple(dict.fromkeys(one.artifact_key for one in baseline_timings(timings, unit, against)))
        except HistoryError:
            return ()


def _file_of(trial: Trial) -> DerivedFile[KeptProfile]:
    """Named by the shape alone: a problem knows parameters, which an edit may have changed."""
    name = hashlib.sha256(f"{trial.name} {trial.shape}".encode()).hexdigest()[:16]
    return DerivedFile(f"profile-{name}.json", KeptProfile)


def _kept_of(kernels: Sequence[KernelProfile], overlays: dict[str, str]) -> KeptProfile:
    """Blocks: it reads the templates that have no unsaved text."""
    return KeptProfile(
        kernels=tuple(replace(kernel, loops=(), stacks=(), chains=(), instructions=()) for kernel in kernels),
        texts=dict(_texts(kernels, overlays)),
    )


def _texts(kernels: Sequence[KernelProfile], overlays: dict[str, str]) -> Iterator[tuple[str, str]]:
    for path in sorted({line.path for kernel in kernels for line in kernel.lines if line.in_template}):
        try:
            yield path, overlays.get(path) or read_file(path).decode("utf-8", "replace")
        except OSError:
            continue
