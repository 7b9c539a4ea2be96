"""The state of one unit in one view, grouped by what changes together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from ckwatch.bench.job import Race
from ckwatch.checks.other_toolchains import with_other_toolchains
from ckwatch.checks.verification_diagnostics import mistake_diagnostics, verification_diagnostics
from ckwatch.codeobject.report_diff import warning_diagnostics
from ckwatch.core import events
from ckwatch.core.effects import Verify
from ckwatch.core.phases import Phase
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake


@dataclass(frozen=True, slots=True)
class TimingRequest:
    """How a shape is to be timed."""

    requested: bool = False
    """A client asked for it, so that no budget counts."""
    force: bool = False
    """Measure again what the history has."""
    device: str | None = None
    """None: the workspace's choice."""
    race: Race | None = None
    """It competes with others."""
    flush_instructions: bool = False
    """Whatever the workspace's choice is."""
    failed_on: str = ""
    """The key of a device that could not be used for it."""


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """How the artifact is to be verified."""

    requested: bool = False
    """A client asked for it."""
    force: bool = False
    """Although the result is kept."""


@dataclass(frozen=True, slots=True)
class ToolchainRequest:
    """How the unit is to be checked with another toolchain."""

    toolchain: events.OtherToolchain
    build: bool = False
    """Compile it whole, instead of analyzing it only."""
    force: bool = False
    """Although the store has the result."""
    requested: bool = False
    """A client asked for it."""

    def joined(self, other: ToolchainRequest | None) -> ToolchainRequest:
        """Return the request for all that either asks for."""
        if other is None:
            return self
        return ToolchainRequest(
            self.toolchain, self.build or other.build, self.force or other.force, self.requested or other.requested
        )

    def is_served_by(self, other: ToolchainRequest) -> bool:
        """Return True if what was begun for `other` answers this one."""
        return self.build <= other.build and self.force <= other.force and self.toolchain == other.toolchain


NO_TIMINGS: Mapping[str, events.ShapeTiming] = MappingProxyType({})
NOTHING_TO_TIME: Mapping[str, TimingRequest] = MappingProxyType({})


@dataclass(slots=True)
class InputState:
    """Changes with each new input: an edit, a header, an option."""

    generation: int = 1
    """Counts the unit's inputs; work for an earlier one is void."""
    last_edit: int = 0
    """When it was last edited, in the order of `State.order`; 0 for never."""
    edited_since_render: bool = False
    """It was edited after its last good render."""


@dataclass(slots=True)
class DemandState:
    """Changes with what people want of the unit."""

    wanted: bool = False
    """Compile it without being asked, because it was edited or its artifact was lost."""
    paused: bool = False
    """It was cancelled: do not compile it until it is edited or asked for."""
    force: bool = False
    """Compile it although the store has the result."""


@dataclass(slots=True)
class RenderState:
    """Changes when a render begins or ends."""

    facts: events.RenderFacts | None = None
    """The last render, perhaps of an earlier input."""
    tokens: str = ""
    """The tokens of the last good render."""
    work: events.Work | None = None
    """The render of the present input, while it runs."""


@dataclass(slots=True)
class CompileState:
    """Changes with look-ups in the store and compilers."""

    result: events.CompileFacts | None = None
    """The last compile, perhaps of an earlier input."""
    reusable: bool = False
    """Equal tokens prove that `result` holds: no header, flag or compiler has changed since."""
    look_up: events.Work | None = None
    """The look-up for the present input, while it runs."""
    compiler: events.Work | None = None
    """The running compiler. It may have begun for an earlier input, or for an unsaved text, with the same tokens."""
    host_pass_done: bool = False
    """The host pass over the present tokens has ended, and the device pass has not; only in QUEUED and COMPILING."""
    live_diagnostics: tuple[Diagnostic, ...] = ()
    """The diagnostics that the compilers of the present input have reported so far."""
    not_on_farm: bool = False
    """The farm could not compile the present input."""
    waits_for: str = ""
    """The resource that the compiler waits for, while it runs."""


@dataclass(slots=True)
class TimingState:
    """Changes when shapes are to be timed, and with measurements."""

    by_shape: Mapping[str, events.ShapeTiming] = field(default_factory=lambda: NO_TIMINGS)
    """The last timing of each shape, of the present artifact or an earlier one."""
    requested: Mapping[str, TimingRequest] = field(default_factory=lambda: NOTHING_TO_TIME)
    """The shapes to be timed, in this order; the first is being timed while `work` is set."""
    work: events.Work | None = None
    """The running measurement."""
    untimed_because: str = ""
    """Why it was not timed although it was to be."""
    mistakes: tuple[ReferenceMistake, ...] = ()
    """Those of its reference, if that is why."""


@dataclass(slots=True)
class FigureState:
    """Changes with analyses of the code object."""

    latest: events.ArtifactFigures | None = None
    """The figures of the present artifact or an earlier one."""
    depth: events.AnalysisDepth | None = None
    """How far to analyze the present artifact; None when that is not needed."""
    work: events.Work | None = None
    """The running analysis."""
    unreadable_artifact: str = ""
    """The artifact whose analysis has found nothing."""


@dataclass(slots=True)
class VerificationState:
    """Changes when the artifact is to be verified, and with verifications."""

    latest: events.ArtifactVerification | None = None
    """The verification of the present artifact or an earlier one."""
    request: VerificationRequest | None = None
    """How to verify the present artifact; None when that is not needed."""
    work: events.Work | None = None
    """The running verification."""
    serving: Verify | None = None
    """As which it was begun."""
    unverified_because: str = ""
    """Why there is none although there was to be."""
    given_up_artifact: str = ""
    """The artifact that is not verified again without a request."""


@dataclass(slots=True)
class AdviceState:
    """Changes when the artifact needs advice, and with what is found."""

    latest: events.ArtifactAdvice | None = None
    """The advice on the present artifact or an earlier one."""
    wanted: bool = False
    """Advice on the present artifact is to be found."""
    requested: bool = False
    """A client asked for it."""
    work: events.Work | None = None
    """The running search."""
    given_up_artifact: str = ""
    """The artifact for which nothing could be found out."""


NO_OTHERS = events.ToolchainPolicy()
NO_CHECKS: Mapping[str, events.CheckWithFacts] = MappingProxyType({})
NOTHING_TO_CHECK: Mapping[str, ToolchainRequest] = MappingProxyType({})


@dataclass(slots=True)
class ToolchainState:
    """Changes when the unit is to be checked with other toolchains, and with what comes of it."""

    policy: events.ToolchainPolicy = NO_OTHERS
    """The workspace's: the errors with those toolchains are shown."""
    results: Mapping[str, events.CheckWithFacts] = field(default_factory=lambda: NO_CHECKS)
    """The last one with each toolchain, by its name, of the present text or an earlier one."""
    requested: Mapping[str, ToolchainRequest] = field(default_factory=lambda: NOTHING_TO_CHECK)
    """The work to do, by the toolchain's name."""
    work: events.Work | None = None
    """The running check."""
    serving: ToolchainRequest | None = None
    """As which it was begun."""
    given_up: str = ""
    """The basis on which nothing is checked without a request."""


@dataclass(slots=True)
class UnitState:
    """A unit in a view."""

    key: events.UnitKey
    unit: Unit
    """As the kernel file has it now."""
    cause: events.Cause
    """Why it is in its phase."""
    phase: Phase = Phase.WAITING
    """Changed by `phases.move` only."""
    published_files: frozenset[str] = frozenset()
    """The files in which its diagnostics were published."""
    input: InputState = field(default_factory=InputState)
    demand: DemandState = field(default_factory=DemandState)
    render: RenderState = field(default_factory=RenderState)
    compile: CompileState = field(default_factory=CompileState)
    timing: TimingState = field(default_factory=TimingState)
    figures: FigureState = field(default_factory=FigureState)
    verification: VerificationState = field(default_factory=VerificationState)
    advice: AdviceState = field(default_factory=AdviceState)
    profiled_at: float | None = None
    """When an artifact got a profile from a device last, since the daemon has started."""
    toolchains: ToolchainState = field(default_factory=ToolchainState)

    @property
    def settled(self) -> bool:
        """Return True if it needs no more work: what is known of it belongs to its present input."""
        return self.phase is Phase.DONE or self.phase is Phase.IDLE

    @property
    def unrendered(self) -> bool:
        """Return True if the render of its present input is due, or runs."""
        return self.phase is Phase.WAITING or self.phase is Phase.RENDERING

    @property
    def compile_has_begun(self) -> bool:
        """Return True if the present input is being compiled, also while the next of its compilers waits for its
        turn."""
        between = self.compile.host_pass_done or self.compile.not_on_farm
        return self.phase is Phase.COMPILING or (self.phase is Phase.QUEUED and between)

    @property
    def present_result(self) -> events.CompileFacts | None:
        """The result of the present input: every figure of another one is stale.

        None as long as it is not known, and where the input was refused before any compiler or was not compiled.
        """
        refused = self.render.facts is not None and not self.render.facts.ok
        return self.compile.result if self.phase is Phase.DONE and not refused else None

    @property
    def built(self) -> events.CompileFacts | None:
        """The result of the present input where it is an artifact, None where it is none or not known."""
        result = self.present_result
        return result if result is not None and result.outcome is Outcome.BUILT else None

    @property
    def outcome(self) -> Outcome | None:
        """The last known outcome of the unit; of an earlier input unless it is settled."""
        render, result = self.render.facts, self.compile.result
        if render is not None and not render.ok:
            return Outcome.SKIPPED if render.skipped else Outcome.FAILED
        if self.phase is Phase.IDLE:
            return Outcome.CHECKED
        return None if result is None else result.outcome

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The messages to show; those of the compiler only where rendering went well, and the hint of what only it
        checks not where it finds errors."""
        render, result, live = self.render.facts, self.compile.result, self.compile.live_diagnostics
        found = () if render is None else render.diagnostics
        failed = render is not None and not render.ok
        if failed:
            return found
        compiled = live or (() if self.phase is Phase.IDLE or result is None else result.diagnostics)
        if any(one.severity is Severity.ERROR for one in compiled):
            found = tuple(one for one in found if one.code != "rule/not-checked")
        if live:
            return (*found, *live)
        if self.phase is Phase.IDLE or result is None:
            return found
        known = (*self._figure_diagnostics, *self._timing_diagnostics, *self._verification_diagnostics)
        return (*found, *self._compiler_diagnostics(result), *known, *self.advice_diagnostics)

    def _compiler_diagnostics(self, result: events.CompileFacts) -> tuple[Diagnostic, ...]:
        """The compiler's messages with the errors that other toolchains have: at places of the present text, or of the
        one that this result is of while the unit is at work."""
        now = self.toolchains
        if not now.results or not now.policy.others:
            return result.diagnostics
        known: dict[str, tuple[Diagnostic, ...] | None] = {}
        for name in (one.name for one in now.policy.others):
            found = now.results.get(name)
            shown = found is not None and (self.holds(found) if self.settled else found.basis == result.artifact)
            known[name] = found.diagnostics if found and shown and found.outcome is not Outcome.FAULTED else None
        own = None if result.outcome is Outcome.FAULTED else now.policy.main
        return with_other_toolchains(result.diagnostics, own, known)

    @property
    def basis(self) -> str:
        """The artifact or failure of the present input; without one, the input itself."""
        result = self.present_result
        return str(self.input.generation) if result is None else result.artifact

    def holds(self, found: events.CheckWithFacts) -> bool:
        """Return True if this is what the toolchain would say now, at places of the present text."""
        placed = not found.diagnostics or found.generation == self.input.generation
        return placed and found.basis == self.basis

    def with_toolchain(self, toolchain: events.OtherToolchain) -> events.CheckWithFacts | None:
        """The result with a toolchain, if it holds for the present input."""
        known = self.toolchains.results.get(toolchain.name)
        holds = known is not None and known.toolchain == toolchain and self.settled and self.holds(known)
        return known if holds and known is not None and not known.is_outdated else None

    def is_at_work(self, work: events.Work) -> bool:
        """Return True if this is the unit's render, look-up or compiler."""
        return self.render.work is work or self.compile.look_up is work or self.compile.compiler is work

    def has_built(self, artifact: str) -> bool:
        """Return True if this still is the unit's artifact, as far as is known."""
        result, render = self.compile.result, self.render.facts
        if result is None or result.artifact != artifact or result.outcome is not Outcome.BUILT:
            return False
        if not self.compile.reusable:
            return False
        return self.unrendered or (render is not None and render.tokens == result.tokens)

    def inherit(self, main: UnitState) -> None:
        """Show what the workspace's state of the unit shows, until there are results of its own."""
        self.render.facts, self.render.tokens = main.render.facts, main.render.tokens
        self.compile.result = main.compile.result
        self.timing.by_shape = main.timing.by_shape
        self.figures.latest = main.figures.latest
        self.figures.unreadable_artifact = main.figures.unreadable_artifact
        self.verification.latest = main.verification.latest
        self.advice.latest = main.advice.latest
        self.toolchains.policy, self.toolchains.results = main.toolchains.policy, main.toolchains.results

    @property
    def _figure_diagnostics(self) -> tuple[Diagnostic, ...]:
        """The warnings of the last artifact's code object, at the instance wherever it stands now."""
        figures, result = self.figures.latest, self.compile.result
        if figures is None or not figures.warned or result is None or figures.artifact != result.artifact:
            return ()
        span = self.unit.instance.span
        return warning_diagnostics(figures.warned, unit=self.unit.id, span=span, source=Source.PERFORMANCE)

    @property
    def _timing_diagnostics(self) -> tuple[Diagnostic, ...]:
        """The warnings of the last artifact's timings, and mistakes of the reference that no verification shows."""
        timings, result, verified = self.timing.by_shape, self.compile.result, self.verification.latest
        if result is None:
            return ()
        of_timings = tuple(
            one for timing in timings.values() if timing.artifact == result.artifact for one in timing.diagnostics
        )
        if verified is not None and verified.artifact == result.artifact and verified.verification.reference_mistakes:
            return of_timings
        return of_timings + mistake_diagnostics(self.timing.mistakes, self.unit.id, self.unit.instance.span)

    @property
    def has_placed_findings(self) -> bool:
        """Return True if the places of the last verification belong to the present text."""
        latest = self.verification.latest
        return latest is not None and (latest.key, latest.generation) == (self.key, self.input.generation)

    @property
    def has_placed_advice(self) -> bool:
        """Return True if the last advice is on the present artifact, at places of the present text."""
        latest, result = self.advice.latest, self.compile.result
        if latest is None or result is None or latest.artifact != result.artifact:
            return False
        return (latest.key, latest.generation) == (self.key, self.input.generation)

    @property
    def advice_diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the advice on the last artifact where its places are those of the present text, or the unit is at
        work."""
        latest, result = self.advice.latest, self.compile.result
        if latest is None or result is None or latest.artifact != result.artifact:
            return ()
        return latest.diagnostics if self.has_placed_advice or not self.settled else ()

    @property
    def _verification_diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the findings of the verification of the last artifact, at the instance wherever it stands now; at
        lines of templates only if they are those of the present text, or the unit is at work."""
        latest, result = self.verification.latest, self.compile.result
        if latest is None or result is None or latest.artifact != result.artifact:
            return ()
        placed = self.has_placed_findings or not self.settled
        return verification_diagnostics(latest.verification, self.unit.id, self.unit.instance.span, placed=placed)
