"""`list`, `templates`, `store` and `completion`, templates as arguments, and what was meant by misspelt words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main
from ckwatch.cli.completion import names
from ckwatch.cli.parser import make_parser
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.header_sets import HeaderObserver, PathRoots
from helpers.stored_entries import KEY, RECORD
from helpers.workspaces import gemm_kernel

CACHE = os.environ.get("XDG_CACHE_HOME")
"""Folder of the toolchain."""

Capture = pytest.CaptureFixture[str]
TEMPLATE = """\
{% include "part.j2" %}
{{ globals() }}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { return {{ Tile }}; }
"""


@pytest.fixture
def workspace(trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "ws"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "one.kernel.toml").write_text(gemm_kernel("k.hip.j2", {"small": {"Tile": 16}}))
    (root / "two.kernel.toml").write_text(gemm_kernel("other.hip.j2", {"small": {"Tile": 16}}))
    (root / "templates/k.hip.j2").write_text(TEMPLATE)
    (root / "templates/other.hip.j2").write_text(TEMPLATE.replace("part.j2", "alone.j2"))
    (root / "templates/part.j2").write_text("{{ header() }}\n")
    (root / "templates/alone.j2").write_text("{{ header() }}\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CKWATCH_NO_DAEMON", "1")
    return root


def answer(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return value


def test_list_has_a_heading_and_every_unit(workspace: Path, capsys: Capture) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["UNIT", "STATE"]
    assert [line.split()[0] for line in lines[1:3]] == ["one/small@gfx942", "two/small@gfx942"]
    assert lines[3] == "2 units of 2 kernels"


@pytest.mark.parametrize(
    ("word", "units"),
    [
        ("templates/k.hip.j2", ["one/small@gfx942"]),
        ("templates/part.j2", ["one/small@gfx942"]),
        ("templates/alone.j2", ["two/small@gfx942"]),
        ("two.kernel.toml", ["two/small@gfx942"]),
        (".", ["one/small@gfx942", "two/small@gfx942"]),
    ],
)
def test_a_template_means_the_units_that_are_made_from_it(
    workspace: Path, capsys: Capture, word: str, units: list[str]
) -> None:
    assert [unit["id"] for unit in answer(capsys, "list", word)["units"]] == units
    assert main(["check", word, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["units"] == units


def test_a_template_that_nothing_uses(workspace: Path, capsys: Capture) -> None:
    (workspace / "templates/free.j2").write_text("")
    assert main(["list", "templates/free.j2"]) == 2
    assert "no unit is made from" in capsys.readouterr().err


def test_templates_are_listed_with_their_kernels(workspace: Path, capsys: Capture) -> None:
    found = {row["name"]: row for row in answer(capsys, "templates", "list")["templates"]}
    assert found["k.hip.j2"] == {
        "name": "k.hip.j2", "path": str(workspace / "templates/k.hip.j2"), "built_in": False, "kernels": ["one"],
    }  # fmt: skip
    assert found["ck/gemm_universal.hip.j2"]["built_in"]
    assert "part.j2" not in found
    assert "part.j2" in {row["name"] for row in answer(capsys, "templates", "list", "--all")["templates"]}


def test_built_in_templates_are_listed_without_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {row["name"]: row for row in answer(capsys, "templates", "list")["templates"]}
    assert found["ck/gemm_universal.hip.j2"]["built_in"]
    assert not any(row["kernels"] for row in found.values())
    assert main(["templates", "list"]) == 0
    assert main(["templates", "list", "-C", str(tmp_path)]) == 2
    assert "no ckwatch.toml" in capsys.readouterr().err


def test_a_copied_template_is_found_before_the_built_in_one(workspace: Path, capsys: Capture) -> None:
    name = "ck/gemm_universal.hip.j2"
    original = {row["name"]: row for row in answer(capsys, "templates", "list")["templates"]}[name]
    assert main(["templates", "copy", name]) == 0
    copied = {row["name"]: row for row in answer(capsys, "templates", "list")["templates"]}[name]
    assert copied["path"] == str(workspace / "templates" / name)
    assert Path(copied["path"]).read_text() == Path(original["path"]).read_text()
    capsys.readouterr()
    assert main(["templates", "copy", name]) == 2
    assert "is there already" in capsys.readouterr().err


def test_without_a_template_folder_a_copy_makes_one(workspace: Path, capsys: Capture) -> None:
    for path in (workspace / "templates").iterdir():
        path.unlink()
    (workspace / "templates").rmdir()
    assert main(["templates", "copy", "hip/gemm_tiled.hip.j2", "mine.hip.j2"]) == 0
    assert (workspace / "templates/mine.hip.j2").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gemm_universal.hip.j2"], "did you mean 'ck/gemm_universal.hip.j2'?"),
        (["hip/gemm_tiled.hip.j2", "../up.j2"], "is not a name of a template"),
        (["hip/gemm_tiled.hip.j2", "mine.txt"], "is not a name of a template"),
        (["hip/gemm_tiled.hip.j2", "own/.mine.hip.j2"], "`.mine.hip.j2` is not a name: it begins with a dot"),
    ],
)
def test_copies_that_are_refused(workspace: Path, capsys: Capture, words: list[str], said: str) -> None:
    assert main(["templates", "copy", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_store_tells_its_size_and_shrinks(workspace: Path, capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    (workspace / "ckwatch.toml").write_text(f'[workspace]\narchs = ["gfx942"]\n[store]\nfolder = "{folder}"\n')
    assert answer(capsys, "store", "size")["artifacts"] == 0
    with ArtifactStore(folder) as store:
        headers = HeaderObserver(store.contents, PathRoots({})).observe((), (), (), begun_ns=2**62)
        assert headers is not None
        artifact = store.publish(KEY, headers, RECORD, source=b"int a;", log="", products={})
    long_ago = 1_000_000_000
    for path in (artifact.folder, *artifact.folder.iterdir()):
        os.utime(path, (long_ago, long_ago))
    before = answer(capsys, "store", "size")
    assert (before["folder"], before["artifacts"]) == (str(folder), 1)
    assert before["size_bytes"] > before["parts"]["artifacts"] > 0
    assert answer(capsys, "store", "gc")["removed"] == 0
    assert answer(capsys, "store", "gc", "--limit", "1 B")["removed"] == 1
    assert answer(capsys, "store", "size")["artifacts"] == 0


@pytest.mark.parametrize(("setting", "shown"), [("team", "{root}/team"), ("sftp://me:secret@box/a", "sftp://box/a")])
def test_where_the_shared_store_is(workspace: Path, capsys: Capture, setting: str, shown: str) -> None:
    (workspace / "ckwatch.toml").write_text(f'[store]\nshared = "{setting}"\n')
    shown = shown.format(root=workspace)
    assert answer(capsys, "store", "size")["shared"] == shown
    assert main(["store", "size"]) == 0
    assert capsys.readouterr().out.endswith(f"\nshared with others: {shown} ([store] shared)\n")


def test_a_limit_that_is_no_size(workspace: Path, capsys: Capture) -> None:
    assert main(["store", "gc", "--limit", "much"]) == 2
    assert "is not a size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bild"], "there is no command 'bild'; did you mean 'build'?"),
        (["toolchain", "lst"], "there is no command 'lst'; did you mean 'list'?"),
        (["--frobnicate"], "there is no option --frobnicate (there are: -h, --help, --version); options of a command"),
        (
            ["--json", "build"],
            "there is no option --json (there are: -h, --help, --version); options of a command follow",
        ),
        (["templates", "--frob"], "there is no option --frob (there are: -h, --help); options of a command follow it"),
        (["rank", "--jsno"], "there is no option --jsno; did you mean '--json'?"),
        (["rank", "--shape"], "argument --shape: expected one argument"),
        (["rank"], "the following arguments are required: KERNEL"),
        (["check", "--detail"], "there is no option --detail; did you mean '--details'?"),
        (["bench", "--shpae=big"], "there is no option --shpae; did you mean '--shape'?"),
        (["baseline", "set", "x", "--jsn"], "there is no option --jsn; did you mean '--json'?"),
        (["best", "k", "--cache", "warm"], "invalid choice: 'warm' (there are: cold, hot)"),
        (["status", "gemm"], "unexpected arguments: gemm"),
    ],
)
def test_what_was_meant(capsys: Capture, words: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_shells_are_told_how_to_complete(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    assert "ckwatch" in capsys.readouterr().out


def test_units_kernels_and_templates_are_completed(workspace: Path) -> None:
    options = make_parser().parse_args(["list"])
    assert list(names("units")(parsed_args=options)) == ["one", "two", "one/small@gfx942", "two/small@gfx942"]
    assert list(names("kernels")(parsed_args=options)) == ["one", "two"]
    assert "part.j2" in names("templates")(parsed_args=options)
    elsewhere = make_parser().parse_args(["list", "-C", "/nowhere"])
    assert list(names("units")(parsed_args=elsewhere)) == []


def test_texts_are_written_with_a_compilation_database(workspace: Path, capsys: Capture, tmp_path: Path) -> None:
    (workspace / "templates/other.hip.j2").write_text("{{ Tyle }}")
    assert main(["render", "--out", str(tmp_path / "cc"), "--color", "never"]) == 1
    assert "Tyle" in capsys.readouterr().out
    entries = json.loads((tmp_path / "cc/compile_commands.json").read_text())
    written = sorted(path.name for path in (tmp_path / "cc").glob("*.hip"))
    assert written == ["one.small@gfx942.hip"]
    assert [entry["file"] for entry in entries] in ([], written), "empty without a compiler"


@pytest.mark.parametrize("words", [["render"], ["render", "--out", "x", "--map"], ["render", "--out", "x", "--json"]])
def test_what_render_does_not_do(workspace: Path, capsys: Capture, words: list[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("ckwatch: error: ")


@pytest.mark.toolchain
def test_what_explain_shows_can_be_run(
    workspace: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    if CACHE is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", CACHE)
    (workspace / "own.h").write_text("inline int own() { return 7; }\n")
    (workspace / "templates/k.cpp.j2").write_text(
        '#include "own.h"\n'
        + TEMPLATE.replace("{{ Tile }}", "own() + {{ Tile }}")
        .replace('{% include "part.j2" %}', "{{ header('cpp') }}")
        .replace("globals()", "globals('cpp')")
    )
    (workspace / "one.kernel.toml").write_text(gemm_kernel("k.cpp.j2", {"small": {"Tile": 16}}))
    shown = answer(capsys, "explain", "one/small")["by_hand"]
    folder = tmp_path / "by hand"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    line = shown.replace("ckwatch render", f"ckwatch render -C '{workspace}'")
    done = subprocess.run(["/bin/sh", "-c", line], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert (folder / "kernel.o").stat().st_size > 0
    assert main(["render", "--out", str(folder), "one"]) == 0
    (entry,) = json.loads((folder / "compile_commands.json").read_text())
    subprocess.run([*entry["arguments"], "-fsyntax-only"], cwd=entry["directory"], check=True)


def test_a_folder_to_init_is_given_once(capsys: Capture, tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "a"), "-C", str(tmp_path / "b")]) == 2
    assert "DIR and -C" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
