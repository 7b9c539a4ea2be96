"""Foundations of the compile benchmarks: edits that stay what they claim to be, and honest measuring of memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import choosing
from benchmarks.edit_to_artifact import edition
from benchmarks.first_error import DEVICE_SEES, HOST_SEES
from benchmarks.gemm_example import BASE, EIGHT, ONE, TILES, Example, Parameters
from benchmarks.process_memory import peak_below
from benchmarks.process_tree import below, end_tree
from ckwatch.cli import main
from fakes.patience import PATIENCE_S

_ROWS: Mapping[str, tuple[Mapping[str, Parameters], Parameters, Parameters, set[str]]] = {
    "eight as they are": (EIGHT, BASE, {}, set()),
    "eight with another tile": (EIGHT, edition(0), {}, set()),
    "waves that do not divide the tile": (ONE, BASE, HOST_SEES, {"rule/m-per-block"}),
    "more threads in the cluster than in the block": (ONE, BASE, DEVICE_SEES, {"rule/a-cluster-threads"}),
}


@pytest.mark.parametrize("name", _ROWS)
def test_rules_take_what_must_compile_and_refuse_what_must_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    instances, defaults, changes, refused = _ROWS[name]
    example = Example(tmp_path / "gemm", instances)
    example.make()
    example.kernel_file.write_text(example.kernel_text(defaults, changes))
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
    assert main(["check", str(example.root), "--no-daemon", "--trust", "--json"]) == bool(refused)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    units = [line for line in lines if line["event"] == "unit"]
    assert {unit["unit"] for unit in units} == set(example.units)
    assert {found["code"] for unit in units for found in unit["diagnostics"]} == refused


def test_the_mistake_is_in_the_exported_function_and_the_edition_in_front_of_it(tmp_path: Path) -> None:
    plain = Example(tmp_path, ONE).template_text()
    wrong = Example(tmp_path, ONE).template_text("(void)undeclared;")
    assert wrong.replace("    (void)undeclared;\n", "") == plain
    assert wrong.index("constexpr int edition") < wrong.index("def_kernel(") < wrong.index("(void)undeclared;")


def test_an_edition_is_used_once() -> None:
    texts = {Example(Path("/nowhere"), ONE).kernel_text(edition(number)) for number in range(2 * len(TILES))}
    assert len(texts) == 2 * len(TILES)


def test_the_peak_counts_grandchildren_and_not_the_process_itself() -> None:
    allocates = "import sys; data = b'x' * 60_000_000; print('there', flush=True); sys.stdin.read()"
    parent = (
        "import subprocess, sys; own = b'y' * 60_000_000; "
        f"sys.exit(subprocess.call([sys.executable, '-c', {allocates!r}]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        with peak_below(process.pid) as peak:
            assert process.stdout.readline() == "there\n"
            assert len(below(process.pid)) == 1
            samples, deadline = peak.samples, time.monotonic() + PATIENCE_S
            while peak.samples < samples + 2 and time.monotonic() < deadline:
                pass
        process.stdin.close()
        assert process.wait() == 0
    assert 60e6 < peak.bytes < 110e6


def test_all_below_a_process_end_with_it_in_whatever_session() -> None:
    child = "import sys; print('there', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {child!r}], start_new_session=True)"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        end_tree(process.pid)
        assert process.stdout.read() == ""  # nobody is left who could write
        assert process.wait() == -9


def test_the_command_line_takes_programs_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choosing.RUNS, "5")
    words = ["idle", "first_error", "--runs", "1"]
    assert choosing.arguments(None, ("first_error", "idle"), words) == ["idle", "first_error"]
    assert choosing.asked_runs() == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["idel"], "no benchmark is called idel; there are first_error, idle"),
        (["--runs", "0"], "--runs takes a number from 1"),
    ],
)
def test_the_command_line_says_what_is_wrong(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        choosing.arguments(None, ("first_error", "idle"), given)
    assert said in capsys.readouterr().err
