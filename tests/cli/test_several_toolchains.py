"""`check` and `build` with `--toolchain`: what is printed, and the exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benches.daemon_bench import Bench
from benches.old_toolchain import NEW_API, with_old_toolchain
from ckwatch.cli import main
from cli.test_json_output import types_of

FAILED = [f"  failed  k/{name}@gfx942  rocm-1.0 checked, ../old failed" for name in ("one", "two")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = with_old_toolchain(Bench(tmp_path))
    monkeypatch.chdir(made.root)
    return made


def run(bench: Bench, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    status = main([*words], connected=bench.connected)
    found = capsys.readouterr()
    return status, re.sub(r" in [\d.]+ s$", "", found.out + found.err, flags=re.MULTILINE)


def test_a_check_with_all_says_which_fails_where(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write("templates/k.hip.j2", NEW_API)
    status, printed = run(bench, capsys, "check", "--toolchain", "all")
    assert status == 1
    lines = printed.splitlines()
    assert sorted(lines[:2]) == FAILED
    assert lines[2].startswith("templates/k.hip.j2:3:1: error: only with ../old: no member named 'SINCE'")
    assert lines[-3:] == ["2 units: 2 failed", "rocm-1.0: 2 checked", "../old: 2 failed"]


def test_a_build_with_one_names_its_files(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = run(bench, capsys, "build", "k/one", "--toolchain", "../old", "--json")
    lines = [json.loads(line) for line in printed.splitlines()]
    assert status == 0
    assert [types_of("build", line) for line in lines] == [{"BuildStarted"}, {"BuiltUnit"}, {"BuildSummary"}]
    (found,) = lines[1]["toolchains"]
    assert (found["name"], found["outcome"], lines[1]["products"]) == ("../old", "built", {})
    assert Path(found["products"]["shared-object"]).is_file()
    assert lines[2]["toolchains"] == {"../old": {"built": 1}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "--toolchain", "../older"), "older"),
        (("build", "--toolchain", "all", "--out", "out"), "--out is for the workspace's own toolchain"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(
    bench: Bench, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    status, printed = run(bench, capsys, *words)
    assert status == 2
    assert message in printed
    assert bench.runs == []
