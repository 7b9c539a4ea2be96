"""Compare hipcc's errors in the instances of an example, and in mutants of them, with ckwatch's predictions.

    python -m benchmarks.mutated_instances EXAMPLE [--count N] [--seed SEED] [--arch ARCH …]
    python -m benchmarks.mutated_instances EXAMPLE --from-results

A mutant differs from an instance of `examples/EXAMPLE` in one parameter. Each sample is rendered and goes through the
device pass and, where that succeeds, the host pass of the real compiler with `-fsyntax-only`; code is generated where
the rules expect a failure that only comes from there. What hipcc said is stored as soon as it is there, in
`results/mutated_EXAMPLE.json`; what ckwatch says is asked anew. The last lines are the numbers that count: false
rejections, which must be 0, and the share of the failures that were seen beforehand.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ckwatch_templates
from benchmarks.rules_against_hipcc import shortened
from benchmarks.verification import is_made_for
from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.static_checks import static_checks
from ckwatch.compile.flags import compile_flags, include_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.kernels import ParameterValue, Unit, is_integers
from ckwatch.model.targets import Language
from ckwatch.render.outcome import RenderOutcome
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace

EXAMPLES = Path(__file__).parent.parent / "examples"
RESULTS = Path(__file__).parent / "results"
ARCHS = ("gfx942", "gfx950", "gfx90a")
TIME_LIMIT_S = 600

Stored = dict[str, dict[str, Any]]
"""The `unit`, changed `parameter` and `value` of a sample by its name, and hipcc's `error`, empty where it compiles."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A unit in which `parameter` has another value, none for an instance as it is written."""

    name: str
    unit: Unit
    parameter: str = ""

    @property
    def value(self) -> ParameterValue | None:
        """The value that the parameter was changed to."""
        return self.unit.instance.parameters.get(self.parameter)


@dataclass(slots=True)
class Judgement:
    """Samples that were rejected and compile, those that fail unseen, and by which codes the others were caught."""

    samples: int = 0
    mutants: int = 0
    false_rejections: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    caught: Counter[str] = field(default_factory=Counter)

    @property
    def failures(self) -> int:
        """Samples that do not compile."""
        return len(self.missed) + self.caught.total()


class Example:
    """A folder of `examples/`: its instances, and what ckwatch says of samples of them."""

    def __init__(self, name: str, archs: Sequence[str]) -> None:
        workspace = load_workspace(EXAMPLES / name)
        self._renderer = Renderer(tuple(workspace.template_folders))
        instances = {(unit.kernel.name, unit.instance.name): unit for unit in workspace.units}
        self.units = [
            replace(unit, arch=chosen[at % len(chosen)])
            for at, unit in enumerate(instances.values())
            if (chosen := [arch for arch in archs if is_made_for(unit, arch)])
        ]

    def samples(self, count: int, seed: int) -> Iterator[Sample]:
        """All instances as they are written, then `count` mutants, no two alike."""
        yield from (Sample(unit.id, unit) for unit in self.units)
        generator = random.Random(seed)  # noqa: S311  (a reproducible sample, no secret)
        values = self._values()
        found: set[str] = set()
        while len(found) < count:
            unit = generator.choice(self.units)
            parameters = unit.instance.parameters
            name = generator.choice(sorted(parameters))
            value = mutated(parameters[name], values[name], generator)
            sample = _mutant(unit, name, value)
            if value != parameters[name] and sample.name not in found:
                found.add(sample.name)
                yield sample

    def judgement(self, stored: Stored) -> Judgement:
        """Compare ckwatch's prediction with hipcc's result, for the samples that have one."""
        known = {unit.id.rpartition("@")[0]: unit for unit in self.units}
        found = Judgement()
        for name, result in stored.items():
            instance, _, arch = result["unit"].rpartition("@")
            if instance not in known:
                continue
            unit, value = replace(known[instance], arch=arch), result["value"]
            parameter = result["parameter"]
            sample = Sample(name, unit)
            if parameter:
                sample = _mutant(unit, parameter, tuple(value) if isinstance(value, list) else value)
            found.samples += 1
            found.mutants += bool(parameter)
            error, rejection = result["error"], worst_error(self.outcome(sample))
            if rejection and not error:
                found.false_rejections.append(f"{name}: {rejection}")
            elif error and not rejection:
                found.missed.append(f"{name}: {error}")
            elif error:
                found.caught[rejection.partition(":")[0]] += 1
        return found

    def _values(self) -> dict[str, tuple[ParameterValue, ...]]:
        """Values that each parameter may have: those that its template declares, else those of the instances."""
        found: dict[str, dict[ParameterValue, None]] = {}
        for unit in self.units:
            for name, value in unit.instance.parameters.items():
                found.setdefault(name, {})[value] = None
        for unit in self.units:
            for declared in self._renderer.render(unit).declared:
                operation = OPERATIONS.get(declared.operation)
                of_operation = (
                    {} if operation is None else {one.name: one.type for one in operation.parameters.values()}
                )
                for name, known in {declared.name: declared.type, **of_operation}.items():
                    if known is not None and known.values:
                        found.setdefault(name, {}).update(dict.fromkeys(known.values))
        return {name: tuple(values) for name, values in found.items()}

    def rendered(self, unit: Unit) -> str:
        """The text that is compiled."""
        rendered = self._renderer.render(unit).rendered
        if rendered is None:
            raise ValueError(f"{unit.id} does not render")
        return rendered.text

    def outcome(self, sample: Sample) -> RenderOutcome:
        """The rendered text, and what is said of it without a compiler."""
        rendered = self._renderer.render(sample.unit)
        return static_checks(sample.unit, rendered, rules=True, builtin=str(ckwatch_templates.ROOT))


def _mutant(unit: Unit, name: str, value: ParameterValue) -> Sample:
    parameters = unit.instance.parameters
    changed = replace(unit, instance=replace(unit.instance, parameters={**parameters, name: value}))
    return Sample(f"{unit.id} {name}: {parameters[name]} -> {value}", changed, name)


def mutated(value: ParameterValue, known: Sequence[ParameterValue], generator: random.Random) -> ParameterValue:
    """Another value: a known name, a multiple or a part of a number, or its neighbour; of an array, one element."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(0, generator.choice((value * 2, value * 4, value // 2, value * 3, value * 3 // 2, value + 1, 1)))
    if is_integers(value):
        at, other = generator.randrange(len(value)), generator.randrange(len(value))
        changed = list(value)
        if sorted(value) == list(range(len(value))):
            changed[at], changed[other] = changed[other], changed[at]
        else:
            changed[at] = max(1, int(changed[at] * generator.choice((0.5, 2, 2, 4, 3))))
        return tuple(changed)
    return generator.choice(known)


def errors_of(outcome: RenderOutcome) -> list[Diagnostic]:
    """The errors, worst first."""
    return [one for one in outcome.diagnostics if one.severity is Severity.ERROR]


def hipcc_error(text: str, arch: str, side: str, toolchain: Toolchain, folder: Path, *options: str) -> str:
    """The first error line of a pass, empty where there is none."""
    source = folder / "unit.hip"
    source.write_text(text)
    request = CompileRequest(text, "unit", Language.HIP, arch)
    flags = [*compile_flags(request, toolchain), *include_flags(request, toolchain)]
    command = [str(toolchain.hipcc), *toolchain.hip_arguments, *flags, "-w", "-Wfatal-errors", *options]
    command += [f"--offload-{side}-only", str(source)]
    environment = {**os.environ, **toolchain.environment}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {TIME_LIMIT_S} s"
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return shortened(lines[0] if lines else f"exit status {done.returncode}") if done.returncode else ""


def compiled(outcome: RenderOutcome, arch: str, toolchain: Toolchain, folder: Path, *flags: str) -> str:
    """hipcc's first error in a sample, empty where it compiles."""
    if outcome.rendered is None:
        return f"does not render: {errors_of(outcome)[0].message}"
    text = outcome.rendered.text
    for side in ("device", "host"):
        if error := hipcc_error(text, arch, side, toolchain, folder, *flags, "-fsyntax-only"):
            return f"{side}: {error}"
    if any(one.code in ("rule/lds", "rule/tile-lds") for one in errors_of(outcome)):
        error = hipcc_error(text, arch, "device", toolchain, folder, *flags, "-c", "-o", str(folder / "unit.o"))
        return f"codegen: {error}" if error else ""
    return ""


def collect(example: Example, samples: Sequence[Sample], stored: Stored, path: Path) -> None:
    """Compile the samples that have no result yet."""
    toolchain = discover()
    todo = [sample for sample in samples if sample.name not in stored]
    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(todo, 1):
            outcome = example.outcome(sample)
            error = compiled(outcome, sample.unit.arch, toolchain, Path(folder), *sample.unit.kernel.flags)
            result = {"unit": sample.unit.id, "parameter": sample.parameter, "value": sample.value, "error": error}
            stored[sample.name] = result
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(stored, indent=1) + "\n")
            temporary.replace(path)
            print(f"{number}/{len(todo)} {sample.name}\n    hipcc   {error or 'compiles'}", flush=True)
            print(f"    ckwatch {worst_error(outcome) or 'accepts'}", flush=True)


def worst_error(outcome: RenderOutcome) -> str:
    """The worst error in words, empty where there is none."""
    return next(
        (f"{one.code}: {re.sub(chr(10) + '.*', '', one.message, flags=re.DOTALL)}" for one in errors_of(outcome)), ""
    )


def report(found: Judgement) -> int:
    """Print what counts; the exit status is 1 where something was rejected that compiles."""
    print("caught by:", ", ".join(f"{code} {count}" for code, count in found.caught.most_common()))
    for title, lines in (("false rejections", found.false_rejections), ("missed failures", found.missed)):
        print(f"{title}: {len(lines)}", *lines, sep="\n    ")
    print(f"samples: {found.samples}, {found.mutants} of them mutated; {found.failures} fail")
    caught = found.caught.total()
    print(f"caught: {caught} of {found.failures} = {caught / max(found.failures, 1):.1%}")
    return 1 if found.false_rejections else 0


def stored_results(example: str) -> Stored:
    """hipcc's results for samples of an example, those of earlier runs included."""
    path = RESULTS / f"mutated_{example}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", help="a folder of examples/")
    parser.add_argument("--count", type=int, default=40, help="mutants (40)")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--arch", nargs="+", default=ARCHS, help=f"in turn ({' '.join(ARCHS)})")
    parser.add_argument("--from-results", action="store_true", help="compile nothing")
    options = parser.parse_args()
    example = Example(options.example, options.arch)
    stored = stored_results(options.example)
    if not options.from_results:
        samples = list(example.samples(options.count, options.seed))
        collect(example, samples, stored, RESULTS / f"mutated_{options.example}.json")
    return report(example.judgement(stored))


if __name__ == "__main__":
    sys.exit(main())
