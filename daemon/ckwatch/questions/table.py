"""All endpoints, and tables of what answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.endpoint import AnyEndpoint, Endpoint
from ckwatch.questions.timings import TimingQuestions
from ckwatch.questions.units import UnitQuestions
from ckwatch.questions.workspace import WorkspaceQuestions

Answers = Mapping[AnyEndpoint, Callable[..., Any]]
"""The function that answers each endpoint."""

ENDPOINTS: tuple[AnyEndpoint, ...] = tuple(
    one
    for group in (WorkspaceQuestions, UnitQuestions, TimingQuestions, ClientQuestions)
    for one in vars(group).values()
    if isinstance(one, Endpoint)
)


def answers(*rows: tuple[AnyEndpoint, Callable[..., Any]]) -> Answers:
    """A table of answers. Raises TypeError for a function that does not take what its endpoint gives it."""
    import inspect

    for endpoint, function in rows:
        given = {one.name: None for one in endpoint.arguments}
        if endpoint.viewed:
            given["scope"] = None
        try:
            inspect.signature(function).bind(**given)
        except TypeError as error:
            raise TypeError(f"{endpoint.name} is not answered by {function}: {error}") from None
    return dict(rows)
