"""Figures of code objects, as commands print them; the compiler is a script that leaves code objects that clang made."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benches.daemon_bench import KERNEL
from ckwatch.cli import main
from ckwatch.client import Client
from engine.code_workspace import CodeBench, with_figures

Capture = pytest.CaptureFixture[str]
UNIT = "k/one@gfx942"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeBench:
    made = CodeBench(tmp_path)
    made.compiles_to(with_figures(vgpr_spill_count=9), tile=2)
    made.compiles_to(with_figures(vgpr_count=200), tile=3)

    monkeypatch.chdir(tmp_path)
    return made


def run(bench: CodeBench, *arguments: str, connected: Callable[..., Any] | None = None) -> int:
    command = [*arguments, "-C", str(bench.root), "--color", "never"]
    return main(command, connected=connected or bench.connected)


def test_a_build_prints_warnings_and_does_not_fail_for_them(bench: CodeBench, capsys: Capture) -> None:
    assert run(bench, "build", "k") == 0
    printed = capsys.readouterr().out
    line = KERNEL.splitlines().index('name = "two"') + 1
    assert f"k.kernel.toml:{line}:8: warning: 9 VGPRs spilled [performance/spill]" in printed
    assert "2 units: 2 built" in printed


def test_a_build_as_json_has_figures(bench: CodeBench, capsys: Capture) -> None:
    assert run(bench, "build", "k", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    units = {line["unit"]: line for line in lines if line["event"] == "unit"}
    figures = units[UNIT]["figures"]
    assert (figures["vgprs"], figures["occupancy"], figures["limited_by"], figures["standing"]) == (
        194, 2, "VGPR", "fresh",
    )  # fmt: skip
    assert [found["code"] for found in units["k/two@gfx942"]["diagnostics"]] == ["performance/spill"]
    bench.write("templates/k.hip.j2", "BROKEN\n")
    assert run(bench, "build", "k/one", "--json") == 1
    (unit,) = [
        line for line in map(json.loads, capsys.readouterr().out.splitlines()) if line.get("outcome") == "failed"
    ]
    assert unit["figures"]["standing"] == "stale"


@pytest.mark.parametrize(("macros", "status", "outcome"), [("", 0, "built"), ("BROKEN\n", 1, "failed")])
def test_what_the_command_caused_is_not_from_the_store(
    bench: CodeBench, capsys: Capture, macros: str, status: int, outcome: str
) -> None:
    """A daemon that starts compiles what was edited before it is asked, and a request is followed after a second."""
    bench.write("templates/macros.j2", macros)

    @asynccontextmanager
    async def compiling(options: argparse.Namespace, start: Path) -> AsyncIterator[Client]:
        async with bench.connected(options, start) as client:
            await client.build("k")
            yield client

    for from_store in (0, 2):
        assert run(bench, "build", "k", "--json", connected=compiling) == status
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (summary[outcome], summary["from_store"]) == (2, from_store)


def test_the_time_counts_from_the_start_of_the_process(bench: CodeBench, capsys: Capture) -> None:
    assert main(["build", "k", "-C", str(bench.root), "--json"], age_s=1000.0, connected=bench.connected) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["seconds"] >= 1000.0


def test_a_story_has_figures_and_what_changed(bench: CodeBench, capsys: Capture) -> None:
    assert run(bench, "explain", "k/one") == 0
    assert "  figures " not in capsys.readouterr().out
    assert run(bench, "build", "k/one") == 0
    bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", "Tile = 3"))
    assert run(bench, "build", "k/one") == 0
    capsys.readouterr()
    assert run(bench, "explain", "k/one") == 0
    printed = capsys.readouterr().out.splitlines()
    at = printed.index("  figures    200 VGPR, 32768 B LDS, 2 waves/SIMD (VGPR)")
    assert printed[at + 1 : at + 3] == [
        "    next step: 32 VGPR and 11,264 bytes of LDS fewer → 3 waves",
        "    against previous: VGPR 194 → 200",
    ]
    assert run(bench, "explain", "k/one", "--json") == 0
    assert json.loads(capsys.readouterr().out)["figures"]["changes"] == ["VGPR 194 → 200"]


def test_inspect_names_what_it_compares_with(bench: CodeBench, capsys: Capture) -> None:
    assert run(bench, "inspect", "k/one") == 0
    assert "against" not in capsys.readouterr().out
    bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", "Tile = 3"))
    assert run(bench, "inspect", "k/one") == 0
    assert "against previous: VGPR 194 → 200" in capsys.readouterr().out
    assert run(bench, "inspect", "k/one", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)["changes"]) == ["previous"]
