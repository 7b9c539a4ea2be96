"""One unit's way from template to artifact, and many units side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio import CapacityLimiter, to_thread

from ckwatch.build.asking import compile_request
from ckwatch.build.report import BuildReport, Phase, UnitReport
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import CompileRequest
from ckwatch.config.workspace import Workspace
from ckwatch.errors import plain_errors
from ckwatch.model.diagnostic import Diagnostic, Severity
from ckwatch.model.kernel import Unit
from ckwatch.model.outcome import Outcome
from ckwatch.render.cache import RenderCache
from ckwatch.render.outcome import Rendered, RenderLimits, RenderOutcome
from ckwatch.render.process import RenderPool
from ckwatch.store.contents import Look

ReadLine = Callable[[str, int], str | None]
"""`read_line(path, line)`: a line of a file, counted from zero; None if there is none."""

OnPhase = Callable[[Unit, Phase], None]
OnReport = Callable[[UnitReport], None]


@dataclass(frozen=True, slots=True)
class Compiling:
    """What compiling needs; a pipeline without it only checks."""

    builder: Builder
    jobs: int
    force: bool = False
    header_warnings: bool = False
    renders: RenderCache | None = None


@dataclass(slots=True)
class Pipeline:
    """Builds units of one workspace.

    `overlays` (absolute path → text) replace template files. Without `rules` a bad instance is left to the compiler.
    """

    workspace: Workspace
    renderers: RenderPool
    read_line: ReadLine
    compiling: Compiling | None = None
    overlays: Mapping[str, str] = field(default_factory=dict)
    rules: bool = True
    _slots: CapacityLimiter = field(init=False)
    _look: Look | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._slots = CapacityLimiter(self.compiling.jobs if self.compiling else 1)
        if self.compiling is not None:
            # Headers are looked at once for all units, not once for each.
            self._look = self.compiling.builder.look()

    async def run(self, units: Sequence[Unit], on_phase: OnPhase, on_report: OnReport) -> BuildReport:
        """Build `units`; reports come as units end, and in the order of `units` in the result.

        All units are checked before the first compiler starts: mistakes that need no compiler show at once.
        """
        start = time.monotonic()
        reports: dict[str, UnitReport] = {}

        def ended(report: UnitReport) -> None:
            reports[report.unit.id] = report
            on_report(report)

        checked: list[UnitReport] = []
        for unit in units:
            on_phase(unit, Phase.RENDERING)
            report = await self.check(unit)
            on_phase(unit, Phase.CHECKED)
            if report.outcome is Outcome.CHECKED and self.compiling is not None:
                checked.append(report)
            else:
                ended(report)
        async with plain_errors(), anyio.create_task_group() as tasks:
            for report in checked:
                tasks.start_soon(self._compile_in_turn, report, on_phase, ended)
        ordered = tuple(reports[unit.id] for unit in units)
        return BuildReport(ordered, self.workspace.diagnostics, time.monotonic() - start)

    async def check(self, unit: Unit) -> UnitReport:
        """Render and check without a compiler."""
        start = time.monotonic()
        settings = self.workspace.settings.render
        limits = RenderLimits(settings.time_limit_s, settings.output_limit_bytes)
        outcome = await self._checked_before(unit) or await self._render_and_check(unit, limits)
        rendered = outcome.rendered
        diagnostics = outcome.diagnostics
        failed = rendered is None or any(d.severity is Severity.ERROR for d in diagnostics)
        return UnitReport(
            unit,
            Outcome.FAILED if failed else Outcome.CHECKED,
            diagnostics,
            rendered,
            seconds=time.monotonic() - start,
            reads=outcome.read,
            missed=outcome.missed,
        )

    @property
    def _renders(self) -> RenderCache | None:
        """Kept renders hold for files, and for units that passed all checks."""
        return self.compiling.renders if self.compiling and self.rules and not self.overlays else None

    async def _checked_before(self, unit: Unit) -> RenderOutcome | None:
        return None if self._renders is None else await to_thread.run_sync(self._renders.get, unit)

    async def _render_and_check(self, unit: Unit, limits: RenderLimits) -> RenderOutcome:
        from ckwatch.build.static_checks import static_checks

        outcome = await self.renderers.render(unit, limits, self.overlays)
        if outcome.rendered is not None:
            found = await to_thread.run_sync(partial(static_checks, unit, outcome.rendered, rules=self.rules))
            outcome = replace(outcome, diagnostics=(*outcome.diagnostics, *found))
        if self._renders is not None:
            await to_thread.run_sync(self._renders.put, unit, outcome)
        return outcome

    async def _compile_in_turn(self, checked: UnitReport, on_phase: OnPhase, ended: OnReport) -> None:
        async with self._slots:
            ended(await self.compile(checked, on_phase))

    async def compile(self, checked: UnitReport, on_phase: OnPhase) -> UnitReport:
        """Compile a unit that was checked, or take what the store has."""
        assert self.compiling is not None  # noqa: S101  # callers ask for compiling only then
        assert checked.rendered is not None  # noqa: S101
        start = time.monotonic()
        unit, rendered, compiling = checked.unit, checked.rendered, self.compiling
        result = await compiling.builder.build(
            self.request(unit, rendered),
            look=self._look,
            force=compiling.force,
            on_start=partial(on_phase, unit, Phase.COMPILING),
        )
        diagnostics: tuple[Diagnostic, ...] = ()
        if not result.ok or result.log.strip():
            # Most builds have nothing to say; what places messages is loaded when one has.
            from ckwatch.build.messages import placed

            diagnostics = await to_thread.run_sync(
                partial(placed, unit, rendered, result, self.read_line, header_warnings=compiling.header_warnings)
            )
        outcome = Outcome.BUILT if result.ok else Outcome.FAILED
        if result.fault is not None:
            outcome = Outcome.FAULTED
        on_phase(unit, Phase.DONE)
        return UnitReport(
            unit,
            outcome,
            (*checked.diagnostics, *diagnostics),
            rendered,
            result.artifact,
            result.key,
            result.from_store,
            checked.seconds + time.monotonic() - start,
            checked.reads,
            checked.missed,
        )

    def request(self, unit: Unit, rendered: Rendered) -> CompileRequest:
        """What the compiler is asked for."""
        return compile_request(self.workspace, unit, rendered)
