"""A condition of a sweep as the walk over its combinations sees it, apart from the language it is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ckwatch.config.document import KeyPath
from ckwatch.config.mistakes import described
from ckwatch.model.kernel import ParameterValue


class ConditionError(Exception):
    """A condition that fails for some values; the message says how."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, the parameters that it mentions, and where it stands. `evaluate` raises ValueError."""

    text: str
    names: frozenset[str]
    path: KeyPath
    evaluate: Callable[[Mapping[str, ParameterValue]], Any]

    def holds(self, values: Mapping[str, ParameterValue]) -> bool:
        """Whether it holds for `values`. Raises ConditionError where that is no question of yes or no."""
        mentioned = {name: values[name] for name in self.names}
        try:
            outcome = self.evaluate(mentioned)
        except ValueError as error:
            raise ConditionError(f"`{self.text}` fails for {_assignments(mentioned)}: {error}") from None
        if not isinstance(outcome, bool):
            raise ConditionError(
                f"`{self.text}` is {described(outcome)} for {_assignments(mentioned)}, neither true nor false; "
                "write a comparison such as `… == 0`"
            )
        return outcome


def _assignments(values: Mapping[str, ParameterValue]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(values.items())) or "all values"
