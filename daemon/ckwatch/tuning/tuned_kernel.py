"""The plan of a search: the space of a kernel file, what is refused in it, and where to begin."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ckwatch_templates
from ckwatch.checks.fold import in_one_line
from ckwatch.checks.parameter_values import value_problem
from ckwatch.checks.rules.points import PointRules
from ckwatch.checks.static_checks import declared_types
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Instance, Kernel, Shape, Unit, value_in_name
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import ParameterType
from ckwatch.model.targets import Language, language_of
from ckwatch.model.unit_patterns import unknown_kernel
from ckwatch.prediction.predict import PredictionTarget, predict, target_of
from ckwatch.render.renderer import Renderer
from ckwatch.tuning.space import (
    Allowed,
    JoinedSpace,
    ListedSpace,
    Parameters,
    Point,
    ProductSpace,
    Space,
    SpaceCoverage,
    coverage,
    joined,
)
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.parameters import Condition
from ckwatch.workspace.shapes import alternative_shapes
from ckwatch.workspace.sweep import SweepPlan

EXAMPLES = 6
"""Points that are rendered to see whether the rules can be asked without rendering each."""

PREDICTED_POINTS = 3000
PREDICTED_S = 1.5
"""Points among which the ones with the best predictions are looked for, and the time for that: then their neighbours
are looked at, as long again."""

LIKE_AT_MOST = 64
"""Points that are looked at for parameters that leave some open."""

SEEDS = 8
"""The predicted best of these begin a search."""

LONGEST_NAME = 120
"""Characters of an instance's name; a longer one is cut and ends in a digest."""


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """A kernel for one arch, with the space to search and the shapes to search it for. `names`: those of the
    instances that are listed; `prefixes`: what the names of others begin with, by the space that they are from;
    `present`: the names that the kernel file has; `is_listed`: the instances are not those of the kernel file."""

    root: Path
    kernel: Kernel
    arch: str
    shapes: tuple[Shape, ...]
    problems: Mapping[str, KernelProblem]
    space: Space
    names: Mapping[Point, str]
    prefixes: tuple[str, ...]
    present: frozenset[str]
    is_listed: bool
    coverage: SpaceCoverage
    target: PredictionTarget | None
    jobs: int | None

    @property
    def on_processor(self) -> bool:
        """Return True if it is timed where compilers run."""
        return language_of(self.kernel.template) is Language.CPP

    def unit_of(self, point: Point) -> str:
        """The id of the instance's unit."""
        return f"{self.kernel.name}/{self.name_of(point)}@{self.arch}"

    def name_of(self, point: Point) -> str:
        """Return the instance's name: its own name if the kernel file has it, else made of what differs."""
        if point in self.names:
            return self.names[point]
        parameters = self.space.parameters(point) or {}
        number, own = (
            (point[0], self.space.spaces[point[0]]) if isinstance(self.space, JoinedSpace) else (0, self.space)
        )
        swept = [value_in_name(parameters[axis.parameter]) for axis in own.axes if len(axis.values) > 1]
        name = "_".join((self.prefixes[number], *swept))
        if len(name) > LONGEST_NAME:
            digest = hashlib.sha256(name.encode()).hexdigest()[:10]
            name = f"{name[: LONGEST_NAME - 11]}_{digest}"
        return name

    def unsupported(self, point: Point, shape: str) -> str:
        """Why the instance does not support a shape; empty where that is not known."""
        return unsupported_reason(self.space.parameters(point) or {}, self.problems[shape])

    def predicted_us(self, point: Point, shape: str) -> float | None:
        """The predicted time in microseconds from the parameters alone; None where there is none."""
        parameters = self.space.parameters(point)
        if parameters is None or self.target is None:
            return None
        found = predict(None, parameters, self.problems[shape], self.target)
        return found.time_us if found.time_us is not None else found.bound_us

    def predicted_best(self, shape: str, seed: int) -> list[Point]:
        """The points with the best predictions, all of which differ."""
        if self.target is None:
            return []
        rng = random.Random(seed)  # noqa: S311  # a sample
        timed: dict[Point, float] = {}

        def predict_all(points: Iterable[Point | None], until: float) -> None:
            for point in points:
                if point is not None and point not in timed:
                    time_us = self.predicted_us(point, shape)
                    timed[point] = math.inf if time_us is None else time_us
                if time.monotonic() > until:
                    return

        begun = time.monotonic()
        if self.space.size <= PREDICTED_POINTS:
            predict_all(self.space, begun + PREDICTED_S)
        else:
            predict_all((self.space.random(rng) for _ in range(PREDICTED_POINTS)), begun + PREDICTED_S)
        begun, looked_at = time.monotonic(), set[Point]()
        while time.monotonic() < begun + PREDICTED_S:
            best = sorted((one for one in timed if one not in looked_at), key=lambda one: timed[one])[:1]
            if not best or timed[best[0]] > 2 * min(timed.values()):
                break
            looked_at.update(best)
            predict_all(self.space.neighbours(best[0]), begun + PREDICTED_S)
        found = sorted((one for one in timed if math.isfinite(timed[one])), key=lambda one: timed[one])
        return found[:SEEDS]

    def points_like(self, parameters: Parameters) -> list[Point]:
        """The allowed points that have these parameters as far as they have parameters of these names."""
        spaces = self.space.spaces if isinstance(self.space, JoinedSpace) else (self.space,)
        found: list[Point] = []
        for number, space in enumerate(spaces):
            axes = [
                [index for index, value in enumerate(axis.values) if parameters.get(axis.parameter, value) == value]
                for axis in space.axes
            ]
            listed: Iterable[Point] = space.points() if isinstance(space, ListedSpace) else ()
            product = itertools.islice(itertools.product(*axes), LIKE_AT_MOST)
            for point in listed if isinstance(space, ListedSpace) else product:
                own = space.parameters(point) if space.is_allowed(point) else None
                if own is not None and all(own[name] == value for name, value in parameters.items() if name in own):
                    found.append((number, *point) if len(spaces) > 1 else point)
        return found

    def point_of(self, parameters: Parameters) -> Point | None:
        """The allowed point that stands for these parameters, if there is one."""
        point = self.space.point_of(parameters)
        return point if point is not None and self.space.is_allowed(point) else None


def problem_text(shape: Shape) -> str:
    """A shape's sizes and runtime arguments as JSON, equal for equal ones."""
    return json.dumps([dict(shape.sizes), dict(shape.runtime)], sort_keys=True)


def read_tuned_kernel(
    root: Path,
    kernel_name: str,
    *,
    arch: str | None,
    shapes: Sequence[str] | None,
    listed: Mapping[str, Parameters] | None,
    seed: int,
) -> TunedKernel:
    """Read the kernel file and look at its space. Blocks; call from a worker thread.

    `listed` are instances to choose among instead. Raises UnknownUnitError for an unknown kernel, and CkwatchError for
    another mistake.
    """
    workspace = load_workspace(root)
    kernels = {kernel.name: kernel for kernel in workspace.kernels}
    kernel = kernels.get(kernel_name)
    if kernel is None:
        broken = next(
            (one for one in workspace.errors if workspace.kernel_names.get(one.span.path) == kernel_name), None
        )
        if broken is not None:
            place = f"{broken.span.path}:{broken.span.start.line + 1}:{broken.span.start.column + 1}"
            raise CkwatchError(f"'{kernel_name}' cannot be tuned: {place}: {in_one_line(broken.message)}")
        raise unknown_kernel(kernels, kernel_name)
    archs = kernel.archs
    if arch is not None and arch not in archs:
        raise CkwatchError(f"'{kernel_name}' is not compiled for {arch}", f"it is for {', '.join(archs)}")
    arch = arch or archs[0]
    chosen = _shapes(kernel, shapes)
    if kernel.operation.computation is None:
        raise CkwatchError(
            f"'{kernel_name}' cannot be tuned: what it computes is not known, so that no result can be verified",
            "describe the computation under [operation]",
        )
    instances = listed or {instance.name: instance.parameters for instance in kernel.instances}
    if both := {instance.name for instance in kernel.instances} & (listed or {}).keys():
        raise CkwatchError(f"the kernel has an instance `{min(both)}`", "give what is searched other names")
    sweeps = () if listed is not None else workspace.spaces.get(kernel_name, ())
    spaces = _spaces(instances, sweeps, None)
    if not spaces:
        raise CkwatchError(
            f"'{kernel_name}' has nothing to choose among",
            "write a [[sweep]] with `tune = true` and the parameters' values, or several instances",
        )
    problems = {shape.name: problem_of(kernel.operation, shape, arch) for shape in chosen}
    refusal_of_instance, rules = _refusal(kernel, arch, spaces, Renderer(tuple(workspace.template_folders)), seed)

    def refusal(parameters: Parameters) -> str:
        if found := refusal_of_instance(parameters):
            return found
        reasons = [unsupported_reason(parameters, problem) for problem in problems.values()]
        return f"supports none of the shapes: {reasons[0]}" if all(reasons) else ""

    spaces = _spaces(instances, sweeps, refusal, rules)
    space = joined(spaces)
    found = coverage(space, random.Random(seed))  # noqa: S311  # a sample
    if not found.allowed and found.is_exact:
        why = f": {found.refused[0].example}" if found.refused else ""
        raise CkwatchError(f"nothing of the space of '{kernel_name}' is allowed{why}")
    return TunedKernel(
        root=workspace.root,
        kernel=kernel,
        arch=arch,
        shapes=chosen,
        problems=problems,
        space=space,
        names={(number,) if len(spaces) == 1 else (0, number): name for number, name in enumerate(instances)},
        present=frozenset(() if listed is not None else (instance.name for instance in kernel.instances)),
        is_listed=listed is not None,
        prefixes=(*([kernel_name] if instances else ()), *(sweep.name for sweep in sweeps)),
        coverage=found,
        target=target_of(arch),
        jobs=workspace.settings.compile.jobs,
    )


def _spaces(
    instances: Mapping[str, Parameters],
    sweeps: Sequence[SweepPlan],
    allowed: Allowed | None,
    rules: Sequence[Condition] = (),
) -> list[Space]:
    listed: list[Space] = [ListedSpace(list(instances.values()), allowed)] if instances else []
    return [*listed, *(ProductSpace.of_sweep(sweep, allowed, rules) for sweep in sweeps)]


def _shapes(kernel: Kernel, wanted: Sequence[str] | None) -> tuple[Shape, ...]:
    there = [shape.name for shape in kernel.shapes]
    if not there and not wanted:
        raise CkwatchError(f"'{kernel.name}' has no shape to be tuned for", "add a [[shape]] to its kernel file")
    chosen = (shape for name in wanted or there for shape in alternative_shapes(kernel, name))
    return tuple({shape.name: shape for shape in chosen}.values())


def _refusal(
    kernel: Kernel, arch: str, spaces: Sequence[Space], renderer: Renderer, seed: int
) -> tuple[Callable[[Parameters], str], tuple[Condition, ...]]:
    """Return a function that refuses points without rendering them: by the types of the template's parameters, and by
    the instance rules if the template passes parameters on as they are, with these rules as conditions. Other mistakes
    show when an instance is built."""
    rng = random.Random(seed)  # noqa: S311  # a sample
    builtin = str(ckwatch_templates.ROOT)
    examples: list[tuple[Parameters, str]] = []
    types: dict[str, ParameterType] = {}
    for space in spaces:
        for point in dict.fromkeys(space.random(rng) for _ in range(EXAMPLES)):
            parameters = None if point is None else space.parameters(point)
            if parameters is None:
                continue
            instance = Instance("example", parameters, kernel.template_span, {})
            unit = Unit(replace(kernel, instances=(instance,)), instance, arch)
            outcome = renderer.render(unit)
            types |= declared_types(unit, outcome, builtin)
            if outcome.rendered is not None:
                examples.append((parameters, outcome.rendered.text))
    rules = PointRules.of(examples, arch)

    def refusal(parameters: Parameters) -> str:
        for name, declared in types.items():
            problem = value_problem(name, declared, parameters[name]) if name in parameters else None
            if problem is not None:
                return f"{problem.code}: {problem.message}"
        return "" if rules is None else rules.refusal(parameters)

    return refusal, () if rules is None else rules.conditions()
