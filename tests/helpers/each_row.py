"""Many rows in one test, where a row takes less time than to collect and report a test of its own."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = 120
_Param = type(pytest.param())


def each_row(
    names: str | Sequence[str], values: Iterable[Any] | Callable[[], Iterable[Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test with each row, as `pytest.mark.parametrize` would, and raise all failures with their rows.

    A function that makes the rows is called by the test: each process of a test run collects all tests, and runs few.
    """
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def rows(values: Iterable[Any]) -> list[Any]:
        return [each.values if isinstance(each, _Param) else each if len(listed) > 1 else (each,) for each in values]

    known = None if callable(values) else rows(values)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def with_all(**fixtures: Any) -> None:
            table = rows(values()) if callable(values) else known or []
            failures = []
            for cells in table:
                row = dict(zip(listed, cells, strict=True))
                try:
                    test(**row, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # what fails is raised at the end
                    error.add_note(f"in the row {', '.join(f'{name}={SHOWN.repr(row[name])}' for name in listed)}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)
            assert table, "there are no rows"

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in listed]
        with_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return with_all

    return decorated
