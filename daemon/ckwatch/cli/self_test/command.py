"""Runs the self-test: finds the device, builds the shipped instances, tries every assumption, writes the report."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.bench.job import SelfTestJob
from ckwatch.bench.report import BenchmarkFailure, Devices
from ckwatch.bench.self_test.session import run_self_test
from ckwatch.bench.worker_session import WorkerStart, find_devices
from ckwatch.cli.command_words import dependency, workspace_if_any
from ckwatch.cli.output import Output, write_file
from ckwatch.cli.self_test.kernels import build_kernels
from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.model.amounts import duration
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.self_test import ASSUMPTIONS, AssumptionTrial, TrialOutcome
from ckwatch.model.version import __version__
from ckwatch.workspace.discovery import working_folder
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.settings import BenchSection

BUILD_S = 90.0
"""How long shipped instances are compiled at most; what is compiled is kept for the next time."""

STYLES = {TrialOutcome.PASSED: "green", TrialOutcome.FAILED: "red", TrialOutcome.SKIPPED: "dim"}


async def run(options: argparse.Namespace) -> int:
    """Try everything: 1 when an assumption does not hold. Raises CkwatchError without the device."""
    given = [name for name, value in _others(options).items() if value]
    if given:
        raise CkwatchError(
            f"--self-test takes no {' and no '.join(given)}",
            "it tries a device, not units: `ckwatch bench --self-test [--device DEVICE] [--output FILE]`",
        )
    async with stoppable():
        settings, folder = await to_thread.run_sync(_settings, options)
        target = _target(options)
        output = Output(options)
        start = WorkerStart.of(settings, folder)
        found = await dependency(options, "find_devices", find_devices)(start)
        if isinstance(found, BenchmarkFailure):
            raise CkwatchError(found.message, found.hint or None)
        device = chosen_device(found, options.device or settings.device)
        return await _test(options, output, target, settings, start, device)


def _others(options: argparse.Namespace) -> dict[str, object]:
    return {
        "PATTERN": options.words,
        "--shape": options.shape,
        "--force": options.force,
        "--devices": options.devices,
        "--flush-instructions": options.flush_instructions,
    }


async def _test(
    options: argparse.Namespace,
    output: Output,
    target: Path,
    settings: BenchSection,
    start: WorkerStart,
    device: DeviceFacts,
) -> int:
    begun = time.monotonic()
    report = Report(device, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    with output.working("building shipped instances") as show:
        shown = _Shown(output, report, target, begun, show)
        output.answer(event="self-test", device=device)
        output.text(f"self-test of {device.name}, {device.description} ({device.arch})", "bold")
        async with shown.kept():
            kernels = await dependency(options, "build_kernels", build_kernels)(device, BUILD_S, shown.stage)
            for trial in kernels.skipped:
                shown.take(trial)
            job = SelfTestJob(
                device=device.identity if device.pci is not None else device.name,
                kind=device.kind,
                arch=device.arch,
                steps=(),
                lease_wait_s=settings.lease_wait_s,
                threads=settings.threads,
                probes=kernels.probes,
            )
            run_trials = dependency(options, "run_self_test", run_self_test)
            done = await run_trials(job, kernels.artifacts, kernels.steps, start, shown.take, shown.stage)
            versions = {} if done is None else dict(done.versions)
            report.versions = versions | ({"compiler": kernels.compiler} if kernels.compiler else {})
            report.complete = True
    status = 1 if report.counts[TrialOutcome.FAILED] else 0
    output.event(
        "self-test-summary", passed=report.counts[TrialOutcome.PASSED], failed=report.counts[TrialOutcome.FAILED],
        skipped=report.counts[TrialOutcome.SKIPPED], seconds=round(report.seconds, 1), exit_status=status,
        versions=report.versions, report=target,
    )  # fmt: skip
    output.text(f"{summary_words(report)}; the report is in {target}")
    return status


WRITE_S = 2.0
"""How often the file is written meanwhile."""


@dataclass(slots=True)
class _Shown:
    """Prints each trial, and keeps the file up to date: whatever happens, it has what was found."""

    output: Output
    report: Report
    target: Path
    begun: float
    show: Callable[[str], None]

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While it is open the file is written again and again, and at its end. Raises CkwatchError."""
        await self._write()
        async with plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_on)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._write()

    def stage(self, stage: str) -> None:
        """Show the current step."""
        self.show(f"{stage} ({time.monotonic() - self.begun:.0f} s)")

    def take(self, trial: AssumptionTrial) -> None:
        """A trial that has ended."""
        kept = self.report.add(trial)
        assumption = ASSUMPTIONS[kept.assumption]
        self.output.event("trial", title=assumption.title, otherwise=assumption.otherwise, trial=kept)
        first, *rest = trial_lines(kept)
        self.output.text(first, STYLES[kept.outcome])
        self.output.lines((line, "dim" if kept.outcome is TrialOutcome.SKIPPED else "") for line in rest)

    async def _write_on(self) -> None:
        while True:
            await anyio.sleep(WRITE_S)
            await self._write()

    async def _write(self) -> None:
        self.report.seconds = time.monotonic() - self.begun
        text = report_text(self.report)
        await to_thread.run_sync(write_file, self.target, text.encode())


def chosen_device(found: Devices, wanted: str) -> DeviceFacts:
    """The device of this name or PCI address, the first of a kind, or the best. Raises CkwatchError."""
    for device in found.devices:
        if wanted in ("auto", device.name, device.kind) or wanted.lower() == (device.pci or "").lower():
            return device
    kind = wanted.partition(":")[0]
    absent = next((one for one in found.absent if one.kind == kind), None)
    if absent is not None:
        raise CkwatchError(f"no {kind} device: {absent.why}", absent.hint or None)
    there = ", ".join(f"{device.name} ({device.description})" for device in found.devices) or "none"
    raise CkwatchError(f"there is no device {wanted}", f"there are: {there}")


def _settings(options: argparse.Namespace) -> tuple[BenchSection, Path]:
    """`[bench]` of the workspace and its folder; outside of a workspace the defaults, and this folder. Raises
    CkwatchError where `-C` names no workspace, UntrustedError."""
    root = workspace_if_any(options)
    if root is None:
        return BenchSection(), working_folder()
    require_trust(root, options)
    return load_workspace(root).settings.bench, root


def _target(options: argparse.Namespace) -> Path:
    """Return the path of the report. Raises CkwatchError if it cannot be written."""
    target = working_folder() / (options.output or REPORT_NAME)
    if target.is_dir():
        raise CkwatchError(f"{target} is a folder", "name a file")
    if not target.parent.is_dir():
        raise CkwatchError(f"there is no folder {target.parent}", "make it, or name another file")
    return target


REPORT_NAME = "ckwatch-self-test.md"

MARKS = {TrialOutcome.PASSED: "✓", TrialOutcome.FAILED: "✗", TrialOutcome.SKIPPED: "·"}

_PATH = re.compile(r"(?<![\w./])/(?:[\w.+@~-]+/)*([\w.+@~-]+)")


@dataclass(slots=True)
class Report:
    """The results so far. `versions` of what took part; `seconds`: how long it took."""

    device: DeviceFacts
    date: str
    trials: list[AssumptionTrial] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    complete: bool = False

    @property
    def counts(self) -> Counter[TrialOutcome]:
        """How many trials have which outcome."""
        return Counter(trial.outcome for trial in self.trials)

    def add(self, trial: AssumptionTrial) -> AssumptionTrial:
        """Keep a trial, without private parts."""
        kept = replace(trial, found=without_places(trial.found))
        self.trials.append(kept)
        return kept


def in_order(trials: Sequence[AssumptionTrial]) -> list[AssumptionTrial]:
    """Trials in the order of their assumptions."""
    order = {name: number for number, name in enumerate(ASSUMPTIONS)}
    return sorted(trials, key=lambda trial: order[trial.assumption])


def without_places(text: str, host: str | None = None) -> str:
    """A text with names of folders, of this machine and of its user left out."""
    named = {host or platform.node(): "HOST", os.environ.get("USER", ""): "USER", Path.home().name: "USER"}
    text = _PATH.sub(r"…/\1", text)
    for name, stands in named.items():
        if len(name) > 2 and name not in ("root", "cuda", "hip"):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", stands, text)
    return text


def summary_words(report: Report) -> str:
    """`20 passed, 1 failed, 3 skipped in 118 s`."""
    counts = report.counts
    words = [f"{counts[outcome]} {outcome}" for outcome in TrialOutcome if counts[outcome]]
    return f"{', '.join(words) or 'nothing was tried'} in {duration(report.seconds)}"


def trial_lines(trial: AssumptionTrial) -> list[str]:
    """A trial in a few lines, the first with its outcome."""
    assumption = ASSUMPTIONS[trial.assumption]
    subject = f" ({trial.subject})" if trial.subject else ""
    lines = [
        f"{MARKS[trial.outcome]} {trial.outcome:7}  {trial.assumption}{subject}: {assumption.title}",
        f"      found: {trial.found}",
    ]
    if trial.outcome is TrialOutcome.FAILED:
        lines.append(f"      otherwise: {assumption.otherwise}")
    return lines


def report_text(report: Report) -> str:
    """The whole file."""
    device = report.device
    lines = [
        f"# ckwatch {__version__}: self-test of {device.name}",
        "",
        f"{device.description} ({device.arch}), driver {device.driver}, {device.runtime}",
        "",
        f"{report.date}: {summary_words(report)}" + ("" if report.complete else "; it did not come to its end"),
        "",
        "`otherwise` says what it would mean for timings that an assumption does not hold.",
        "",
        "```text",
    ]
    for trial in in_order(report.trials):
        lines += trial_lines(trial)
    lines += ["```", "", "```json", json.dumps(report_json(report), indent=1, ensure_ascii=False), "```", ""]
    return "\n".join(lines)


def report_json(report: Report) -> dict[str, object]:
    """The same for programs."""
    device = {name: value for name, value in asdict(report.device).items() if name not in ("pci", "machine")}
    return {
        "ckwatch": __version__,
        "date": report.date,
        "complete": report.complete,
        "seconds": round(report.seconds, 1),
        "device": device,
        "versions": {name: without_places(value) for name, value in report.versions.items()},
        "counts": {outcome.value: report.counts[outcome] for outcome in TrialOutcome},
        "trials": [{**asdict(trial), "outcome": trial.outcome.value} for trial in in_order(report.trials)],
    }
