"""Starters and examples are workspaces without a mistake, and are copied without harm to what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.starters import Starter, copy_starter, examples, starters

GEMM = starters()[0]


@pytest.mark.parametrize("starter", starters(), ids=lambda starter: str(starter.name))
def test_a_starter_has_two_instances_and_a_sweep(trusted: Path, starter: Starter) -> None:
    root = trusted / "neu und größer"
    written = copy_starter(starter, root)
    assert all(path.is_file() for path in written)
    found = load_workspace(root)
    assert found.diagnostics == ()
    (kernel,) = found.kernels
    text = Path(kernel.path).read_text("utf-8")
    assert text.count("[[instance]]") == 2
    assert text.count("[[sweep]]") == 1
    assert len(kernel.instances) > 2
    assert root.joinpath("templates", kernel.template).is_file()
    assert kernel.operation.kind != "custom" or "reference = " in text


def test_examples_are_described_and_copied(trusted: Path) -> None:
    assert {"softmax", "rope", "transpose", "top_k"} <= {example.name for example in examples()}
    for example in examples():
        assert example.about[0].isupper() or example.about.startswith("silu")
        assert len(example.about) <= 80
        copy_starter(example, trusted / example.name)
        assert load_workspace(trusted / example.name).diagnostics == ()


@pytest.mark.parametrize("name", ["ckwatch.toml", "templates/gemm.hip.j2"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(CkwatchError, match="already there"):
        copy_starter(GEMM, tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]
    assert path.read_text() == "mine"


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file where a folder has to be")
    with pytest.raises(CkwatchError, match="cannot write a workspace"):
        copy_starter(GEMM, tmp_path)
    assert [file.name for file in tmp_path.rglob("*")] == ["kernels"]


def test_the_command_lists_and_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"--{starter.name.replace('_', '-')} " in listed for starter in starters())
    assert all(f"--from {example.name.replace('_', '-')} " in listed for example in examples())
    assert main(["init", str(tmp_path / "a"), "--ck-tile"]) == 0
    assert (tmp_path / "a/templates/gemm.hip.j2").is_file()
    assert main(["init", str(tmp_path / "b"), "--from", "top-k"]) == 0
    assert (tmp_path / "b/reference.py").is_file()
    capsys.readouterr()
    assert main(["init", str(tmp_path / "c"), "--from", "sofmax"]) == 2
    assert "did you mean `softmax`?" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
