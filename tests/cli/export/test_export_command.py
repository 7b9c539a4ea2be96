"""`ckwatch export UNIT`: with the real compilers where it compiles, and what it says where it does not."""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckwatch.cli import main
from ckwatch.cli.export import python_module
from helpers.workspaces import gemm_kernel

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/export.md"

KERNEL = gemm_kernel("k.cpp.j2", {"one": {"Tile": 16}, "two": {"Tile": 32}}, dtype="f32")
TEMPLATE = """\
{{ header("cpp") }}
{{ globals("cpp") }}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { return {{ Tile }}; }
"""


@pytest.fixture
def workspace(trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace on a machine without a compiler."""
    root = tmp_path / "w"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").touch()
    (root / "k.kernel.toml").write_text(KERNEL)
    (root / "templates/k.cpp.j2").write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["k"], "'k' matches 2 units"),
        (["nothing"], "no kernel, instance or unit is called 'nothing'"),
        (["k/one", "--name", "a b"], "a name that can be imported is `a_b`"),
        (["k/one", "--name", "json"], "would stand in for Python's own"),
    ],
)
def test_usage_errors(workspace: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *arguments, "-C", str(workspace)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_without_a_compiler(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["export", "k/one", "-C", str(workspace)]) == 2
    captured = capsys.readouterr()
    assert "ckwatch: error:" in captured.err
    assert not list(workspace.parent.glob("*.py"))


def test_a_unit_with_mistakes(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "templates/k.cpp.j2").write_text(TEMPLATE.replace("Tile", "Tyle"))
    assert main(["export", "k/one", "-C", str(workspace)]) == 1
    out = capsys.readouterr().out
    assert "'Tyle' is undefined" in out
    assert not list(workspace.parent.glob("*.py"))


@pytest.fixture
def to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules can be imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def exported(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str]:
    """The module that the command wrote, imported, and the name of its function."""
    assert main(["export", *arguments, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["file", "file", "module"]
    assert all(Path(line["path"]).is_file() for line in lines[:2])
    importlib.invalidate_caches()
    try:
        return importlib.import_module(lines[2]["module"]), lines[2]["function"]
    finally:
        sys.modules.pop(lines[2]["module"], None)


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_examples_of_the_host(to_import: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = str(ROOT / "examples/cpp")
    rng = np.random.default_rng(1)
    x, w, bias = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((100, 300), (300, 200), (200,)))
    module, function = exported(capsys, "gemm_f32/6x16", "-C", example, "--out", str(to_import))
    assert (module.__name__, function) == ("gemm_f32_6x16", "gemm_f32")
    for slices in (1, 4):
        y = module.gemm_f32(x, w, bias, kBatch=slices)
        np.testing.assert_allclose(y, np.maximum(x @ w + bias, 0), rtol=1e-4, atol=1e-4)
    exec(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0], (page := dict[str, Any]()))  # noqa: S102
    assert (page["Y"] == 97).all()
    split, function = exported(capsys, "gemm_bf16_split_k", "-C", example, "--out", str(to_import), "--name", "split")
    halves = [(array.view(np.uint32) >> 16).astype(np.uint16) for array in (x, np.ascontiguousarray(w.T))]
    values = [(half.astype(np.uint32) << 16).view(np.float32) for half in halves]
    y = getattr(split, function)(halves[0], halves[1].T, kBatch=3)
    np.testing.assert_allclose(y, values[0] @ values[1].T, rtol=1e-4, atol=1e-4)


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_an_example_of_hip(to_import: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is imported anywhere; calling it needs a GPU, and without one says what is missing."""
    unit = "gemm_bf16_bias_silu/128x128x16@gfx942"
    module, function = exported(capsys, unit, "-C", str(ROOT / "examples/hip"), "--out", str(to_import))
    assert (module.UNIT, module.ARCH, function) == (unit, "gfx942", "gemm_bf16_bias_silu")
    array = np.ones((4, 4), np.uint16)
    with pytest.raises(ValueError, match=r"X is in host memory; .* needs it on an AMD GPU"):
        module.gemm_bf16_bias_silu(array, array.T, array[0])
    try:
        ctypes.CDLL("libamdhip64.so")
    except OSError:
        with pytest.raises(module.LibraryError, match="the HIP runtime of ROCm"):
            module.load()
    else:
        module.load()


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_edits_meanwhile(
    trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples/cpp", tmp_path / "w")
    kernel_file = tmp_path / "w/gemm_f32.kernel.toml"
    meaning = python_module._definitions_of
    asked: list[str] = []

    def edit(root: Path, units: Sequence[str]) -> dict[str, python_module.UnitDefinition]:
        if asked:
            kernel_file.write_text(kernel_file.read_text().replace("relu", "tanh"))
        asked.extend(units)
        return meaning(root, units)

    monkeypatch.setattr(python_module, "_definitions_of", edit)
    assert main(["export", "gemm_f32/6x16", "-C", str(tmp_path / "w"), "--out", str(tmp_path)]) == 2
    assert "gemm_f32/6x16@host was edited while it was exported" in capsys.readouterr().err
