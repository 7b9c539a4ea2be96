"""The stand-in for another machine reports what it is asked to, and Python is otherwise as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STAND_IN = Path(__file__).parent / "other_machine"

LOOK = """
import json, os, subprocess, sys
if sys.argv[1:]:
    os.sched_setaffinity(0, {0})
from ckwatch.bench.runtimes import processors
cpus = processors.choose(None)
print(json.dumps([os.cpu_count(), cpus, processors.last_level_cache_bytes(cpus) / 2**20, os.environ.get("SEEN")]))
"""


def look(folder: Path, *arguments: str, bound: bool = False) -> Any:
    """Return the machine as a Python in the stand-in sees it."""
    command = [sys.executable, str(STAND_IN), *arguments, "--", sys.executable, "-P", "-c", LOOK, *["bound"] * bound]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


@pytest.mark.parametrize(
    ("cores", "cache_mib", "cpus"), [(1, 260, [0]), (7, 0.25, [0, 1, 2, 3, 4, 5, 6]), (300, 0, list(range(300)))]
)
def test_what_is_reported(tmp_path: Path, cores: int, cache_mib: float, cpus: list[int]) -> None:
    assert look(tmp_path, "--cores", str(cores), "--cache-mib", str(cache_mib)) == [cores, cpus, cache_mib, None]


def test_a_process_that_binds_itself_is_bound(tmp_path: Path) -> None:
    assert look(tmp_path, "--cores", "5", "--cache-mib", "8", bound=True) == [5, [0], 8, None]


def test_another_sitecustomize_is_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['SEEN'] = 'yes'\n")
    assert look(tmp_path, "--cores", "2", "--cache-mib", "8") == [2, [0, 1], 8, "yes"]


def test_nothing_changes_unless_it_is_asked_for(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN)}
    environment.pop("OTHER_MACHINE_CORES", None)
    command = [sys.executable, "-c", "import os; print(os.cpu_count.__module__)"]
    assert subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout == "posix\n"
