"""Steps of `make test`: all of them run, and those that failed are named at the end."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.run_tests import Result, commands, failed_step, main, result_of
from tools.run_tests import pytest as pytest_step

OUTPUT = """\
..F.E
=================================== FAILURES ===================================
ERROR    ckwatch:log.py:1 captured
=========================== short test summary info ============================
SKIPPED [1] tests/a/test_x.py:14: no torch
FAILED tests/a/test_x.py::test_one[a - b] - assert 1 == 2
ERROR tests/a/test_x.py::test_two - RuntimeError
1 failed, 3 passed, 1 skipped, 7 deselected, 1 error in 2.05s
"""
BROKEN = "INTERNALERROR> 3 passed in the text of something else\n"
ONE = "tests/a/test_x.py::test_one[a - b] - assert 1 == 2"
TWO = "tests/a/test_x.py::test_two - RuntimeError"


@pytest.mark.parametrize(
    ("output", "status", "counts", "failed"),
    [
        (OUTPUT, 1, {"passed": 3, "failed": 2, "skipped": 1, "deselected": 7}, [ONE, TWO]),
        ("5 passed in 61.20s (0:01:01)\n", 0, {"passed": 5}, []),
        ("3 deselected in 0.10s\n", 5, {"deselected": 3}, []),
        (BROKEN, 3, {"failed": 1}, ["tests/a: pytest ended with exit status 3"]),
        ("", -9, {"failed": 1}, ["tests/a: pytest ended with exit status -9"]),
    ],
)
def test_what_a_pytest_says(output: str, status: int, counts: dict[str, int], failed: list[str]) -> None:
    assert result_of("tests/a", output, status) == Result(Counter(counts), failed)


def test_the_last_lines_name_what_failed_and_count() -> None:
    result = result_of("tests/a", OUTPUT, 1)
    result.add(failed_step("lint: mypy"))
    assert result.last_lines() == f"Failed:\n  {ONE}\n  {TWO}\n  lint: mypy\n3 passed, 3 failed, 1 skipped"
    assert Result(Counter(passed=2)).last_lines() == "2 passed, 0 failed"


def test_a_step_that_fails_keeps_no_other_from_running(capfd: pytest.CaptureFixture[str]) -> None:
    ran = []

    def step(options: Sequence[str]) -> Result:
        ran.append(tuple(options))
        return Result(Counter(passed=2))

    def failing(_options: Sequence[str]) -> Result:
        return Result(Counter(failed=1), ["tests/a/test_x.py::test_one"])

    program = "python no-such-file.py"
    steps = {"lint": commands("lint", program, "python --version"), "first": failing, "last": step}
    assert main(["--", "-x"], steps) == 1
    assert ran == [("-x",)]
    printed = capfd.readouterr().out
    assert "No such file" in printed.partition(f"{program}:\n")[2].splitlines()[0]
    assert f"python --version:\nPython {platform.python_version()}\n" in printed
    last = ["Failed:", "  tests/a/test_x.py::test_one", f"  lint: {program}", "2 passed, 2 failed"]
    assert printed.splitlines()[-4:] == last
    assert main(["last"], steps) == 0


def test_a_broken_file_and_a_dead_process_keep_no_other_test_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\naddopts = -p no:schemathesis -p no:pytest-lsp\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_broken.py").write_text("import nothing_of_this_name")
    (tmp_path / "tests/test_killed.py").write_text("import os\ndef test_it(): os.kill(os.getpid(), 9)")
    (tmp_path / "tests/test_well.py").write_text("def test_one(): pass\ndef test_two(): pass")
    result = pytest_step("not editors", root=tmp_path, processes=2)(["-p", "no:cacheprovider"])
    assert result.counts == {"passed": 2, "failed": 2}
    assert sorted(name.split(" - ")[0] for name in result.failed) == [
        "tests/test_broken.py",
        "tests/test_killed.py::test_it",
    ]
    assert [*tmp_path.glob("tests/__pycache__/test_well.*.pyc")], "tests are compiled once, not in each process"


@pytest.mark.parametrize(
    ("line", "fails"),
    [("python no-such-file.py || python --version", False), ("python no-such-file.py || python no-such-file.py", True)],
)
def test_alternatives(line: str, fails: bool) -> None:
    assert bool(commands("toolchain", line)(()).failed) is fails


def test_a_step_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lnit"]) == 2
    assert "no such step: lnit; there are lint, toolchain, tests, docs, without-compilers" in capsys.readouterr().err
