"""Compares a kernel's result with what is right, and says what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.storage import Doubles, Mask
from ckwatch.bench.numerics.tolerance import INTEGERS, LARGEST, StatedTolerance, Tolerance, half_subnormal, range_of
from ckwatch.bench.report import FailureKind
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES

SHOWN = 5
"""Wrong elements that are named one by one."""

LEAST_ALIKE = 16
"""Number of elements from which a common factor is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """A right result. `worst_error` is the largest |y - reference| / (atol + rtol · |reference|): at most 1.

    `error` is the root mean square of all errors and `drift` their mean, positive away from zero, in units of what the
    former may be.
    """

    compared: int
    worst_error: float
    rtol: float
    atol: float
    error: float = 0.0
    drift: float = 0.0

    @classmethod
    def of_all(cls, checks: Sequence[OutputCheck]) -> OutputCheck:
        """The check of several outputs, at least one: the tolerance is that of the worst one, as errors and drift."""
        worst = max(checks, key=lambda check: check.worst_error)
        return replace(
            worst,
            compared=sum(check.compared for check in checks),
            error=max(check.error for check in checks),
            drift=max((check.drift for check in checks), key=abs),
        )


@dataclass(frozen=True, slots=True)
class WrongElement:
    """An element of the buffer `buffer`, `offset` elements from its beginning; `text` has its name and its values."""

    buffer: str
    offset: int
    text: str


class WrongResultError(Exception):  # becomes a `Failure`
    """The kernel's result is WRONG, UNWRITTEN or OUT_OF_BOUNDS; `detail` names places and values, `element` is the
    wrong one that it names first."""

    def __init__(self, kind: FailureKind, message: str, detail: str = "", element: WrongElement | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.detail = detail
        self.element = element


class ExpectedOutput:
    """The right values of an output, or of a part of it, and how far a result may be from them.

    `magnitude`: what the tolerance is relative to, element by element, `of_all` the same of the whole output, where
    `expected` is a part; NaN in `expected`: any value is right.
    """

    def __init__(
        self,
        name: str,
        dtype: str,
        expected: Doubles,
        magnitude: Doubles,
        tolerance: Tolerance | StatedTolerance,
        fnuz: bool,
        of_all: Doubles | None = None,
    ) -> None:
        if dtype in INTEGERS:
            expected = np.rint(expected)
        self.expected = expected
        self._counts = ~np.isnan(expected)
        self._name = name
        self._dtype = dtype
        self._fnuz = fnuz
        self._relative = tolerance.relative
        self._ulp = 0.0
        self._magnitude = magnitude
        self._floor = math.inf if isinstance(tolerance, StatedTolerance) else tolerance.floor
        if isinstance(tolerance, StatedTolerance):
            self._absolute, self._mean_allowed = tolerance.absolute, math.inf
            self._ulp = max(tolerance.ulp, 0.5)
            return
        measured = magnitude[self._counts] if of_all is None else of_all
        self._absolute = tolerance.floor + tolerance.relative * float(measured.max(initial=0.0))
        self._mean_allowed = tolerance.floor + tolerance.relative * root_mean_square(measured)

    @property
    def allowance(self) -> tuple[float, float, float, float]:
        """The most that a result may be off, relatively, absolutely and in units of the last place, and the root mean
        square of all errors of a whole output."""
        mean = max(self._mean_allowed, self._mean_of(self._counts))
        return self._relative, self._absolute, self._ulp, mean

    def check(
        self,
        found: Doubles,
        written: Mask | None,
        *,
        whole: bool,
        span: Callable[[Mask], str],
        name_of: Callable[[int], str],
        offset_of: Callable[[int], int],
    ) -> OutputCheck:
        """Compare the values `found`, of which `written` alone count if that is given.

        `whole`: they are the whole output; `span` says where the elements of a mask are, `name_of` is the name of one,
        `offset_of` its offset in its buffer. Raises WrongResultError.
        """
        counted = self._counts if written is None else self._counts & written
        differences, errors = self._errors(found)
        errors = np.where(counted, np.where(np.isnan(found), math.inf, errors), 0.0)
        wrong = errors > 1
        if wrong.any():
            of = errors.size if written is None else int(np.count_nonzero(counted))
            compared = f"{of:,} elements" if whole else f"{of:,} compared elements"
            raise self._wrong(found, errors, wrong, compared, span(wrong), name_of, offset_of)
        allowed = max(self._mean_allowed, self._mean_of(counted))
        if (mean := root_mean_square(differences[counted])) > allowed:
            raise WrongResultError(
                FailureKind.WRONG,
                f"the elements of {self._name} are too far from the reference, all in all",
                f"root mean square of the errors {mean:.3g}, allowed {allowed:.3g}; no single element is "
                f"beyond its own tolerance ({self._tolerance_text()})" + self._similarity(found),
            )
        used = differences[counted] / allowed if 0 < allowed < math.inf else errors[counted]
        outwards = np.where(np.abs(found) >= np.abs(self.expected), 1.0, -1.0)[counted]
        return OutputCheck(
            compared=int(np.count_nonzero(counted)),
            worst_error=float(errors.max(initial=0.0)),
            rtol=self._relative,
            atol=self._absolute,
            error=root_mean_square(used),
            drift=float((used * outwards).mean()) if used.size else 0.0,
        )

    def _mean_of(self, some: Mask) -> float:
        """Return what the root mean square of the errors of some elements may be."""
        return self._floor + self._relative * root_mean_square(self._magnitude[some])

    def _errors(self, found: Doubles) -> tuple[Doubles, Doubles]:
        """|y - reference|, and the same in units of what it may be."""
        low, high = range_of(self._dtype, self._fnuz)
        expected = self.expected if math.isinf(high) else np.clip(self.expected, low, high)
        equal = found == expected
        if self._dtype in LARGEST:
            # too large for the output: its infinity and its largest value are both right
            limit = LARGEST[self._dtype]
            equal |= (np.abs(expected) > limit) & (np.abs(found) >= limit) & (found * expected > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            differences = np.where(equal, 0.0, np.abs(found - expected))
            errors = np.where(equal, 0.0, differences / self._allowed(expected))
        return differences, np.where(np.isinf(expected) & ~equal, math.inf, errors)

    def _allowed(self, expected: Doubles) -> Doubles:
        allowed: Doubles = self._absolute + self._relative * np.abs(expected)
        mantissa = DTYPES[self._dtype].mantissa_bits
        if not self._ulp or not mantissa:
            return allowed
        # of the binade above, since a result may have been rounded up to it
        largest = np.where(np.isfinite(expected), np.abs(expected) + allowed, 0.0)
        exponents = np.where(largest > 0, np.frexp(largest)[1], -1000)
        last_place = np.maximum(np.ldexp(1.0, exponents - 1 - mantissa), 2 * half_subnormal(self._dtype, self._fnuz))
        wider: Doubles = np.maximum(allowed + last_place / 2, self._ulp * last_place)
        return wider

    def _wrong(
        self,
        found: Doubles,
        errors: Doubles,
        wrong: Mask,
        compared: str,
        where: str,
        name_of: Callable[[int], str],
        offset_of: Callable[[int], int],
    ) -> WrongResultError:
        worst = int(np.argmax(errors))
        shown = dict.fromkeys((worst, *np.flatnonzero(wrong)[:SHOWN].tolist()))
        elements = [
            f"{name_of(place)} is {found.flat[place]:.9g}, reference {self.expected.flat[place]:.9g}" for place in shown
        ]
        texts = [f"tolerance: {self._tolerance_text()}", f"wrong are {where}", *elements]
        return WrongResultError(
            FailureKind.WRONG,
            f"{np.count_nonzero(wrong):,} of {compared} of {self._name} are wrong",
            "\n".join(texts) + self._similarity(found),
            WrongElement(self._name, offset_of(worst), elements[0]),
        )

    def _tolerance_text(self) -> str:
        ulp = f", or {self._ulp:g} ulp" if self._ulp > 0.5 else ""
        return f"{self._absolute:.3g} + {self._relative:.3g} · |reference|{ulp}"

    def _similarity(self, found: Doubles) -> str:
        """A line that describes the wrong result, if it has a simple pattern."""
        found, expected = found[self._counts], self.expected[self._counts]
        if not found.any():
            return f"\nall elements of {self._name} are 0"
        factor = _common_factor(found, expected)
        return "" if factor is None else f"\nthe elements are about {factor:.4g} times the reference"


def root_mean_square(values: Doubles) -> float:
    """0 for no values."""
    if not values.size:
        return 0.0
    with np.errstate(over="ignore"):
        return math.sqrt(float(np.mean(np.square(values))))


def span_text(indices: npt.NDArray[np.intp]) -> str:
    """`3 to 1,024`."""
    return f"{int(indices.min()):,} to {int(indices.max()):,}"


def _common_factor(found: Doubles, expected: Doubles) -> float | None:
    """Return the common factor of all of `found` relative to `expected`, if they are about the same part of it."""
    clear = np.isfinite(found) & (np.abs(expected) > 0.1 * np.abs(expected).max(initial=0.0))
    if np.count_nonzero(clear) < LEAST_ALIKE:
        return None
    ratios = found[clear] / expected[clear]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return float(middle) if math.isfinite(middle) and abs(high - low) <= 0.02 * abs(middle) else None
