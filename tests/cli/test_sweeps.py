"""Output of `check` and `explain` on combinations that a sweep skips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.sweeps import sweep_table, swept_workspace
from ckwatch.cli import main

REASON = "MPerBlock % (MPerXdl * MXdlPerWave) == 0"


@pytest.fixture
def root(trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "w"


def test_one_message_for_all(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept_workspace(root, sweep_table([2, 3]))
    assert main(["check", "-C", str(root)]) == 0
    printed = capsys.readouterr().out
    assert printed.count(f"info: 1 of 2 combinations are skipped, which break rules: 1 × {REASON}") == 1
    assert "error" not in printed
    assert "3 units: 2 checked, 1 skipped in" in printed


def test_in_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept_workspace(root, sweep_table([2, 3]))
    assert main(["check", "-C", str(root), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    units = {line["unit"]: line for line in lines if line["event"] == "unit"}
    assert [units[f"k/{name}@gfx942"]["outcome"] for name in ("one", "s_2", "s_3")] == ["checked", "checked", "skipped"]
    assert "rule/m-per-block" in {found["code"] for found in units["k/s_3@gfx942"]["diagnostics"]}
    own = [line["code"] for line in lines if line["event"] == "diagnostic"]
    assert own == ["kernel-file/skipped-combinations"] or own[-1] == "kernel-file/skipped-combinations"
    assert lines[-1]["skipped"] == 1


def test_nothing_is_left(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept_workspace(root, sweep_table([3, 5]))
    assert main(["check", "-C", str(root)]) == 1
    printed = capsys.readouterr().out
    assert "error: sweep `s` makes nothing that can be compiled: all 2 combinations break rules" in printed


def test_why_a_unit_is_skipped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = '[sweep.derived]\nMXdlPerWave = "MPerBlock // 64"\n'
    table = f'[[sweep]]\nname = "s"\n[sweep.parameters]\nMPerBlock = [128, 200]\n{more}'
    path = swept_workspace(root, table)
    assert main(["explain", "k/s_200", "-C", str(root)]) == 0
    printed = capsys.readouterr().out
    line = path.read_text().splitlines().index('MXdlPerWave = "MPerBlock // 64"') + 1
    assert f"MXdlPerWave = 3  (k.kernel.toml:{line}:15)" in printed
    assert "skipped by its sweep: an instance rule refuses it" in printed
    assert REASON in printed
