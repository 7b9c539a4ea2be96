"""Shapes of a kernel file that its instances refuse to compute: a warning at the shape counts them.

What an instance refuses follows from the kernel file alone, so it is found once for each version of the file. The
warning is worded when somebody asks, without the instances that have errors: these may be why a shape does not fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ckwatch.checks.supported_shapes import Parameters, Refusal, ShapeRules, named_as_ck, shape_rules, slices_of
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Kernel, Shape

NAMED = 3
"""Instances that a warning names before it says how many more there are, and other reasons that it lists."""

NO_SPLIT_K = "kBatch must be 1 without split_k = true in [operation]"


Refusals = Mapping[str, tuple[Refusal, ...]]
"""Why instances refuse a shape, by their names."""

Families = Mapping[str, tuple[Parameters, ShapeRules]]
"""Instances of which the shapes that they support are known, by their names."""


class ShapeRefusals:
    """Makes the warnings about kernels, and remembers what their instances refuse.

    The first time takes some microseconds for each instance and shape; after an edit only what differs is worked out.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Kernel, dict[object, Refusals]]] = {}

    def warnings(self, kernel: Kernel, failing: Collection[str] = ()) -> Iterator[Diagnostic]:
        """The warnings at a kernel's shapes, about instances that are not among the `failing` ones."""
        refused = self._refused(kernel)
        for shape in kernel.shapes:
            refusals = {name: why for name, why in refused[_key(shape)].items() if why and name not in failing}
            if refusals:
                yield _warning(kernel, shape, refusals)

    def _refused(self, kernel: Kernel) -> dict[object, Refusals]:
        known = self._known.get(kernel.path)
        if known is not None and known[0] is kernel:
            return known[1]
        before = {one.name: one.parameters for one in known[0].instances} if known is not None else {}
        same = {one.name for one in kernel.instances if before.get(one.name) == one.parameters}
        found = {}
        families = _families(kernel) if kernel.shapes else {}
        for shape in kernel.shapes:
            earlier: Refusals = {}
            if known is not None and known[0].operation == kernel.operation:
                earlier = {name: why for name, why in known[1].get(_key(shape), {}).items() if name in same}
            found[_key(shape)] = _refusals(kernel, shape, families, earlier)
        self._known[kernel.path] = kernel, found
        return found


def _key(shape: Shape) -> object:
    return tuple(shape.sizes.items()), tuple(shape.runtime.items())


def _refusals(kernel: Kernel, shape: Shape, families: Families, known: Refusals) -> Refusals:
    """Why the instances refuse a shape, `known` for some."""
    problem = problem_of(kernel.operation, shape, kernel.archs[0])
    found = dict(known)
    for name, (parameters, family) in families.items():
        if name in known:
            continue
        if slices_of(problem) > 1 and not family.splits_k(kernel.operation):
            found[name] = (Refusal(NO_SPLIT_K),)
        else:
            found[name] = tuple(family.refusals(parameters, problem))
    return {name: found[name] for name in families}


def _families(kernel: Kernel) -> Families:
    found = {}
    for instance in kernel.instances:
        parameters = instance.parameters
        if (family := shape_rules(parameters)) is None:
            parameters = named_as_ck(parameters)
            family = shape_rules(parameters)
        if family is not None:
            found[instance.name] = parameters, family
    return found


def _warning(kernel: Kernel, shape: Shape, refusals: Refusals) -> Diagnostic:
    every = (one for why in refusals.values() for one in why)
    first, *others = dict.fromkeys(f"{one.reason}; write {one.fix}" if one.fix else one.reason for one in every)
    places = {one.name: one.span for one in kernel.instances if one.name in refusals}
    related = [Related(f"refused by `{name}`", span) for name, span in list(places.items())[:NAMED]]
    related += [Related(f"also: {other}", None) for other in others[:NAMED]]
    message = f"{_counted(list(refusals), len(kernel.instances))}: {first}"
    return Diagnostic(Severity.WARNING, Source.RULE, "rule/refused-shape", message, shape.span, tuple(related))


def _counted(names: list[str], total: int) -> str:
    if total == 1:
        return f"`{names[0]}` refuses this shape"
    if len(names) == total:
        return f"all {total} instances refuse this shape"
    named = ", ".join(f"`{name}`" for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)} of {total} instances refuse this shape ({named}{more})"
