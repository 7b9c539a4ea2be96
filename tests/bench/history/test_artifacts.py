"""Which artifacts units had: the last one, the one before it, and how many are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.bench.history.artifacts import KEPT, Artifacts
from ckwatch.bench.history.runs import History

UNIT, OTHER = "k/a@gfx942", "k/\udcff@gfx942"


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "history.sqlite")
    made.open()
    yield made
    made.close()


@pytest.fixture
def artifacts(history: History) -> Artifacts:
    return history.artifacts


def add(artifacts: Artifacts, *keys: str, unit: str = UNIT, form: int = 1) -> None:
    for key in keys:
        artifacts.add(unit, key, 1.5, f"figures of {key}", form=form)


@pytest.mark.parametrize(
    ("had", "now", "before"),
    [
        ((), "a", None),
        (("a",), "a", None),
        (("a",), "b", "a"),
        (("a", "b"), "b", "a"),
        (("a", "b"), "a", "b"),
        (("a", "b", "a"), "a", "b"),
        (("a", "b", "a"), "c", "a"),
    ],
)
def test_the_one_before_is_the_last_other_one(
    artifacts: Artifacts, had: tuple[str, ...], now: str, before: str | None
) -> None:
    add(artifacts, *had)
    add(artifacts, "z", unit=OTHER)
    assert artifacts.before(UNIT, now) == before


def test_the_last_of_each_unit(artifacts: Artifacts) -> None:
    add(artifacts, "a", "b")
    add(artifacts, "z", unit=OTHER)
    assert artifacts.latest([UNIT, OTHER, "k/none@gfx942"], form=1) == {
        UNIT: ("b", "figures of b"),
        OTHER: ("z", "figures of z"),
    }
    assert artifacts.latest([OTHER], form=1) == {OTHER: ("z", "figures of z")}


def test_another_format_is_not_read(artifacts: Artifacts) -> None:
    add(artifacts, "a")
    add(artifacts, "b", form=2)
    assert artifacts.latest([UNIT], form=1) == {}, "the last one counts"
    assert artifacts.latest([UNIT], form=2) == {UNIT: ("b", "figures of b")}
    assert artifacts.before(UNIT, "b") == "a"


def test_another_process_finds_them(artifacts: Artifacts, history: History) -> None:
    add(artifacts, "a", "b")
    other = History(history.path)
    other.open()
    assert other.artifacts.before(UNIT, "b") == "a"
    other.close()


def test_the_oldest_are_dropped(artifacts: Artifacts, history: History) -> None:
    keys = [f"a{number}" for number in range(KEPT + 5)]
    add(artifacts, *keys)
    add(artifacts, "z", unit=OTHER)
    history.prune()
    assert artifacts.latest([UNIT, OTHER], form=1).keys() == {UNIT, OTHER}
    artifacts.prune(keep=1)
    assert artifacts.before(UNIT, keys[-1]) is None
