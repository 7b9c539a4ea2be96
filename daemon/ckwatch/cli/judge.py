"""`ckwatch judge CANDIDATE --against REFERENCE`: whether a kernel may take another's place, and why not."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.code_file_profile import launch_profile
from ckwatch.cli.code_file_verification import described, emulator_of
from ckwatch.cli.code_files import opened
from ckwatch.cli.command_words import code_path
from ckwatch.cli.mistakes import explained, report_unbuilt
from ckwatch.cli.output import VERDICT_STYLES, Output
from ckwatch.cli.session import asking, one_unit
from ckwatch.model.amounts import count
from ckwatch.model.emulated_archs import EMULATED_ARCHS, emulated_device
from ckwatch.model.errors import CkwatchError
from ckwatch.model.judgements import JudgedAs, Judgement, SpeedBasis, SpeedRow
from ckwatch.model.verification import ProblemOutcome, Verification
from ckwatch.verification.code_launches import CodeLaunch, verify_launch
from ckwatch.verification.judging import (
    Party,
    estimated_row,
    judged,
    judged_trials,
    subject_of,
    with_reason,
    with_speed,
)
from ckwatch.verification.problems import OWN_SHAPE, SEED_BITS

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.client import Client
    from ckwatch.wire.analysis import UnitProfile
    from ckwatch.wire.state import Unit
    from ckwatch.wire.verification import VerifyLine

STATUS = {JudgedAs.ACCEPTED: 0, JudgedAs.REFUSED: 1, JudgedAs.NOT_JUDGED: 2}
MARKS = {JudgedAs.ACCEPTED: ("✓", "green"), JudgedAs.REFUSED: ("✗", "red"), JudgedAs.NOT_JUDGED: ("?", "yellow")}
_BY = {
    SpeedBasis.TIMINGS: "timed",
    SpeedBasis.PREDICTION: "predicted, not timed",
    SpeedBasis.PROFILE: "estimated from counted instructions, not timed",
}


async def run(options: argparse.Namespace) -> int:
    """Judge a unit against another, or the kernel of a file against that of another file: 0 if it is accepted, 1 if it
    is refused, 2 if nothing can be said. Raises CkwatchError for words and options that do not go together."""
    seed = secrets.randbits(SEED_BITS) if options.seed is None else options.seed
    words = (options.candidate, options.against)
    candidate, reference = [await to_thread.run_sync(code_path, word) for word in words]
    if candidate is not None and reference is not None:
        return await _judge_files(candidate, reference, seed, options)
    if candidate is not None or reference is not None:
        raise CkwatchError("a unit is judged against a unit, and a file against a file", "name two of a kind")
    if unfit := next(
        (name for name in ("args", "against_args", "of_arch") if getattr(options, name) is not None), None
    ):
        option = {"of_arch": "--arch"}.get(unfit, f"--{unfit.replace('_', '-')}")
        raise CkwatchError(f"{option} is for files with code objects", "`ckwatch judge FILE --against FILE --args …`")
    async with asking(options) as client:
        names = (await one_unit(client, words[0]), await one_unit(client, words[1]))
        if names[0] == names[1]:
            raise CkwatchError(f"'{names[0]}' cannot be judged against itself", "name another unit after --against")
        return await _UnitJudging(client, Output(options, client.root), options, names, seed).run()


class _UnitJudging:
    """Two units, the candidate first."""

    def __init__(
        self, client: Client, output: Output, options: argparse.Namespace, names: tuple[str, str], seed: int
    ) -> None:
        self._client = client
        self._output = output
        self._device: str | None = options.device
        self._right_only: bool = options.right_only
        self._names = names
        self._seed = seed
        self._found: dict[str, Verification] = {}
        self._why_not: dict[str, str] = {}
        self._broken: list[str] = []

    async def run(self) -> int:
        """Print the judgement; the exit status."""
        self._output.answer(event="start", candidate=self._names[0], reference=self._names[1], seed=self._seed)
        verifying = self._client.verifying(*self._names, against=self._names[1], seed=self._seed)
        with self._output.working("building") as show:
            async with explained(self._client, *self._names), verifying as lines:
                async for line in lines:
                    self._take(line, show)
            units = {one.id: one for one in await self._client.units(*self._names)}
            candidate, reference = (Party(unit=name, place=units[name].place) for name in self._names)
            ours, theirs = (self._found.get(name) for name in self._names)
            if ours is None or theirs is None:
                await report_unbuilt(self._client, self._output, self._broken)
                result = self._not_executed(candidate if ours is None else reference)
            else:
                result = judged(candidate, reference, self._seed, ours, theirs)
                if result.verdict is JudgedAs.ACCEPTED and not self._right_only:
                    result = await self._with_speed(result, candidate, _shapes_of(theirs, units), show)
        return _shown(self._output, result, ours)

    def _not_executed(self, party: Party) -> Judgement:
        candidate, reference = self._names
        verdict = JudgedAs.REFUSED if candidate in self._broken else JudgedAs.NOT_JUDGED
        result = Judgement(candidate=candidate, reference=reference, seed=self._seed, verdict=verdict)
        text = f"{party.unit}: {self._why_not.get(party.unit, 'it is no longer there')}"
        return with_reason(result, verdict, party, "judge/not-built", text)

    def _take(self, line: VerifyLine, show: Callable[[str], None]) -> None:
        if line.event == "stage":
            self._stage(line.unit or "", line.text, show)
        elif line.event == "unit" and line.unit is not None and line.result is not None:
            if line.result.verification is not None:
                self._found[line.unit] = line.result.verification
            self._why_not[line.unit] = line.text or line.result.summary
            if line.outcome == "failed":
                self._broken.append(line.unit)

    def _stage(self, unit: str, text: str, show: Callable[[str], None]) -> None:
        show(f"{unit}  {text}")
        self._output.event("stage", unit=unit, text=text)

    async def _with_speed(
        self, result: Judgement, candidate: Party, shapes: Sequence[str], show: Callable[[str], None]
    ) -> Judgement:
        """By timings where there is a device, else by predictions, else by what is counted."""
        arch = candidate.unit.rpartition("@")[2]
        device = self._device
        if device is None:
            found = (await self._client.devices()).devices
            device = next((one.address for one in found if one.arch.partition(":")[0] == arch), None)
        if device is not None:
            rows, why_not = await self._timed(device, shapes, show)
            return with_speed(result, candidate, SpeedBasis.TIMINGS, device, rows, why_not)
        rows = [row for shape in shapes if (row := await self._predicted(shape)) is not None]
        if rows:
            return with_speed(result, candidate, SpeedBasis.PREDICTION, "", rows)
        counted, why_not = list[SpeedRow](), "the reference's kernel file has no shape"
        for shape in shapes:
            self._stage(candidate.unit, f"counting {shape}", show)
            try:
                ours, theirs = [await self._client.profile(one, shape, lines=False) for one in self._names]
                counted.append(_by_cycles(shape, ours, theirs))
            except CkwatchError as error:
                why_not = error.message
        return with_speed(result, candidate, SpeedBasis.PROFILE, arch, counted, why_not)

    async def _timed(
        self, device: str, shapes: Sequence[str], show: Callable[[str], None]
    ) -> tuple[list[SpeedRow], str]:
        async with self._client.bench(*self._names, shapes=shapes, device=device) as lines:
            async for line in lines:
                if line.event == "stage":
                    self._stage(line.unit or "", f"{line.shape}: {line.text}", show)
        compared = [row for shape in shapes for row in await self._client.compare(*self._names, shape=shape)]
        rows = [
            SpeedRow(shape=row.shape, cache=row.cache, verdict=row.comparison.verdict, ratio=row.comparison.ratio)
            for row in compared
            if row.comparison is not None
        ]
        failed = next((row.why_not for row in compared if row.comparison is None), "nothing was timed")
        return ([], failed) if len(rows) < len(compared) else (rows, failed)

    async def _predicted(self, shape: str) -> SpeedRow | None:
        times = []
        for name in self._names:
            kernel, _, rest = name.partition("/")
            instance, _, arch = rest.rpartition("@")
            try:
                found = await self._client.predicted(kernel, shape, arch=arch)
            except CkwatchError:  # it has none
                return None
            times += [one.prediction.time_us for one in found.rows if one.name == instance]
        ours, theirs = times if len(times) == 2 else (None, None)
        return None if ours is None or theirs is None else estimated_row(shape, ours, theirs)


def _shapes_of(found: Verification, units: Mapping[str, Unit]) -> list[str]:
    """The shapes of the reference's kernel file that it computes, by their names where both units are of that file:
    another file may call others so."""
    same = len({one.kernel for one in units.values()}) == 1
    own = [one for one in found.problems if one.name.startswith(OWN_SHAPE) and one.outcome is ProblemOutcome.RIGHT]
    return [one.name.removeprefix(OWN_SHAPE) if same else one.shape.replace(" ", ",") for one in own]


def _by_cycles(shape: str, ours: UnitProfile, theirs: UnitProfile) -> SpeedRow:
    """Raises CkwatchError where a launch did not end as it should."""
    for one in (ours, theirs):
        if one.failure:
            raise CkwatchError(f"{one.unit}: {one.failure}")
    has_cycles = all(kernel.total.cycles is not None for one in (ours, theirs) for kernel in one.kernels)

    def cost(profile: UnitProfile) -> float:
        found = 0.0
        for kernel in profile.kernels:
            cycles = kernel.total.cycles if has_cycles else None
            own = kernel.total.counts.issued if cycles is None else cycles.total
            found += own * kernel.all_workgroups / max(kernel.workgroups, 1)
        return found

    return estimated_row(shape, cost(ours), max(cost(theirs), 1.0))


async def _judge_files(candidate: Path, reference: Path, seed: int, options: argparse.Namespace) -> int:
    """Judge the kernel that `--args` describes against that of the other file, which `--against-args` may describe."""
    if options.device is not None:
        raise CkwatchError("--device is for units, and these are files")
    if options.args is None:
        raise CkwatchError(
            "a file does not say how its kernel is launched: --args is missing",
            f"`ckwatch verify {candidate} --write-args args.toml` writes a description to begin with",
        )
    other = argparse.Namespace(**vars(options) | {"args": options.against_args or options.args})
    ours = await _launch(candidate, options)
    theirs = await _launch(reference, other, ours.code.arch)
    names = (ours.unit.id, theirs.unit.id)
    if names[0] == names[1]:  # files of one name
        ours, theirs = _apart(ours, str(candidate)), _apart(theirs, str(reference))
        names = (ours.unit.id, theirs.unit.id)
    output = Output(options)
    output.answer(event="start", candidate=names[0], reference=names[1], seed=seed)
    trials = await to_thread.run_sync(judged_trials, (ours.unit, theirs.unit), theirs.unit, seed)
    subject = replace(ours, unit=subject_of(ours.unit, theirs.unit))
    emulator = await emulator_of(options)
    first, second = (Party(unit=one.unit.id, place=one.unit.instance.span) for one in (ours, theirs))
    with output.working("starting") as show:
        found = []
        for one in (subject, theirs):
            show(f"{one.unit.id}  verifying")
            output.event("stage", unit=one.unit.id, text="verifying")
            found.append(await verify_launch(one, trials[one.unit.id], emulator))
        result = judged(first, second, seed, found[0], found[1])
        if result.verdict is JudgedAs.ACCEPTED and not options.right_only:
            rows, why_not = list[SpeedRow](), "the reference's description has no shape"
            for shape in (one.name for one in theirs.unit.kernel.shapes):
                show(f"{names[0]}  counting {shape}")
                try:
                    rows.append(
                        _by_cycles(shape, *[await launch_profile(one, emulator, shape) for one in (subject, theirs)])
                    )
                except CkwatchError as error:
                    why_not = error.message
            result = with_speed(result, first, SpeedBasis.PROFILE, ours.code.arch, rows, why_not)
    return _shown(output, result, found[0])


async def _launch(path: Path, options: argparse.Namespace, arch: str | None = None) -> CodeLaunch:
    """The launch of a file's code for an arch, or for the first that is emulated."""
    _, launches = await described(await opened(path, options.of_arch), options)
    wanted = [one for one in launches if arch in (None, one.code.arch) and emulated_device(one.code.arch) is not None]
    if not wanted:
        there = ", ".join(one.code.arch for one in launches)
        raise CkwatchError(
            f"{path} has code for {there}, and not for {arch or 'an arch that is emulated'}",
            f"emulated are {', '.join(EMULATED_ARCHS)}",
        )
    return wanted[0]


def _apart(one: CodeLaunch, name: str) -> CodeLaunch:
    return replace(one, unit=replace(one.unit, kernel=replace(one.unit.kernel, name=name)))


def _shown(output: Output, result: Judgement, found: Verification | None) -> int:
    """Print the reasons, the speed and the verdict; the exit status."""
    status = STATUS[result.verdict]
    output.event("verdict", result, verification=found, exit_status=status)
    if output.json:
        return status
    output.diagnostics(result.reasons)
    if result.basis is not None:
        device = f" on {result.device}" if result.basis is SpeedBasis.TIMINGS else ""
        output.text(f"speed, {_BY[result.basis]}{device}")
        rows = [[row.shape, row.cache, f"{row.ratio:.3f} ×", row.verdict] for row in result.speed]
        output.table(rows, styles=[VERDICT_STYLES[row.verdict] for row in result.speed])
    mark, style = MARKS[result.verdict]
    tried = f"{count(result.right, 'problem')} right"
    tried += f", {result.refused} not supported" if result.refused else ""
    output.text(f"{mark} {result.candidate} against {result.reference}: {result.verdict.value} ({tried})", style)
    output.text(f"drawn by seed {result.seed}: `--seed {result.seed}` judges on the same problems again", "dim")
    return status
