"""A few rounds of each part of `make torture`, the same in every run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torture.__main__ import PARTS, run_apart
from torture.bystander import Illtreated, remove
from torture.rounds import Rounds

ROUNDS = {"kill": 3, "http": 6, "lsp": 8, "templates": 60, "files": 6, "limits": 4, "emulator": 20, "commands": 2}


@pytest.mark.timeout(900)  # the emulator is built with sanitizers
@pytest.mark.parametrize("name", PARTS)
def test_some_rounds(tmp_path: Path, name: str) -> None:
    summary, good = run_apart(name, 0, 600, tmp_path / "findings", limit=ROUNDS[name])
    assert good, summary
    assert re.search(rf"\b{ROUNDS[name]} rounds\b", summary)


def test_what_is_found_can_be_played_again(tmp_path: Path) -> None:
    def play(limit: int | None = None, only: int | None = None) -> tuple[Rounds, dict[int, int]]:
        rounds = Rounds("part", tmp_path, tmp_path / "findings", 7, limit=limit, only=only, report=lambda _: None)
        drawn = {}
        for chance in rounds:
            drawn[rounds.number] = number = chance.randrange(1000)
            rounds.using(f"input {number}")
            with rounds.watched():
                if rounds.number == 3:
                    raise ValueError("bad luck")
        return rounds, drawn

    first, drawn = play(limit=5)
    assert (first.done, first.found) == (5, ["round 3: ValueError: bad luck"])
    saved = (tmp_path / "findings/part-7-3").read_text()
    assert f"input {drawn[3]}" in saved
    again, same = play(only=3)
    assert (again.done, again.found, same) == (1, first.found, {3: drawn[3]})


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    bench = Illtreated(tmp_path / "bench")
    templates = bench.root / "templates"
    remove(templates)
    templates.symlink_to(outside)
    with pytest.raises(RuntimeError, match="behind a link"):
        remove(templates / "kept")
    bench.mend()
    assert (outside / "kept").exists()
    assert not templates.is_symlink()
