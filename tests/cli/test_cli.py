"""The command line without a compiler: what is printed, and the exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main
from ckwatch.cli.parser import make_parser
from helpers.workspaces import gemm_kernel

KERNEL = gemm_kernel("k.hip.j2", {"small": {"Tile": 16}, "large": {"Tile": 64}})
TEMPLATE = """\
{{ header() }}
{{ globals() }}
constexpr int tile = {{ Tile }};
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { return tile; }
"""


@pytest.fixture
def workspace(trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace in a folder whose name has a space and non-ASCII letters; the working directory is elsewhere."""
    root = tmp_path / "kernels für größe"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "demo.kernel.toml").write_text(KERNEL)
    (root / "templates/k.hip.j2").write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_check_a_good_workspace(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(workspace)]) == 0
    assert "2 units: 2 checked" in capsys.readouterr().out


def test_check_speaks_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "demo.kernel.toml").write_text(KERNEL.replace("Tile = 64", "Tyle = 64"))
    assert main(["check", str(workspace), "--json"]) == 1
    lines = json_lines(capsys.readouterr().out)
    assert [line["event"] for line in lines] == ["start", "unit", "unit", "diagnostic", "summary"]
    assert lines[0]["units"] == ["demo/small@gfx942", "demo/large@gfx942"]
    assert (lines[3]["code"], lines[3]["units"]) == ("kernel-file/unused-parameter", ["demo/large@gfx942"])
    by_unit = {line["unit"]: line for line in lines if line["event"] == "unit"}
    assert by_unit["demo/small@gfx942"]["outcome"] == "checked"
    (diagnostic,) = by_unit["demo/large@gfx942"]["diagnostics"]
    assert diagnostic["code"] == "kernel-file/unused-parameter"
    assert diagnostic["span"]["start"] == {"line": 14, "column": 0}
    assert lines[-1]["exit_status"] == 1


def test_mistakes_are_shown_with_their_line(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "templates/k.hip.j2").write_text(TEMPLATE.replace("{{ Tile }}", "\t{{ Tyle }}"))
    assert main(["check", str(workspace)]) == 1
    out = capsys.readouterr().out
    assert "k.hip.j2:3:26: error: 'Tyle' is undefined" in out.replace("templates/", "")
    assert "constexpr int tile = " in out
    assert "^^^^" in out


def test_every_mistake_of_a_kernel_file_is_reported_at_once(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = KERNEL.replace('dtype = "f16", layout = "row" }\nb', 'dtype = "f17", layout = "row" }\nb')
    (workspace / "demo.kernel.toml").write_text(text.replace("k.hip.j2", "gone.hip.j2"))
    assert main(["check", str(workspace)]) == 1
    out = capsys.readouterr().out
    assert "demo.kernel.toml:1:12" in out
    assert "demo.kernel.toml:5:15" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nowhere"], "no ckwatch.toml"),
        (["check", "-C", "WORKSPACE", "gem"], "no kernel, instance or unit is called 'gem'"),
        (["check", "-C", "WORKSPACE", "demo/smal"], "did you mean 'demo/small'?"),
        (["render", "-C", "WORKSPACE", "demo"], "'demo' matches 2 units"),
        (["build", "-C", "WORKSPACE", "--aot"], "add --out DIR"),
    ],
)
def test_usage_errors(workspace: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main([str(workspace) if word == "WORKSPACE" else word for word in arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


EMPTY = "the value is empty; is a variable of the shell not set?"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["biuld"], "did you mean 'build'?"),
        (["build", "--job", "3"], "there is no option --job"),
        (["build", "--jobs", "0"], "there is no option --jobs"),
        (["build", ""], EMPTY),
        (["build", "gemm", "--out="], EMPTY),
        (["upgrade", "--to", ""], EMPTY),
        (["rank", "gemm", "--part", ""], EMPTY),
        (["import", "timings", ""], EMPTY),
        (["bench", "--device", "gpu0"], "'gpu0' is not a device: write hip:0"),
        (["profile", "gemm", "--device", "hip:\u0663"], "is not a device"),
        (["rank", "gemm", "--shape", "a", "--shape", "b"], "--shape: is given twice, and takes one value"),
        (["emulate", "--flags", "-O1", "a.hip"], "a value that begins with - is joined: --flags=-O1"),
        (["history", "gemm", "--shape", "a", "--shape", "a"], "--shape: is given twice, and takes one value"),
    ],
)
def test_the_parser_refuses_what_it_does_not_know(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_code_is_explained_or_another_one_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "rule/m-per-blok"]) == 2
    assert "did you mean 'rule/m-per-block'?" in capsys.readouterr().err
    assert main(["explain", "rule/m-per-block", "--time"]) == 2
    assert "--time, --trace and --arch are for a unit" in capsys.readouterr().err


def test_a_word_for_a_kernel_with_mistakes_shows_the_mistakes(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "demo.kernel.toml").write_text(KERNEL.replace('"f16"', '"f17"', 1))
    assert main(["check", "-C", str(workspace), "demo/small"]) == 1
    assert "unknown dtype `f17`" in capsys.readouterr().out


def test_render_prints_the_text(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-C", str(workspace), "demo/large"]) == 0
    out = capsys.readouterr().out
    assert "constexpr int tile = 64;" in out
    assert "int k_" in out
    assert "KERNEL_NAME" not in out


def test_render_prints_the_map(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-C", str(workspace), "demo/large", "--map"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if " 64 " in line]
    assert line.endswith("-> templates/k.hip.j2:3:22 'Tile'")


def test_render_speaks_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-C", str(workspace), "demo/large", "--json"]) == 0
    (line,) = json_lines(capsys.readouterr().out)
    text = line["text"]
    assert "".join(text[segment["start"] : segment["end"]] for segment in line["map"]) == text
    assert str(workspace / "templates/k.hip.j2") in line["read"]


def test_build_without_a_toolchain_says_what_to_do(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("ROCM_PATH", raising=False)
    if Path("/opt/rocm").exists():
        pytest.skip("this machine has a ROCm")
    assert main(["build", str(workspace)]) == 2
    assert "ckwatch toolchain install" in capsys.readouterr().err


def test_help_lists_every_command_once_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = make_parser()
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    printed = capsys.readouterr().out
    commands, _, _ = printed.partition("\nOptions:")
    listed = re.findall(r"^  ([a-z]+)  +\S", commands, re.MULTILINE)
    with pytest.raises(SystemExit):
        parser.parse_args([""])
    known = re.findall(r"[a-z]+", capsys.readouterr().err.partition("there are:")[2])
    assert sorted(listed) == sorted(known)
    assert not re.search(r"^ {4,}\S", commands.partition("\n\n")[2], re.MULTILINE)
