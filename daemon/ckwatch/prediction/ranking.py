"""Ranks the instances of a kernel by their predicted times on one shape, and says why each has its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.prediction.predict import Prediction, PredictionTarget, predict
from ckwatch.prediction.times import Bottleneck

TIED = 0.01
"""Predicted times that differ by less than this part share a place: the model cannot tell them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingCandidate:
    """An instance to rank. `report` None: there is no code object, and `why_not` says why; the parameters alone may
    give it a place, unless it does not compile (`fails`)."""

    name: str
    parameters: Mapping[str, ParameterValue]
    report: CodeObjectReport | None = None
    why_not: str = ""
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedInstance:
    """An instance in the ranking. `place` counts from 1, ties share one and are `tied`; None: it has none, and
    `because` says why.

    `ratio` of its time to the first's; `because`: what sets it apart from the first, or what limits the first.
    """

    name: str
    place: int | None
    prediction: Prediction
    ratio: float | None
    because: str
    tied: bool = False


def rank(
    entries: Iterable[RankingCandidate], problem: KernelProblem, target: PredictionTarget
) -> tuple[RankedInstance, ...]:
    """The entries by predicted time, those without one at the end by their bound.

    Within a tie, and where nothing but the order is left to say, what is next to become the limit decides: the sum of
    the times that each resource would need alone.
    """
    predicted = [(entry, predict(entry.report, entry.parameters, problem, target)) for entry in entries]
    timed = [(entry, found) for entry, found in predicted if _has_place(entry, found)]
    timed.sort(key=lambda row: (row[1].time_us or 0.0, sum(row[1].terms.values()), row[0].name))
    groups: list[list[tuple[RankingCandidate, Prediction]]] = []
    for row in timed:
        leader = groups[-1][0][1].time_us if groups else None
        if leader is not None and (row[1].time_us or 0.0) < leader * (1 + TIED):
            groups[-1].append(row)
        else:
            groups.append([row])
    for group in groups:
        group.sort(key=lambda row: (_formula_time(row[1]), sum(row[1].terms.values()), row[0].name))
    placed: list[RankedInstance] = []
    for group in groups:
        place = len(placed) + 1
        tied = len(group) > 1
        placed += [_placed(entry, found, place, groups[0][0][1], tied=tied) for entry, found in group]
    rest = [(entry, found) for entry, found in predicted if not _has_place(entry, found)]
    rest.sort(key=lambda row: (row[1].bound_us is None, row[1].bound_us or 0.0, row[0].name))
    return (*placed, *(_unplaced(entry, found) for entry, found in rest))


def _has_place(entry: RankingCandidate, found: Prediction) -> bool:
    return found.time_us is not None and not entry.fails


def _formula_time(found: Prediction) -> float:
    """Return the time that decides within a tie: the time itself if it counts all resources together."""
    return (found.time_us or 0.0) if found.formula_us is not None else 0.0


def _placed(entry: RankingCandidate, found: Prediction, place: int, first: Prediction, *, tied: bool) -> RankedInstance:
    ratio = (found.time_us or 0.0) / (first.time_us or 1.0)
    because = _because(found, first, tied=place == 1)
    return RankedInstance(name=entry.name, place=place, prediction=found, ratio=ratio, because=because, tied=tied)


def _because(found: Prediction, first: Prediction, *, tied: bool) -> str:
    if found is first:
        return "; ".join(found.why)
    return _tied(found, first) if tied else _slower(found, first)


def _unplaced(entry: RankingCandidate, found: Prediction) -> RankedInstance:
    because = entry.why_not or "; ".join(found.notes)
    return RankedInstance(name=entry.name, place=None, prediction=found, ratio=None, because=because)


def _tied(found: Prediction, first: Prediction) -> str:
    if found.formula_us is not None and found.why:
        return f"nearly as fast; {found.why[0]}"
    if found.limited_by is not first.limited_by:
        return f"as fast, by another limit: {found.why[0]}"
    if found.limited_by in (Bottleneck.LOOP, Bottleneck.MATRIX):
        return "as fast"
    return f"as fast: {found.limited_by} limits both"


def _slower(found: Prediction, first: Prediction) -> str:
    """Name the main reason for the difference: another limit, or the factor of the computing time that differs most."""
    if found.formula_us is not None:
        return "; ".join(found.why)
    computing = (Bottleneck.LOOP, Bottleneck.MATRIX)
    if found.limited_by not in computing or first.limited_by not in computing:
        # what loses the work is reported too, where that is what makes computing the limit
        return "; ".join(found.why)
    ours, theirs = _factors(found), _factors(first)
    worst = max(ours, key=lambda name: log(theirs[name] / ours[name]), default="")
    if not worst or ours[worst] >= theirs[worst]:
        return "; ".join(found.why)
    others = [name for name in ours if name != worst and theirs[name] / ours[name] > 1.02]
    words = [f"{name} {100 * ours[name]:.0f} % against {100 * theirs[name]:.0f} %" for name in (worst, *others)]
    return ", ".join(words)


def _factors(found: Prediction) -> dict[str, float]:
    """Return the factors that reduce the peak where computing is the limit; none of them is 0."""
    factors = {"matrix use of the loop": found.matrix_use or 1.0}
    if found.quantisation is not None:
        factors["CUs in use (wave quantization)"] = found.quantisation.balance
        factors["work that is not padding"] = found.quantisation.useful
    return factors
