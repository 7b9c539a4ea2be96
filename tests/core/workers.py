"""Outcome of a piece of work, by the files at any time since it began."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ckwatch.codeobject.report_diff import KernelWarning
from ckwatch.core.effects import (
    Advise,
    Analyze,
    Check,
    CheckWith,
    Compile,
    Load,
    LookUp,
    Measure,
    Recall,
    Record,
    Render,
    Scan,
    Verify,
    WorkEffect,
)
from ckwatch.core.events import (
    MAIN,
    AdviseFinished,
    AnalysisDepth,
    AnalyzeFinished,
    AnyEvent,
    ArtifactAdvice,
    ArtifactFigures,
    ArtifactVerification,
    CheckFinished,
    CheckWithFacts,
    CheckWithFinished,
    CompileFacts,
    CompileFinished,
    FarmFailed,
    HeaderFacts,
    LoadedWorkspace,
    LoadFinished,
    LookUpFinished,
    MeasureFinished,
    RecalledUnit,
    RecallFinished,
    RecordFinished,
    RenderFinished,
    ScanFinished,
    ShapeTiming,
    UnitKey,
    VerifyFinished,
    ViewOverrides,
    WorkAborted,
)
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.model.text import span
from ckwatch.model.verification import (
    EmulatedFinding,
    FindingKind,
    ProblemOutcome,
    Verification,
    VerificationDepth,
    VerifiedProblem,
)
from core.disk import Disk, over
from core.language import Read, Text, compile_text, render
from fakes.fake_engine import figures_of

SPILLS = "p=5"
"""An artifact with this in its key has a spill."""


@dataclass(slots=True)
class Outstanding:
    """A work that has not been answered.

    `version` is the disk's when it began, `known` and `disputed` what the graph knew of the files then, `workspace` the
    one that was loaded.
    """

    effect: WorkEffect
    version: int
    known: dict[str, str | None]
    disputed: frozenset[str]
    workspace: LoadedWorkspace | None
    cancelled: bool = False


def header_with(toolchain: str) -> str:
    """The header that compiles with another toolchain read."""
    return f"/{toolchain}/ck"


class Workers:
    """All workers, and what they keep: rendered texts, loaded workspaces, and the store.

    `compiled` are the units for which a compiler ran to its end; `not_found` the units and generations of which the
    store had nothing; `kept` the artifacts whose figures are on disk, `executed` those that the emulator has executed.
    `contrary`: no verification is what was asked for, however often it is.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.texts: dict[UnitKey, tuple[int, Text]] = {}
        self.workspaces: dict[str, LoadedWorkspace] = {}
        self.store: dict[tuple[str, ...], set[str]] = {}
        self.compiled: list[UnitKey] = []
        self.not_found: set[tuple[UnitKey, int]] = set()
        self.kept: set[str] = set()
        self.executed: set[str] = set()
        self.contrary = False

    def end(self, one: Outstanding, seed: int) -> AnyEvent:
        """The event in which a work ends that is neither cancelled nor breaks down."""
        read = self.disk.reader(one.version, seed)
        effect = one.effect
        match effect:
            case Load():
                workspace = self.disk.workspace(read, effect.overlays, effect.options.archs)
                if workspace is None:
                    return LoadFinished(effect.work, None, "there is no ckwatch.toml")
                self.workspaces[effect.work.key.scope] = workspace
                return LoadFinished(effect.work, workspace)
            case Scan():
                now = {path: read(path) for path in one.known}
                changed = {path: text for path, text in now.items() if path in one.disputed or text != one.known[path]}
                return ScanFinished(effect.work, changed)
            case Recall():
                return RecallFinished(effect.work, self._recalled(effect, read, seed))
            case Render():
                facts, text = render(over(read, effect.overlays), effect.unit, effect.options)
                if text is not None:
                    self.texts[effect.work.key] = (effect.work.generation, text)
                return RenderFinished(effect.work, facts)
            case Record():
                return RecordFinished(effect.work)
            case Analyze():
                artifact = effect.result.artifact
                if seed % 7 == 5 or (effect.depth is AnalysisDepth.KEPT and artifact not in self.kept):
                    return AnalyzeFinished(effect.work, None)
                self.kept.add(artifact)
                return AnalyzeFinished(effect.work, figures(artifact))
            case Measure():
                device = "" if effect.place is None else effect.place.address
                if seed % 7 == 6:
                    return MeasureFinished(effect.work, None, "no device", device)
                timing = ShapeTiming(effect.shape, effect.result.artifact, (), seconds=1.0, device=device)
                return MeasureFinished(effect.work, timing)
            case Verify():
                if seed % 7 == 6:
                    return VerifyFinished(effect.work, None, "no emulator")
                found = verified(effect)
                if self.contrary:
                    other = replace(found.verification, depth=VerificationDepth.ESSENTIAL, checked=not effect.checked)
                    return VerifyFinished(effect.work, replace(found, verification=other, generation=0))
                if effect.result.artifact not in self.executed:  # places are found the next time
                    self.executed.add(effect.result.artifact)
                    found = replace(found, generation=0)
                return VerifyFinished(effect.work, found)
            case Advise():
                return AdviseFinished(effect.work, None if seed % 7 == 6 else advice(effect))
            case CheckWith():
                return CheckWithFinished(effect.work, self.with_toolchain(one, effect, read))
            case Check():
                return CheckFinished(effect.work, self.reported(one, effect, read))
            case Compile(on_farm=True) if seed % 5 == 3:
                return FarmFailed(effect.work, "a worker died")
            case LookUp() | Compile():
                return self._built(one, effect, read, seed)

    def _recalled(self, effect: Recall, read: Read, seed: int) -> dict[str, RecalledUnit]:
        """An earlier daemon has built all units of the files as they are read now, or with a seed some of them."""
        found = {}
        for number, unit in enumerate(effect.units):
            facts, text = render(read, unit, ViewOverrides())
            if text is None or facts.diagnostics or (seed + number) % 5 == 3:
                continue
            made = compile_text(read, text, unit, effect.settings, ViewOverrides())
            assert made.headers is not None
            if made.outcome is not Outcome.BUILT or made.diagnostics or not made.without_output:
                continue
            self.store.setdefault(_first_key(text, unit, effect.settings), set()).add(made.headers.name)
            found[unit.id] = RecalledUnit(unit, facts, replace(made, from_store=True))
        return found

    def with_toolchain(self, one: Outstanding, effect: CheckWith, read: Read) -> CheckWithFacts:
        """The outcome of a check: a compiler whose name begins with `old` knows no token 7, and each reads a header of
        its own."""
        _, text = render(over(read, effect.overlays), effect.unit, effect.options)
        if text is None or one.workspace is None:
            return CheckWithFacts(Outcome.FAILED)
        path = header_with(effect.toolchain.name)
        header = read(path)
        made = compile_text(read, text, effect.unit, one.workspace.settings, effect.options)
        errors = tuple(found for found in made.diagnostics if found.severity is Severity.ERROR)
        if effect.toolchain.name.startswith("old") and "7" in text.tokens.split():
            errors = (*errors, Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", "no member named '7'", text.place))
        if header == "fail":
            errors = (*errors, Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", f"{path} fails", text.place))
        passed = Outcome.BUILT if effect.build else Outcome.CHECKED
        reads = {path: header} if header is not None else {}
        depends_on = HeaderFacts(f"{header}", reads, frozenset() if reads else frozenset({path}))
        return CheckWithFacts(Outcome.FAILED if errors else passed, errors, depends_on=depends_on)

    def reported(self, one: Outstanding, effect: Check | Compile, read: Read) -> tuple[Diagnostic, ...]:
        """Return the errors that the compiler of the effect reports before its end."""
        kept = self.texts.get(effect.work.key)
        workspace = one.workspace
        if kept is None or kept[0] != effect.work.generation or kept[1].tokens != effect.work.tokens:
            return ()
        if workspace is None:
            return ()
        made = compile_text(read, kept[1], effect.unit, workspace.settings, effect.options)
        return made.diagnostics if made.outcome is Outcome.FAILED else ()

    def lose(self, artifacts: Collection[str]) -> None:
        """The store does not have these any more."""
        for (tokens, arch, flags, settings), headers in self.store.items():
            key = f"{tokens} | {arch} {flags} {settings}"
            headers -= {name for name in headers if f"{key} | {name}.{name}" in artifacts}
        self.kept -= {*artifacts}

    def loaded(self, scope: str) -> LoadedWorkspace | None:
        """The workspace that was last loaded for the scope, or for all."""
        return self.workspaces.get(scope) or self.workspaces.get(MAIN)

    def _built(self, one: Outstanding, effect: LookUp | Compile, read: Read, seed: int) -> AnyEvent:
        work = effect.work
        now = self.loaded(work.key.scope)
        workspace = one.workspace if seed % 2 and one.workspace is not None else now
        if workspace is None or workspace.toolchain_problem is not None:
            return WorkAborted(work, "no compiler")
        kept = self.texts.get(work.key)
        # Texts are not kept for ever: some are rendered again.
        text = kept[1] if kept is not None and kept[0] == work.generation and seed % 5 != 4 else None
        if text is None:
            _, text = render(over(read, effect.overlays), effect.unit, effect.options)
        looks = isinstance(effect, LookUp)
        if text is None or text.tokens != work.tokens:
            if looks:
                self.not_found.add((work.key, work.generation))
                return LookUpFinished(work, None)
            return CompileFinished(work, CompileFacts(Outcome.FAULTED, work.tokens))
        made = compile_text(read, text, effect.unit, workspace.settings, effect.options)
        assert made.headers is not None
        first = _first_key(text, effect.unit, workspace.settings)
        headers, found = self.store.setdefault(first, set()), made.headers.name
        if found in headers and not (isinstance(effect, Compile) and effect.force):
            made = replace(made, from_store=True)
            return LookUpFinished(work, made) if looks else CompileFinished(work, made)
        if looks:
            self.not_found.add((work.key, work.generation))
            return LookUpFinished(work, None)
        self.compiled.append(work.key)
        headers.add(found)
        return CompileFinished(work, made)


def _first_key(text: Text, unit: Unit, settings: str) -> tuple[str, ...]:
    return (text.tokens, unit.arch, str(unit.kernel.flags), settings)


def figures(artifact: str) -> ArtifactFigures:
    """The figures of an artifact."""
    spill = KernelWarning(code="performance/spill", message="1 VGPR spilled", kernel="k")
    spills = SPILLS in artifact
    return ArtifactFigures(figures_of(artifact_key=artifact), (spill,) if spills else (), need=int(spills))


def advice(effect: Advise) -> ArtifactAdvice:
    """The advice on an artifact with spills."""
    place = span("/ws/templates/m1", 0, 0, 0, 5)
    hint = Diagnostic(Severity.INFORMATION, Source.PERFORMANCE, "performance/launch-bounds", "1 VGPR spilled", place)
    return ArtifactAdvice(effect.result.artifact, effect.work.key, effect.work.generation, (hint,))


def verified(effect: Verify) -> ArtifactVerification:
    """The verification of an artifact: one with spills has a race."""
    artifact = effect.result.artifact
    race = EmulatedFinding(
        kind=FindingKind.LDS_RACE, message="reads what another wave writes", problem="exact", kernel="k",
        workgroup=(0, 0, 0), wave=1, lane=3, instruction="ds_read_b32 v0, v1", code_address=64,
        place=span("/ws/templates/m1", 0, 0, 0, 5),
    )  # fmt: skip
    found = Verification(
        device="emulated:gfx942",
        problems=(VerifiedProblem(name="exact", shape="M=64", outcome=ProblemOutcome.RIGHT),),
        findings=(race,) if SPILLS in artifact else (),
        checked=effect.checked,
        depth=VerificationDepth.THOROUGH if effect.awaited else VerificationDepth.ESSENTIAL,
    )
    return ArtifactVerification(artifact, found, effect.work.key, effect.work.generation, effect.unit.kernel)
