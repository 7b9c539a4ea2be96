"""The figures of units: what their artifacts tell, as against the artifact before and the baseline."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anyio import to_thread

from ckwatch.analysis.arch_limits import limits_of
from ckwatch.analysis.change import Warned, changes, matched, warnings_of
from ckwatch.analysis.prediction import main_kernel
from ckwatch.analysis.report import CodeObjectReport, KernelReport
from ckwatch.analysis.summary import headline
from ckwatch.compile.request import ProductKind
from ckwatch.effects import Analyze
from ckwatch.events import MAIN, Analyzed, ArtifactFigures, Depth
from ckwatch.history import Artifacts, HistoryError
from ckwatch.runtime.memoirs import Memoirs
from ckwatch.runtime.reports import Reports, made_by


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a unit's artifact is compared with; None where there is nothing, or it was evicted."""

    previous: CodeObjectReport | None = None
    baseline: CodeObjectReport | None = None
    baseline_name: str = ""


class Insights:
    """Looks into what units compiled to, and remembers it in the history."""

    def __init__(self, reports: Reports, memoirs: Memoirs) -> None:
        self.reports = reports
        self._memoirs = memoirs

    async def analyze(self, effect: Analyze) -> Analyzed:
        """The figures of a unit's artifact; none where nothing is kept, or nothing can be told.

        Raises CkwatchError where no tools are there.
        """
        result = effect.result
        if effect.depth is Depth.KEPT:
            report = await self.reports.kept(result.artifact)
        else:
            path = Path(result.products[ProductKind.CODE_OBJECT.value])
            report = await self.reports.of(result.artifact, path, effect.unit.arch)
        if report is None:
            return Analyzed(effect.work, None, at=time.time())
        earlier = await self.earlier(effect.unit.id, result.artifact, effect.unit.arch, effect.before)
        figures = await to_thread.run_sync(figures_of, result.artifact, report, earlier)
        if figures is not None and effect.work.key.scope == MAIN and self.reports.holds(result.artifact):
            await self._record(effect.unit.id, figures)
        return Analyzed(effect.work, figures, at=time.time())

    async def earlier(self, unit: str, artifact: str, arch: str, before: str = "") -> Earlier:
        """What the artifact is compared with. `before` counts where the history knows of none before."""
        known, baseline = await to_thread.run_sync(self._keys, unit, artifact)
        previous = known or (before if before != artifact else "")
        return Earlier(
            await self.reports.past(previous, arch) if previous else None,
            await self.reports.past(baseline[1], arch) if baseline is not None else None,
            "" if baseline is None else baseline[0],
        )

    def _keys(self, unit: str, artifact: str) -> tuple[str | None, tuple[str, str] | None]:
        artifacts, timings = self._memoirs.artifacts, self._memoirs.timings
        if artifacts is None or timings is None:
            return None, None
        try:
            return artifacts.before(unit, artifact), timings.baseline_artifact(unit)
        except HistoryError:
            return None, None  # the user is told of a history that cannot be used

    async def _record(self, unit: str, figures: ArtifactFigures) -> None:
        artifacts = self._memoirs.artifacts
        if artifacts is not None:
            with suppress(HistoryError):
                await to_thread.run_sync(_add, artifacts, unit, figures)


def figures_of(artifact: str, report: CodeObjectReport, earlier: Earlier) -> ArtifactFigures | None:
    """The figures of the kernel that does the work; None for a code object in which nothing could be read.

    `shown` is JSON: the fields of `ckwatch.wire.values.Figures` but for those that tell how they stand.
    """
    kernel = main_kernel(report)
    if kernel is None:
        return None
    resources, occupancy, loop = kernel.resources, kernel.occupancy, kernel.loop
    limits = limits_of(report.arch)
    shown: dict[str, Any] = {
        "kernel": resources.name,
        "kernels": len(report.kernels),
        "vgprs": resources.vgprs,
        "agprs": resources.agprs,
        "sgprs": resources.sgprs,
        "vgpr_spills": resources.vgpr_spills,
        "sgpr_spills": resources.sgpr_spills,
        "scratch_bytes": resources.scratch_bytes,
        "lds_bytes": resources.lds_bytes,
        "occupancy": None if occupancy is None else occupancy.waves_per_simd,
        "limited_by": "" if occupancy is None else occupancy.limited_by.value,
        "next_step": "" if occupancy is None else occupancy.next_step,
        "matrix_use": None if loop is None else loop.matrix_use,
        "loop_cycles": None if loop is None else loop.cycles,
        "changes": _changes(earlier.previous, report, kernel),
        "baseline_changes": _changes(earlier.baseline, report, kernel),
        "headline": headline(report),
    }
    warned = warnings_of(report, earlier.previous, None if limits is None else limits.workgroup_lds_bytes)
    return ArtifactFigures(artifact, json.dumps(shown, separators=(",", ":")).encode(), warned)


def _changes(before: CodeObjectReport | None, now: CodeObjectReport, kernel: KernelReport) -> list[str]:
    old = None if before is None else next((old for old, each in matched(before, now) if each is kernel), None)
    return [] if old is None else changes(old, kernel)


def _add(artifacts: Artifacts, unit: str, figures: ArtifactFigures) -> None:
    assert isinstance(figures.shown, bytes)  # noqa: S101  # `figures_of` has made it
    content = {"shown": figures.shown.decode(), "warned": [asdict(one) for one in figures.warned]}
    artifacts.add(unit, figures.artifact, time.time(), json.dumps(content), form=made_by())


def remembered_figures(units: Iterable[str], artifacts: Artifacts) -> dict[str, ArtifactFigures]:
    """The figures that each unit had last; for a thread. Nothing where the history cannot be read."""
    found: dict[str, ArtifactFigures] = {}
    try:
        for unit, (artifact, content) in artifacts.latest(units, form=made_by()).items():
            known = json.loads(content)
            warned = tuple(Warned(**one) for one in known["warned"])
            found[unit] = ArtifactFigures(artifact, known["shown"].encode(), warned)
    except (HistoryError, ValueError, KeyError, TypeError):
        return found  # the user is told of a history that is damaged; figures are looked up again
    return found
