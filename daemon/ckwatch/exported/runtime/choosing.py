"""One of several instances of a kernel, chosen by the sizes that it is called with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ckwatch.exported.runtime.arrays import Array
from ckwatch.exported.runtime.calling import PREPARED_CALLS, Callee, Prepared
from ckwatch.exported.runtime.kernel import Kernel, UnsupportedError
from ckwatch.exported.runtime.loading import UNSUPPORTED, Library
from ckwatch.exported.runtime.planning import Plan, plan_of

Result = TypeVar("Result")


class Measured(NamedTuple):
    """A shape that was measured, by its size and runtime arguments, and the instance that it is for."""

    shape: str
    instance: str
    arguments: Mapping[str, float]


def by_distance(
    measured: Sequence[Measured], compared: Sequence[str], arguments: Mapping[str, float]
) -> tuple[str, ...]:
    """The instances, that of the nearest measured shape first.

    The distance is the sum of |log2 ratio| over the `compared` sizes, of which 0 counts as 1. At the same distance, the
    shape that agrees in more of the other arguments is nearer, then the one that stands first.
    """

    def distance(one: Mapping[str, float]) -> tuple[float, int]:
        ratios = (max(one.get(name, 1), 1) / max(arguments[name], 1) for name in compared)
        others = sum(one.get(name) != value for name, value in arguments.items() if name not in compared)
        return round(math.fsum(abs(math.log2(ratio)) for ratio in ratios), 9), others

    ordered = sorted(measured, key=lambda one: distance(one.arguments))
    return tuple(dict.fromkeys(one.instance for one in ordered))


class Candidate:
    """An instance for calls with the same scalars. `refusal`: what it says where it takes none of them."""

    def __init__(self, callee: Callee, prepared: Prepared) -> None:
        self.callee = callee
        self.prepared = prepared
        self.refusal: str | None = None


class Chooser(Callee):
    """A kernel that is called on arrays by one of its instances, whose shared objects lie in `folder`.

    `compared` are the sizes that say how near a measured shape is.
    """

    def __init__(
        self,
        kernel: Kernel,
        instances: Mapping[str, Kernel],
        measured: Sequence[Measured],
        compared: Sequence[str],
        folder: Path,
    ) -> None:
        libraries = {name: Library(one, folder / one.library) for name, one in instances.items()}
        super().__init__(kernel, next(iter(libraries.values())))
        self._callees = {name: Callee(instances[name], one, self._workspaces) for name, one in libraries.items()}
        self._measured = measured
        self._compared = compared
        self._candidates: dict[tuple[Any, ...], tuple[Candidate, ...]] = {}

    def instances_for(self, sizes: tuple[int | None, ...], runtime: tuple[int | float, ...]) -> tuple[str, ...]:
        """The instances in the order in which such a call tries them."""
        plan = plan_of(self.kernel, (None,) * len(self.kernel.operands), sizes)
        return self._order(plan, self._scalars(plan, runtime))

    def workspace_size(self, sizes: tuple[int | None, ...], runtime: tuple[int | float, ...]) -> int:
        """Bytes of workspace that a call with these sizes needs."""
        plan = plan_of(self.kernel, (None,) * len(self.kernel.operands), sizes)
        scalars = self._scalars(plan, runtime)
        return self._first(self._candidates_for(plan, scalars), lambda one: one.callee.needed(one.prepared))

    def load(self) -> None:
        """Load all shared objects. Raises LibraryError where that is not possible."""
        for callee in self._callees.values():
            callee.load()

    def run(
        self, prepared: Prepared, arrays: Sequence[Array | None], stream: int, device: int | None, workspace: Any
    ) -> None:
        """Run the first instance that does not refuse."""
        if not prepared.candidates:
            prepared.candidates = self._candidates_for(prepared.plan, prepared.scalars)
        self._first(
            prepared.candidates,
            lambda one: one.callee.run(one.prepared, arrays, stream, device, workspace),
        )

    def _first(self, candidates: Sequence[Candidate], call: Callable[[Candidate], Result]) -> Result:
        """The result of the first candidate that does not refuse. Raises UnsupportedError where all do."""
        refusals = []
        for one in candidates:
            refusal = one.refusal
            if refusal is None:
                try:
                    return call(one)
                except UnsupportedError as error:
                    refusal = str(error)
                    if one.prepared.workspace_bytes is None:  # it is not where the arrays lie, but their sizes
                        one.refusal = refusal
            refusals.append(refusal)
        others = "; nor does any other instance" if len(refusals) > 1 else ""
        raise UnsupportedError(refusals[0] + others, UNSUPPORTED)

    def _candidates_for(self, plan: Plan, scalars: tuple[int | float, ...]) -> tuple[Candidate, ...]:
        key = (*plan.sizes.items(), scalars)
        found = self._candidates.get(key)
        if found is None:
            callees = [self._callees[name] for name in self._order(plan, scalars)]
            found = tuple(Candidate(callee, Prepared(plan, scalars, is_empty=False)) for callee in callees)
            if len(self._candidates) >= PREPARED_CALLS:
                self._candidates.clear()
            self._candidates[key] = found
        return found

    def _order(self, plan: Plan, scalars: tuple[int | float, ...]) -> tuple[str, ...]:
        passed = {name: value for (name, _), value in zip(self.kernel.scalars, scalars, strict=True)}
        return by_distance(self._measured, self._compared, {**plan.sizes, **passed})
