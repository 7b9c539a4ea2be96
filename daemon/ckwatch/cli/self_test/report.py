"""The report of a self-test: text that can be read and attached to an issue, with the same as JSON at its end."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ckwatch.model.amounts import duration
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.self_test import ASSUMPTIONS, AssumptionTrial, TrialOutcome
from ckwatch.model.version import __version__

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
        """Keep a trial, without what is nobody else's business."""
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
