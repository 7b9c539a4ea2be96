"""Sums of products of names with whole coefficients: indices and sizes of tensors, so that they can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Polynomial:
    """`terms` are coefficients, none of them 0, by the sorted names that they are multiplied with."""

    terms: Mapping[tuple[str, ...], int]

    @classmethod
    def of(cls, value: str | int) -> Polynomial:
        """A name or a number."""
        if isinstance(value, str):
            return cls({(value,): 1})
        return cls({(): value} if value else {})

    def __add__(self, other: Polynomial) -> Polynomial:
        found = dict(self.terms)
        for names, coefficient in other.terms.items():
            found[names] = found.get(names, 0) + coefficient
        return Polynomial({names: coefficient for names, coefficient in found.items() if coefficient})

    def __neg__(self) -> Polynomial:
        return Polynomial({names: -coefficient for names, coefficient in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        found = Polynomial({})
        for names, coefficient in self.terms.items():
            found += Polynomial({tuple(sorted(names + one)): coefficient * by for one, by in other.terms.items()})
        return found

    @property
    def number(self) -> int | None:
        """The value, where no names are in it."""
        return self.terms.get((), 0) if set(self.terms) <= {()} else None

    @property
    def names(self) -> set[str]:
        """The names in it."""
        return {name for names in self.terms for name in names}

    @property
    def factor(self) -> int:
        """The greatest number that divides all coefficients."""
        return gcd(*self.terms.values())

    def divided(self, by: Polynomial) -> Polynomial | None:
        """The quotient by a single product, where nothing is left."""
        if len(by.terms) != 1:
            return Polynomial.of(1) if self == by else None
        ((divisor, number),) = by.terms.items()
        found: dict[tuple[str, ...], int] = {}
        for names, coefficient in self.terms.items():
            left = list(names)
            for name in divisor:
                if name not in left:
                    return None
                left.remove(name)
            if coefficient % number:
                return None
            found[tuple(left)] = coefficient // number
        return Polynomial(found)

    def coefficient_of(self, name: str) -> Polynomial | None:
        """The factor of a name; None where it is not linear."""
        found: dict[tuple[str, ...], int] = {}
        for names, coefficient in self.terms.items():
            if names.count(name) > 1:
                return None
            if name in names:
                found[tuple(one for one in names if one != name)] = coefficient
        return Polynomial(found)

    def without(self, names: Iterable[str]) -> Polynomial:
        """The terms in which none of the names is."""
        left_out = set(names)
        return Polynomial({one: coefficient for one, coefficient in self.terms.items() if not left_out & set(one)})

    def replaced(self, value: Callable[[str], Polynomial]) -> Polynomial:
        """The polynomial with values in place of names."""
        found = Polynomial({})
        for names, coefficient in self.terms.items():
            product = Polynomial.of(coefficient)
            for name in names:
                product *= value(name)
            found += product
        return found

    @property
    def is_least(self) -> bool:
        """True where it is 0 or more for all names that are."""
        return all(coefficient >= 0 for coefficient in self.terms.values())

    def __str__(self) -> str:
        words = ""
        for names, coefficient in sorted(self.terms.items(), key=lambda one: (-len(one[0]), one[1] < 0, one[0])):
            factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not names else []
            words += (" - " if coefficient < 0 else " + " if words else "") + " * ".join((*factors, *names))
        return words.strip() or "0"
