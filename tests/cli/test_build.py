"""`ckwatch build --out`: shared objects, object files and standalone runners, made by the real compiler."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import pytest

from ckwatch.cli import main
from references.naive_kernels import CONVOLUTION, naive_files

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]

CUSTOM = """\
template = "k.cpp.j2"
[operation]
kind = "custom"
sizes = ["N"]
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]
[[instance]]
name = "one"
"""
TEMPLATE = """\
{{ header("cpp") }}
{{ globals("cpp") }}
extern "C" PT_EXPORT {{ def_kernel(inputs=[], outputs=[Y]) }} {
    (void)stream; (void)workspace; (void)Y; (void)N;
    if (workspace_size != nullptr) *workspace_size = 0;
    return 0;
}
"""


def test_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "für alle"
    arguments = ["gemm_bf16_split_k", "-C", str(ROOT / "examples/cpp"), "--out", str(out)]
    assert main(["build", *arguments, "--aot", "--runner", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    symbol = next(line["symbol"] for line in lines if line["event"] == "unit")
    stem = out / "gemm_bf16_split_k/6x16@host"
    paths = [stem.with_name(stem.name + suffix) for suffix in (".so", ".o", ".run")]
    assert [line["path"] for line in lines if line["event"] == "file"] == [str(path) for path in paths]
    assert sorted(stem.parent.iterdir()) == sorted(paths)
    assert ctypes.CDLL(str(paths[0]))[symbol]
    assert symbol.encode() in paths[1].read_bytes()
    sizes = ("--M", "33", "--N", "20", "--K", "301", "--kBatch", "3", "--repeat", "2", "--warmup-ms", "0")
    ran = subprocess.run([paths[2], *sizes], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert f"{symbol}: bf16 row x bf16 col -> f32 row" in ran.stdout
    assert ran.stdout.endswith("PASSED\n")
    help_text = subprocess.run([paths[2], "--help"], capture_output=True, text=True, check=True).stdout
    assert "(default 65536)" in help_text, "the sizes of the first shape"


def test_a_runner_of_a_convolution(trusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"ckwatch.toml": "", **naive_files(conv=CONVOLUTION)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    out = tmp_path / "out"
    assert main(["build", str(tmp_path), "--out", str(out), "--runner"]) == 0, capsys.readouterr()
    runner = [str(out / "conv/loops@host.run"), "--repeat", "2", "--warmup-ms", "0"]
    ran = subprocess.run([*runner, "--LeftPads_1", "1"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert "ConvolutionStrides_1 2, Dilations_0 2, Dilations_1 1, LeftPads_0 2, LeftPads_1 1," in ran.stdout


def test_a_custom_operation_has_no_runner(trusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "ckwatch.toml").touch()
    (tmp_path / "k.kernel.toml").write_text(CUSTOM)
    (tmp_path / "templates/k.cpp.j2").write_text(TEMPLATE)
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "out"), "--runner"]) == 2
    assert (
        "'k' is a custom operation: what it computes is not known, so that there is no standalone runner"
        in capsys.readouterr().err
    )


def test_a_file_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").touch()
    arguments = ["gemm_bf16_split_k", "-C", str(ROOT / "examples/cpp"), "--out", str(tmp_path / "out")]
    assert main(["build", *arguments]) == 2
    assert "cannot write to" in capsys.readouterr().err
