"""Results that are remembered: the last few of each unit, the newest first."""

from __future__ import annotations

from pathlib import Path

from ckwatch.bench.history.results import KEPT, ResultFiles, StoredResult
from ckwatch.bench.history.runs import History

FILES = ResultFiles({"/ws/t": "0"}, (), "headers", {}, ())


def result(unit: str, key: str) -> StoredResult:
    return StoredResult(unit, FILES, "tokens", key, 1, 1.0, 2.0, 3).sealed(key.encode())


def test_the_last_ones_are_kept_and_one_found_again_is_the_newest(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    history.open()
    for number in range(KEPT + 1):
        history.results.put([result("a", str(number))])
    history.results.put([result("a", "2"), result("b", "other")])
    found = history.results.all()
    assert [one.key for one in found["a"]] == ["2", "4", "3", "1"]
    assert [one.has_input(b"2") for one in found["a"]] == [True, False, False, False]
    assert [one.key for one in found["b"]] == ["other"]
    history.close()
