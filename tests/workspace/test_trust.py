"""Whose code may run here."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.client import connect
from ckwatch.model.errors import CkwatchError, UntrustedError
from ckwatch.workspace.reloading import WorkspaceLoader
from ckwatch.workspace.trust import (
    FILE_VARIABLE,
    distrust,
    end_trust_once,
    is_trusted,
    require_trusted,
    trust,
    trust_once,
    trusted_folders,
)


@pytest.fixture(autouse=True)
def trust_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config of mine" / "trusted"
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels ü"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "kernels ü and more").mkdir()
    (tmp_path / "link").symlink_to(folder)
    return folder


def test_nothing_is_trusted_unasked(root: Path) -> None:
    assert not is_trusted(root)
    with pytest.raises(UntrustedError) as refusal:
        require_trusted(root)
    assert refusal.value.hint == f"`ckwatch trust '{root}'` trusts it."


@pytest.mark.parametrize("named", ["kernels ü", "link", "link/below/.."])
def test_a_folder_and_what_is_below_it(named: str, root: Path, tmp_path: Path, trust_file: Path) -> None:
    trust(tmp_path / named)
    assert trusted_folders() == (root,)
    assert stat.S_IMODE(trust_file.stat().st_mode) == 0o600
    rows = {
        "kernels ü": True, "kernels ü/below": True, "link": True, "link/below": True, "kernels ü/not there": True,
        ".": False, "kernels ü and more": False, "kernels ü/..": False, "kernels": False,
    }  # fmt: skip
    assert {path: is_trusted(tmp_path / path) for path in rows} == rows
    require_trusted(root)
    trust(root)
    assert trusted_folders() == (root,)
    distrust(root)
    assert (is_trusted(root), trust_file.read_bytes()) == (False, b"")


def test_a_link_that_is_turned_elsewhere_is_not_trusted(root: Path, tmp_path: Path) -> None:
    trust(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "kernels ü and more")
    assert not is_trusted(tmp_path / "link")


def test_distrust_tells_when_a_folder_above_counts(root: Path) -> None:
    trust(root)
    trust(root / "below")
    with pytest.raises(CkwatchError, match="still trusted, as part of"):
        distrust(root / "below")
    assert trusted_folders() == (root,)


def test_damage_is_passed_over_and_kept(root: Path, trust_file: Path) -> None:
    trust_file.parent.mkdir()
    trust_file.write_bytes(b"\n\xff\xfe\0\nrelative\n../..\n# a remark\n/gone\n" + os.fsencode(root))
    trust_file.chmod(0o600)
    assert is_trusted(root)
    assert not is_trusted(Path("/"))
    trust(root / "below")
    assert trust_file.read_bytes().startswith(b"\n\xff\xfe\0\nrelative\n../..\n# a remark\n/gone\n" + os.fsencode(root))
    assert is_trusted(root)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_list_that_others_may_write_counts_for_nothing(mode: int, root: Path, trust_file: Path) -> None:
    trust(root)
    trust_file.chmod(mode)
    for ask in (is_trusted, require_trusted, trust, distrust):
        with pytest.raises(CkwatchError, match="others could have written it"):
            ask(root)


def test_a_list_of_somebody_else_counts_for_nothing(
    root: Path, trust_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(root)
    if os.getuid() == 0:
        os.chown(trust_file, os.getuid() + 1, -1)
    else:
        another = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: another)
    with pytest.raises(CkwatchError, match="others could have written it"):
        is_trusted(root)


def test_names_that_cannot_be_listed(root: Path, trust_file: Path) -> None:
    with pytest.raises(CkwatchError, match="line break"):
        trust(root / "a\nb")
    trust(Path(os.fsdecode(os.fsencode(root) + b"/\xff")))
    assert is_trusted(Path(os.fsdecode(os.fsencode(root) + b"/\xff/below")))
    trust_file.unlink()
    trust_file.mkdir()
    for ask in (is_trusted, trust):
        with pytest.raises(CkwatchError, match="cannot be"):
            ask(root)


def test_two_at_the_same_time_lose_nothing(root: Path) -> None:
    program = "import sys; from pathlib import Path; from ckwatch.workspace.trust import trust\nsys.stdin.read()\n"
    program += "for n in range(20): trust(Path(sys.argv[1], str(n)))\n"
    arguments = [sys.executable, "-c", program]
    both = [subprocess.Popen([*arguments, str(root / name)], stdin=subprocess.PIPE) for name in "ab"]
    for process in both:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait() for process in both] == [0, 0]
    assert set(trusted_folders()) == {root / name / str(number) for name in "ab" for number in range(20)}


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose compilers and benchmark launcher leave the file `executed` beside it."""
    root = tmp_path / "hostile"
    shutil.copytree(Path(__file__).parents[2] / "examples/cpp", root)
    tools = [f"lib/llvm/bin/{name}" for name in ("clang++", "clang", "clang-offload-bundler", "llvm-readelf")]
    data = ["amdgcn/bitcode/ocml.bc", "include/hip/hip_runtime.h", "lib/llvm/bin/llvm-objdump"]
    for name in ("bin/hipcc", *tools, *data):
        path = root / "rocm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/executed'\n")
        path.chmod(0o755)
    shutil.copy(root / "rocm/bin/hipcc", root / "launcher")
    (root / "ckwatch.toml").write_text(f'[toolchain]\nrocm = "rocm"\n[bench]\nlauncher = ["{root}/launcher"]\n')
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--no-daemon"],
        ["build", "--no-daemon"],
        ["bench", "--no-daemon"],
        ["render", "gemm_f32/6x16", "--no-daemon"],
        ["explain", "gemm_f32/6x16", "--no-daemon"],
        ["doctor"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_runs_the_code_of_an_untrusted_workspace(
    arguments: list[str], hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "-C", str(hostile)]) == 2
    assert "is not trusted" in capsys.readouterr().err
    assert not (hostile.parent / "executed").exists()


async def test_no_script_runs_the_code_of_an_untrusted_workspace(hostile: Path) -> None:
    with pytest.raises(UntrustedError):
        async with connect(hostile, private=True):
            pass
    assert not (hostile.parent / "executed").exists()
    async with connect(hostile, private=True, trust=True):
        assert is_trusted(hostile)


def test_a_trusted_workspace_runs_its_compilers(hostile: Path) -> None:
    """The test above can fail: what it plants is executed once there is trust."""
    main(["check", "--no-daemon", "--trust", "-C", str(hostile)])
    assert (hostile.parent / "executed").exists()


@pytest.mark.parametrize("command", ["check", "build", "verify", "bench"])
def test_trust_for_one_command_ends_with_it(
    command: str, hostile: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--trust-once", "-C", str(hostile)])
    assert "is not trusted" not in capsys.readouterr().err
    assert (hostile.parent / "executed").exists()
    assert not trust_file.parent.exists()
    assert main([command, "--no-daemon", "-C", str(hostile)]) == 2
    assert "is not trusted" in capsys.readouterr().err


def test_trust_once_or_from_now_on(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--trust", "--trust-once", "-C", str(hostile)])
    assert "not allowed with argument --trust" in capsys.readouterr().err
    assert main(["check", "--no-daemon", "-C", str(hostile)]) == 2
    assert "`--trust-once` trusts it for this command alone" in capsys.readouterr().err


NAMED = {
    "flags": ('[compile]\nflags = ["-fplugin=x.so"]\n', "[compile] flags"),
    "compiler": ('[toolchain]\nrocm = "/"\n', "[toolchain] rocm"),
    "clangd": ('[toolchain]\nclangd = "/bin/sh"\n', "[toolchain] clangd"),
    "launcher": ('[bench]\nlauncher = ["ssh", "box"]\n', "[bench] launcher"),
    "worker": ('[bench]\nworker = ["python3"]\n', "[bench] worker"),
    "store": ('[store]\nfolder = "kept"\n', "[store] folder"),
    "shared store": ('[store]\nshared = "s3://team"\n', "[store] shared"),
    "templates outside": ('[workspace]\ntemplates = ["t", "../outside"]\n', "[workspace] templates"),
    "a link to templates outside": ('[workspace]\ntemplates = ["to outside"]\n', "[workspace] templates"),
    "kernels outside": ('[workspace]\nkernel_folders = ["../outside"]\n', "[workspace] kernel_folders"),
}


@pytest.fixture
def workspace(root: Path) -> Path:
    (root / "ckwatch.toml").write_text('[workspace]\ntemplates = ["t"]\n[compile]\njobs = 2\n')
    (root / "to outside").symlink_to(root.parent / "outside")
    (root.parent / "outside").mkdir()
    return root


@pytest.mark.parametrize("name", NAMED)
def test_what_a_workspace_names_later_is_asked_for_again(workspace: Path, name: str) -> None:
    text, key = NAMED[name]
    settings = workspace / "ckwatch.toml"
    trust(workspace)
    before = settings.read_text()
    settings.write_text(text)
    with pytest.raises(UntrustedError, match="names what it did not when you trusted it") as refusal:
        require_trusted(workspace)
    assert key in refusal.value.message
    loader = WorkspaceLoader(workspace, guarded=True)
    found = [one.message for one in loader.load().diagnostics if one.code == "workspace/untrusted"]
    assert len(found) == 1
    assert found[0].startswith(f"not in effect: {key} = ")
    for _ in range(2):
        trust(workspace)
        require_trusted(workspace)
    assert "workspace/untrusted" not in [one.code for one in loader.load().diagnostics]
    settings.write_text(before)
    require_trusted(workspace)


def test_trust_for_one_run_is_in_what_was_named_then(workspace: Path, trust_file: Path) -> None:
    trust(workspace)
    listed = trust_file.read_bytes()
    (workspace / "ckwatch.toml").write_text('[compile]\nflags = ["-O1"]\n')
    trust_once(workspace)
    try:
        require_trusted(workspace)
        loader = WorkspaceLoader(workspace, guarded=True)
        assert loader.load().settings.compile.flags == ["-O1"]
        (workspace / "ckwatch.toml").write_text('[compile]\nflags = ["-O2"]\n')
        assert loader.load().settings.compile.flags == ["-O1"]
        assert not is_trusted(workspace)
    finally:
        end_trust_once()
    (workspace / "ckwatch.toml").write_text('[compile]\nflags = ["-O1"]\n')
    assert (is_trusted(workspace), trust_file.read_bytes()) == (False, listed)


@pytest.mark.parametrize("text", ["", "[compile]\njobs = 3\n", '[workspace]\ntemplates = ["t", "./u"]\n', "[compile\n"])
def test_what_names_nothing_is_not_asked_for(workspace: Path, text: str) -> None:
    trust(workspace)
    (workspace / "ckwatch.toml").write_text(text)
    require_trusted(workspace)


def test_a_running_daemon_keeps_what_was_trusted(workspace: Path, trust_file: Path) -> None:
    settings = workspace / "ckwatch.toml"
    settings.write_text('[compile]\nflags = ["-O1"]\n')
    trust(workspace)
    loader = WorkspaceLoader(workspace, guarded=True)
    assert loader.load().settings.compile.flags == ["-O1"]
    settings.write_text('[compile]\nflags = ["-O2"]\njobs = 3\n[bench]\nlauncher = ["rm"]\n')
    found = loader.load()
    kept = found.settings
    assert (kept.compile.flags, kept.compile.jobs, kept.bench.launcher) == (["-O1"], 3, [])
    messages = [one.message for one in found.diagnostics if one.code == "workspace/untrusted"]
    assert any('"-O2"], which was ["-O1"]' in message for message in messages)
    assert str(trust_file) in found.files, "it is loaded again once it is trusted"
    trust(workspace)
    again = loader.load()
    assert (again.settings.compile.flags, again.settings.bench.launcher) == (["-O2"], ["rm"])
    assert str(trust_file) not in again.files


def test_a_folder_of_workspaces_is_trusted_whatever_they_say(workspace: Path, tmp_path: Path) -> None:
    (workspace / "ckwatch.toml").write_text(NAMED["launcher"][0])
    trust(tmp_path)
    require_trusted(workspace)
    (tmp_path / "ckwatch.toml").write_text(NAMED["launcher"][0])
    require_trusted(tmp_path)


def test_an_entry_of_an_earlier_version_is_asked_for_once(workspace: Path, trust_file: Path) -> None:
    trust_file.parent.mkdir()
    trust_file.write_bytes(f"# mine\nnames damaged\n{workspace}\n".encode())
    trust_file.chmod(0o600)
    require_trusted(workspace)
    (workspace / "ckwatch.toml").write_text(NAMED["flags"][0])
    assert not is_trusted(workspace)
    trust(workspace)
    assert is_trusted(workspace)
    assert trust_file.read_bytes().startswith(f"# mine\nnames damaged\n{workspace}\nnames ".encode())
    distrust(workspace)
    assert trust_file.read_bytes() == b"# mine\nnames damaged\n"


def test_a_command_says_what_is_new(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trust(workspace)
    (workspace / "ckwatch.toml").write_text(NAMED["launcher"][0])
    assert main(["check", "-C", str(workspace), "--no-daemon"]) == 2
    assert '[bench] launcher = ["ssh", "box"]' in capsys.readouterr().err
