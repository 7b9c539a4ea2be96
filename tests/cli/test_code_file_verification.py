"""`ckwatch verify FILE --args args.toml` on what Triton compiled, right and with planted mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main

TRITON = Path(__file__).parents[1] / "data/triton"
REFERENCE = """\
import numpy as np


def add(x_ptr, y_ptr):
    return x_ptr + y_ptr


def softmax(in_ptr):
    e = np.exp(in_ptr - in_ptr.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def matmul(a_ptr, b_ptr):
    return a_ptr @ b_ptr
"""
Capture = pytest.CaptureFixture[str]


def tensor(kind: str, name: str, dtype: str, *axes: str) -> str:
    """A tensor whose axes are `SIZE` or `SIZE STRIDE`."""
    sizes = [axis.split()[0] for axis in axes]
    strides = [axis.split()[1] for axis in axes] if " " in axes[0] else []
    text = f'[[operation.{kind}]]\nname = "{name}"\ndtype = "{dtype}"\nsizes = {json.dumps(sizes)}\n'
    return text + (f"strides = {json.dumps(strides)}\n" if strides else "")


DESCRIPTIONS = {
    "add": 'arguments = ["x_ptr", "y_ptr", "out_ptr", "n", "null", "null"]\ngrid = ["(n + 1023) / 1024"]\nblock = [256]\n'
    '[operation]\nsizes = ["n"]\nreference = "reference.py:add"\n'
    + tensor("input", "x_ptr", "f32", "n")
    + tensor("input", "y_ptr", "f32", "n")
    + tensor("output", "out_ptr", "f32", "n"),
    "softmax": 'arguments = ["out_ptr", "in_ptr", "n_cols", "n_cols", "null", "null"]\ngrid = ["M"]\nblock = [256]\n'
    'dynamic_lds = 16\n[operation]\nsizes = ["M", "n_cols"]\nreference = "reference.py:softmax"\n'
    + tensor("input", "in_ptr", "f32", "M", "n_cols")
    + tensor("output", "out_ptr", "f32", "M", "n_cols"),
    "matmul": 'arguments = ["a_ptr", "b_ptr", "c_ptr", "M", "N", "K", "SA", "SB", "SC", "null", "null"]\nblock = [256]\n'
    'grid = ["(M + BM - 1) / BM", "(N + BM - 1) / BM"]\ndynamic_lds = 4096\n[parameters]\nBM = 64\n'
    '[operation]\nsizes = ["M", "N", "K", "SA", "SB", "SC"]\nreference = "reference.py:matmul"\n'
    + tensor("input", "a_ptr", "f16", "M SA", "K 1")
    + tensor("input", "b_ptr", "f16", "K SB", "N 1")
    + tensor("output", "c_ptr", "f16", "M SC", "N 1")
    + 'reduction = "K"\n',
}
SHAPES = {"add": "n=1500", "softmax": "M=3,n_cols=700", "matmul": "M=70,N=65,K=50,SA=52,SB=80,SC=65"}
PLANTED = {
    "add": ("verify/out-of-bounds-write", 13),
    "softmax": ("verify/wrong-result", 24),
    "matmul": ("verify/wrong-result", 42),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reference.py").write_text(REFERENCE)
    for name, text in DESCRIPTIONS.items():
        Path(f"{name}.toml").write_text(text)


def verified(path: Path, name: str, capsys: Capture, *words: str) -> tuple[int, list[dict[str, Any]]]:
    command = ["verify", str(path), "--args", f"{name}.toml", "--shape", SHAPES[name], "--trust", *words]
    status = main([*command, "--json"])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.toolchain
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_kernels_of_triton_are_right(name: str, capsys: Capture) -> None:
    status, lines = verified(TRITON / f"{name}_kernel.hsaco", name, capsys)
    (unit,) = [line for line in lines if line["event"] == "unit"]
    assert (status, unit["unit"], unit["outcome"]) == (0, f"{name}_kernel.hsaco/{name}_kernel@gfx942", "verified")
    assert [(one["name"], one["outcome"]) for one in unit["verification"]["problems"]] == [(SHAPES[name], "right")]


@pytest.mark.toolchain
@pytest.mark.parametrize("name", PLANTED)
def test_planted_mistakes_are_found_at_their_lines(name: str, capsys: Capture) -> None:
    code, line = PLANTED[name]
    status, lines = verified(TRITON.parent / f"planted_triton/{name}_kernel.hsaco", name, capsys)
    (unit,) = [one for one in lines if one["event"] == "unit"]
    found = unit["verification"]["findings"]
    places = {(f"verify/{one['kind']}", one["place"]["path"], one["place"]["start"]["line"] + 1) for one in found}
    assert status == 1
    assert (code, "/kernels/kernels.py", line) in places


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--args", "no.toml"], 1, "no.toml:1:1: error: cannot be read: no such file or directory"),
        (["--args", "add.toml"], 2, "is not trusted: its references are code that would run here"),
        (["--args", "add.toml", "--arch", "gfx950"], 2, "has no code for gfx950"),
        (["--args", "matmul.toml"], 1, "11 arguments, and the kernel takes 6: *f32 x_ptr, "),
        ([], 2, 'arguments = ["x_ptr", "y_ptr", "out_ptr", "n", "null", "null"]'),
        (["--write-args", "add.toml"], 2, "add.toml is there already"),
        (["gemm"], 2, "verify takes units, or one file with code objects"),
    ],
)
def test_what_cannot_be_verified(words: list[str], status: int, said: str, capsys: Capture) -> None:
    assert main(["verify", str(TRITON / "add_kernel.hsaco"), *words]) == status
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_options_of_files_are_not_for_units(capsys: Capture) -> None:
    assert main(["verify", "gemm", "--args", "add.toml"]) == 2
    assert "--args is for a file with code objects" in capsys.readouterr().err


def test_a_description_is_written(capsys: Capture) -> None:
    path = TRITON / "softmax_kernel.hsaco"
    assert main(["verify", str(path), "--write-args", "new/args.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["written"], found["args"]) == ("new/args.toml", Path("new/args.toml").read_text())
    assert main(["verify", str(path), "--args", "new/args.toml"]) == 1
    assert "new/args.toml:3:8: error: replace" in capsys.readouterr().out
