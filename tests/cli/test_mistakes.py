"""Which mistakes of kernel files and of `ckwatch.toml` a command shows, and which decide its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from helpers.workspaces import gemm_kernel

GOOD = gemm_kernel("k.hip.j2", {"one": {"Tile": 16}, "two": {"Tile": 64}})
BROKEN = GOOD.replace('"f16"', '"f17"', 1)
DOUBTFUL = GOOD + '[[instance]]\nname = "same"\nTile = 64\n'
"""It has a warning: two instances have the same parameters."""

BAD, SAME, HINT = "unknown dtype `f17`", "the same parameters", "1 error in other kernel files"
TEMPLATE = """\
{{ header() }}
{{ globals() }}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { return {{ Tile }}; }
"""


@pytest.fixture
def workspace(trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good kernel, one with a warning, and one with an error whose name is not that of its file."""
    root = tmp_path / "w s"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "good.kernel.toml").write_text(GOOD)
    (root / "doubtful.kernel.toml").write_text(DOUBTFUL)
    (root / "file.kernel.toml").write_text('name = "bad"\n' + BROKEN)
    (root / "templates/k.hip.j2").write_text(TEMPLATE)
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


ROWS: list[tuple[list[str], int, set[str]]] = [
    (["check"], 1, {BAD, SAME}),
    (["check", "good"], 0, {HINT}),
    (["check", "good/one"], 0, {HINT}),
    (["check", "good.kernel.toml"], 0, {HINT}),
    (["check", "doubtful/one"], 0, {SAME, HINT}),
    (["check", "good*"], 0, {HINT}),
    (["check", "*"], 1, {BAD, SAME}),
    (["check", "b*"], 1, {BAD}),
    (["check", "bad"], 1, {BAD}),
    (["check", "bad/any@gfx942"], 1, {BAD}),
    (["check", "file.kernel.toml"], 1, {BAD}),
    (["check", "file"], 2, {"called 'file'", HINT}),
    (["check", "."], 1, {BAD, SAME}),
    (["check", "good", "bad"], 1, {BAD, "2 units: 2 checked"}),
    (["check", "good", "godo"], 2, {"called 'godo'", HINT}),
    (["render", "good/one"], 0, set()),
    (["render", "bad"], 1, {BAD}),
    (["render", "godo"], 2, {"did you mean 'good'?", HINT}),
    (["explain", "good/one"], 0, set()),
    (["explain", "bad/any"], 1, {BAD}),
    (["inspect", "bad"], 1, {BAD}),
    (["bench", "bad"], 1, {BAD}),
    (["best", "good"], 0, set()),
    (["best", "bad"], 1, {BAD}),
    (["rank", "bad", "--shape", "s"], 1, {BAD}),
    (["history", "bad"], 1, {BAD}),
]


@pytest.mark.parametrize(("words", "status", "shown"), ROWS, ids=[" ".join(words) for words, _, _ in ROWS])
def test_what_was_asked_for_decides(
    words: list[str], status: int, shown: set[str], workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    captured = capsys.readouterr()
    out = captured.out + captured.err
    assert [text for text in shown if text not in out] == []
    assert [text for text in {BAD, SAME, HINT} - shown if text in out] == []


def test_mistakes_of_the_workspace_always_count(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "ckwatch.toml").write_text("[workspace]\narchs = []\n")
    assert main(["check", "good"]) == 1
    assert "ckwatch.toml:2" in capsys.readouterr().out


def test_in_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "good", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["start", "unit", "unit", "summary"]
    assert (lines[-1]["exit_status"], lines[-1]["errors_elsewhere"]) == (0, 1)


@pytest.mark.parametrize("command", ["build", "check", "bench", "verify", "list"])
def test_a_broken_kernel_file_is_not_nothing_to_do(
    command: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("good", "doubtful"):
        (workspace / f"{name}.kernel.toml").unlink()
    for words, last in (([command], "1 kernel file has errors"), ([command, "bad"], "error")):
        assert main(words) == 1
        out = capsys.readouterr().out
        assert BAD in out
        assert last in out.splitlines()[-1]
        assert "nothing to do" not in out
