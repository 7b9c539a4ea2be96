"""Merges the errors of several toolchains: what all have is shown once, anything else with the names of those that have
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ckwatch.model.diagnostics import Diagnostic, Severity

Found = tuple[Diagnostic, ...]


def with_other_toolchains(own: Found, main: str | None, others: Mapping[str, Found | None]) -> Found:
    """Return the messages of the toolchain called `main` with the errors of others; None for what is not known yet.

    `main` is None where its messages say nothing of the kernel. Errors are equal that say the same at one place.
    """
    errors = {_key(one) for one in own if one.severity is Severity.ERROR}
    names: dict[object, dict[str, Diagnostic]] = {}
    for name, found in others.items():
        for one in found or ():
            if one.severity is Severity.ERROR:
                names.setdefault(_key(one), {}).setdefault(name, one)
    complete = main is not None and None not in others.values()
    everyone = len(others) + (main is not None)
    shown = []
    for one in own:
        having = [*([] if main is None else [main]), *names.get(_key(one), {})]
        is_error = one.severity is Severity.ERROR and main is not None
        shown.append(_named(one, having, everyone) if is_error and complete else one)
    foreign = {key: found for key, found in names.items() if key not in errors}
    return (*shown, *(_named(next(iter(found.values())), list(found), everyone) for found in foreign.values()))


def of_toolchain(found: Found, name: str) -> Found:
    """Return the messages that concern one toolchain."""
    return tuple(one for one in found if not one.toolchains or name in one.toolchains)


def _key(one: Diagnostic) -> object:
    return one.span, one.code, one.message


def _named(one: Diagnostic, names: list[str], everyone: int) -> Diagnostic:
    """The error with the toolchains that have it, unless `everyone` has."""
    if len(names) == everyone:
        return one
    words = f"only with {names[0]}" if len(names) == 1 else f"with {', '.join(names[:-1])} and {names[-1]} only"
    return replace(one, message=f"{words}: {one.message}", toolchains=tuple(names))
