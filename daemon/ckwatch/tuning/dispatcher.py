"""A dispatcher: a decision tree of sizes that chooses one of a few instances for each call, as C++ and Python.

The instances are the smallest set within the tolerance on all shapes (`ckwatch.tuning.dispatch`). The tree is grown
greedily (Breiman and others, Classification and Regression Trees, 1984), with the slowdown as the loss: a split is at
the geometric mean of two neighbouring sizes, or products of two (M · N says how many tiles there are); a leaf takes the
instance with the least slowdown over its shapes, each weighted by how often it is called. How many shapes a leaf has at
least is chosen by the slowdown on shapes that a tree has not seen.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.dispatch import dispatch_set

Times = Mapping[str, Mapping[str, float]]
"""Shape → instance → time in any unit; an instance that a shape lacks does not compute it."""

REFUSED = 100.0
"""The slowdown that stands for an instance which does not compute a shape."""

FOLDS = 5
LEAF_SIZES = (1, 2, 4, 8)
DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a tree."""

    instance: str


@dataclass(frozen=True, slots=True)
class Split:
    """`below` is taken where the product of `sizes` is at most `limit`."""

    sizes: tuple[str, ...]
    limit: int
    below: Tree
    above: Tree


Tree = Leaf | Split


@dataclass(frozen=True, slots=True)
class UnseenCheck:
    """The slowdown, against the best of all instances, of trees on shapes that neither they nor their sets had seen:
    the mean by weight, the 90th percentile, the part within the tolerance, and how many shapes the choice refuses."""

    shapes: int
    mean: float
    high: float
    within: float
    refused: int


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """`unseen` is None with too few shapes to leave some out. `seen`: the mean slowdown on the shapes themselves."""

    sizes: tuple[str, ...]
    instances: tuple[str, ...]
    tree: Tree
    tolerance: float
    is_smallest: bool
    seen: float
    unseen: UnseenCheck | None

    def choose(self, sizes: Mapping[str, int]) -> str:
        """The instance for a call."""
        at = self.tree
        while isinstance(at, Split):
            at = at.below if math.prod(sizes[name] for name in at.sizes) <= at.limit else at.above
        return at.instance


class _Shapes:
    """Shapes with their sizes, weights and slowdowns as arrays, of the instances that are chosen among."""

    def __init__(
        self,
        times: Times,
        sizes_of: Mapping[str, Mapping[str, int]],
        weights: Mapping[str, float],
        sizes: Sequence[str],
        instances: Sequence[str],
    ) -> None:
        self.names = list(times)
        self.factors = [*((one,) for one in sizes), *combinations(sizes, 2)]
        self.instances = tuple(instances)
        products = [[math.prod(sizes_of[name][one] for one in own) for own in self.factors] for name in self.names]
        self.x = np.array(products, dtype=np.int64).reshape(len(self.names), len(self.factors))
        self.weight = np.array([weights.get(name, 1.0) for name in self.names])
        self.slowdown = np.array([[slowdown(times[name], one) for one in self.instances] for name in self.names])

    def tree(self, leaf_size: int, tolerance: float) -> Tree:
        """The tree of all of them."""
        return self._grown(np.arange(len(self.names)), leaf_size, tolerance, 0)

    def _grown(self, rows: NDArray[np.intp], leaf_size: int, tolerance: float, depth: int) -> Tree:
        loss = self.slowdown[rows] * self.weight[rows, None]
        best = int(loss.sum(axis=0).argmin())
        leaf = Leaf(self.instances[best])
        if depth == DEEPEST or bool((self.slowdown[rows, best] <= 1 + tolerance).all()):
            return leaf
        found: tuple[float, int, int] | None = None
        for at in range(len(self.factors)):
            order = rows[np.argsort(self.x[rows, at], kind="stable")]
            values = self.x[order, at]
            sums = np.cumsum(self.slowdown[order] * self.weight[order, None], axis=0)
            least = sums[:-1].min(axis=1) + (sums[-1] - sums[:-1]).min(axis=1)
            count = np.arange(1, len(order))
            least[(values[:-1] == values[1:]) | (count < leaf_size) | (len(order) - count < leaf_size)] = math.inf
            if len(least) and math.isfinite(low := float(least.min())) and (found is None or low < found[0]):
                cut = int(least.argmin())
                found = (low, at, math.isqrt(int(values[cut]) * int(values[cut + 1])))
        if found is None or found[0] >= float(loss.sum(axis=0)[best]) - 1e-12:
            return leaf
        _, at, limit = found
        is_below = self.x[rows, at] <= limit
        below = self._grown(rows[is_below], leaf_size, tolerance, depth + 1)
        above = self._grown(rows[~is_below], leaf_size, tolerance, depth + 1)
        return below if below == above else Split(self.factors[at], limit, below, above)


def slowdown(times: Mapping[str, float], instance: str) -> float:
    """An instance's time over the best of a shape, at most `REFUSED`."""
    return min(times.get(instance, math.inf) / min(times.values()), REFUSED)


def dispatcher(
    times: Times,
    sizes_of: Mapping[str, Mapping[str, int]],
    weights: Mapping[str, float] | None = None,
    tolerance: float = 0.02,
) -> Dispatcher:
    """A dispatcher over shapes, `sizes_of` each, called as often as `weights` says.

    Raises ValueError without a shape that has a time.
    """
    times = {shape: own for shape, own in times.items() if own}
    if not times:
        raise ValueError("there is no shape with a time")
    weights = weights or {}
    names = list(dict.fromkeys(size for shape in times for size in sizes_of[shape]))
    sizes = [size for size in names if len({sizes_of[shape].get(size) for shape in times}) > 1]
    checks = {leaf: _unseen(times, sizes_of, weights, sizes, leaf, tolerance) for leaf in LEAF_SIZES}
    leaf_size = min(checks, key=lambda leaf: (found.mean if (found := checks[leaf]) is not None else 1.0, leaf))
    chosen = dispatch_set(times, tolerance)
    shapes = _Shapes(times, sizes_of, weights, sizes, chosen.instances)
    tree = shapes.tree(leaf_size, tolerance)
    used = set(_leaves(tree))
    found = Dispatcher(
        sizes=tuple(names),
        instances=tuple(one for one in chosen.instances if one in used),
        tree=tree,
        tolerance=tolerance,
        is_smallest=chosen.is_smallest,
        seen=0.0,
        unseen=checks[leaf_size],
    )
    losses = [slowdown(times[shape], found.choose(sizes_of[shape])) for shape in shapes.names]
    return Dispatcher(
        found.sizes, found.instances, tree, tolerance, found.is_smallest,
        float(np.average(losses, weights=shapes.weight)), found.unseen,
    )  # fmt: skip


def _unseen(
    times: Times,
    sizes_of: Mapping[str, Mapping[str, int]],
    weights: Mapping[str, float],
    sizes: Sequence[str],
    leaf_size: int,
    tolerance: float,
) -> UnseenCheck | None:
    if len(times) < 2 * FOLDS:
        return None
    found: list[tuple[float, float]] = []
    for fold in range(FOLDS):
        ordered = sorted(times, key=lambda shape: [sizes_of[shape].get(size, 0) for size in sizes])
        unseen = {shape for number, shape in enumerate(ordered) if number % FOLDS == fold}
        rest = {shape: own for shape, own in times.items() if shape not in unseen}
        instances = dispatch_set(rest, tolerance, nodes_at_most=2000).instances
        tree = _Shapes(rest, sizes_of, weights, sizes, instances).tree(leaf_size, tolerance)
        tried = Dispatcher(tuple(sizes), instances, tree, tolerance, False, 0.0, None)
        choices = ((shape, tried.choose(sizes_of[shape])) for shape in unseen)
        found += ((slowdown(times[shape], instance), weights.get(shape, 1.0)) for shape, instance in choices)
    losses, weight = np.array(found).T
    return UnseenCheck(
        shapes=len(found),
        mean=float(np.average(losses, weights=weight)),
        high=float(np.percentile(losses, 90)),
        within=float(np.average(losses <= 1 + tolerance, weights=weight)),
        refused=int((losses >= REFUSED).sum()),
    )


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Leaf):
        yield tree.instance
    else:
        yield from _leaves(tree.below)
        yield from _leaves(tree.above)


def python_text(found: Dispatcher, about: str) -> str:
    """A Python module with `INSTANCES` and `choose(M, N, …) -> str`."""
    arguments = ", ".join(f"{size}: int" for size in found.sizes)
    instances = "".join(f"    {json.dumps(one)},\n" for one in found.instances)
    return (
        f'"""{_docstring(about)}"""\n\nINSTANCES = (\n{instances})\n"""Those that most shapes take first: try the next'
        f' one where a kernel refuses a call."""\n\n\ndef choose({arguments}) -> str:\n'
        f'    """The name of the instance for a call."""\n{_python_tree(found.tree, 1)}'
    )


def _docstring(about: str) -> str:
    return about.replace("\\", "\\\\").replace('"""', "'''")


def _python_tree(tree: Tree, depth: int) -> str:
    indent = "    " * depth
    if isinstance(tree, Leaf):
        return f"{indent}return {json.dumps(tree.instance)}\n"
    below = _python_tree(tree.below, depth + 1)
    return f"{indent}if {' * '.join(tree.sizes)} <= {tree.limit}:\n{below}{_python_tree(tree.above, depth)}"


def cpp_text(found: Dispatcher, name: str, about: str) -> str:
    """A header with an enumeration of the instances, their names and `choose(M, N, …)`, in a namespace of its own."""
    space = f"{_identifier(name)}_dispatch".removeprefix("_")
    space = f"k_{space}" if space[0].isdigit() else space
    enumerators = _enumerators(found.instances)
    arguments = ", ".join(f"std::int64_t {size}" for size in found.sizes)
    unused = "".join(f"    static_cast<void>({size});\n" for size in found.sizes)
    comment = "".join(f"// {line}".rstrip() + "\n" for line in about.splitlines())
    listed = "".join(f"    {one},\n" for one in enumerators.values())
    names = "".join(f"    {json.dumps(one)},\n" for one in found.instances)
    return (
        f"{comment}#pragma once\n\n#include <cstdint>\n\nnamespace {space} {{\n\n"
        f"// Those that most shapes take first: try the next one where a kernel refuses a call.\n"
        f"enum class Instance {{\n{listed}}};\n\ninline constexpr const char* names[] = {{\n{names}}};\n\n"
        f"constexpr Instance choose({arguments})\n{{\n{unused}{_cpp_tree(found.tree, enumerators, 1)}}}\n\n"
        f"}}  // namespace {space}\n"
    )


def _cpp_tree(tree: Tree, enumerators: Mapping[str, str], depth: int) -> str:
    indent = "    " * depth
    if isinstance(tree, Leaf):
        return f"{indent}return Instance::{enumerators[tree.instance]};\n"
    below = _cpp_tree(tree.below, enumerators, depth + 1)
    above = _cpp_tree(tree.above, enumerators, depth)
    return f"{indent}if ({' * '.join(tree.sizes)} <= {tree.limit}) {{\n{below}{indent}}}\n{above}"


def _enumerators(instances: Sequence[str]) -> dict[str, str]:
    """A distinct C++ identifier for each instance."""
    found: dict[str, str] = {}
    for number, instance in enumerate(instances, 1):
        name = f"k_{_identifier(instance)}"
        found[instance] = name if name not in found.values() else f"{name}_{number}"
    return found


def _identifier(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
