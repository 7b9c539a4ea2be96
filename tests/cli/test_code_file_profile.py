"""`ckwatch profile FILE --args args.toml` on what Triton compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main

TRITON = Path(__file__).parents[1] / "data/triton"
ADD = TRITON / "add_kernel.hsaco"
DESCRIPTION = """\
grid = ["(n + 1023) / 1024"]
[operation]
sizes = ["n"]
[[operation.input]]
name = "x_ptr"
dtype = "f32"
sizes = ["n"]
[[operation.input]]
name = "y_ptr"
dtype = "f32"
sizes = ["n"]
[[operation.output]]
name = "out_ptr"
dtype = "f32"
sizes = ["n"]
[[shape]]
n = 3000
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("args.toml").write_text(DESCRIPTION)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([ADD], "a file does not say how its kernel is launched: --args is missing"),
        ([ADD, "--args", "args.toml", "--device", "hip:0"], "--device is for units, and"),
        ([ADD, "--args", "args.toml", "--against", "previous"], "--against is for units, and"),
        (["gemm/a", "--args", "args.toml"], "--args and --arch are for a file"),
        (
            [TRITON.parent / "code_objects/limits.gfx1030.hsaco", "--args", "args.toml"],
            "`kernel` is missing: limits.gfx1030.hsaco has",
        ),
    ],
)
def test_mistakes(words: list[str | Path], said: str, capsys: Capture) -> None:
    assert main(["profile", *map(str, words)]) in (1, 2)
    printed = capsys.readouterr()
    assert said in printed.err + printed.out


@pytest.mark.toolchain
def test_a_launch_is_counted_by_the_lines_of_the_file(capsys: Capture) -> None:
    assert main(["profile", str(ADD), "--args", "args.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unit"], found["device"], found["shape"]) == (
        "add_kernel.hsaco/add_kernel@gfx942",
        "emulated:gfx942",
        "n=3000",
    )
    (kernel,) = found["kernels"]
    assert (kernel["workgroups"], kernel["all_workgroups"], found["failure"]) == (3, 3, "")
    moved = {line["line"] + 1: line["own"]["counts"]["bytes"] for line in kernel["lines"]}
    # x, y and the sum: 3,000 elements of 4 bytes each.
    assert {line: size for line, size in moved.items() if size} == {11: 12000, 12: 12000, 13: 12000}
    assert main(["profile", str(ADD), "--args", "args.toml", "--top", "2"]) == 0
    assert "/kernels/kernels.py:" in capsys.readouterr().out
