"""Finding a workspace and its kernel files; overlays; files that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.discovery import find_workspace
from ckwatch.workspace.kernel_globs import compile_glob
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.trust import distrust, trust
from helpers.workspaces import KERNEL, workspace


def test_a_workspace_is_found_from_below(tmp_path: Path) -> None:
    root = tmp_path / "größe und mehr"
    workspace(root, {"deep/er/k.kernel.toml": KERNEL})
    assert find_workspace(root / "deep/er") == root
    assert find_workspace(root / "deep/er/k.kernel.toml") == root
    assert find_workspace(root) == root


def test_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(CkwatchError, match="ckwatch init"):
        find_workspace(tmp_path)
    with pytest.raises(CkwatchError, match="there is no"):
        find_workspace(tmp_path / "nowhere")
    with pytest.raises(CkwatchError, match="ckwatch init"):
        load_workspace(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("**/*.kernel.toml", ["a.kernel.toml", "x/y/a.kernel.toml"], ["a.toml", "x.kernel.toml/b"]),
        ("*.toml", ["a.toml"], ["x/a.toml"]),
        ("k/**", ["k/a", "k/a/b"], ["k", "a"]),
        ("k?/[ab].toml", ["k1/a.toml"], ["k/a.toml", "k1/c.toml", "k//a.toml"]),
        ("./k/a+b.toml", ["k/a+b.toml"], ["k/aab.toml"]),
        ("[!a].toml", ["b.toml"], ["a.toml", "/.toml"]),
        ("[.toml", ["[.toml"], ["a.toml"]),
    ],
)
def test_globs(pattern: str, matches: list[str], others: list[str]) -> None:
    expression = compile_glob(pattern)
    assert [name for name in (*matches, *others) if expression.fullmatch(name)] == matches


def test_folders_that_are_not_entered(tmp_path: Path) -> None:
    hidden = (".git", ".venv", "node_modules", "x/.hidden", "__pycache__", "site-packages")
    files = {f"{folder}/k.kernel.toml": KERNEL for folder in hidden}
    files |= {"env/pyvenv.cfg": "", "env/lib/k.kernel.toml": KERNEL, "x/y/seen.kernel.toml": KERNEL}
    found = workspace(tmp_path, files)
    assert [kernel.name for kernel in found.kernels] == ["seen"]


def test_links(tmp_path: Path) -> None:
    """A linked folder of the workspace is entered, a loop ends, and a file with two names is read once."""
    root = tmp_path / "root"
    (root / ".hidden").mkdir(parents=True)
    (root / ".hidden/far.kernel.toml").write_text(KERNEL)
    (root / "linked").symlink_to(root / ".hidden")
    (root / "loop").symlink_to(root)
    (root / "z.kernel.toml").symlink_to(root / "k.kernel.toml")
    found = workspace(root, {"k.kernel.toml": KERNEL})
    assert [kernel.name for kernel in found.kernels] == ["k", "far"]
    assert found.diagnostics == ()
    (tmp_path / "way in").symlink_to(root)
    assert find_workspace(tmp_path / "way in") == tmp_path / "way in"


def test_links_that_leave_the_workspace(tmp_path: Path) -> None:
    """They are not followed, and said; a setting names the folders that count."""
    for name in ("folder", "file", "third", "unrelated"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("x" if name == "unrelated" else f"{name}.kernel.toml")).write_text(KERNEL)
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "folder").symlink_to(tmp_path / "folder")
    (root / "unrelated").symlink_to(tmp_path / "unrelated")
    (root / "deep/file.kernel.toml").symlink_to("../../file/file.kernel.toml")
    (root / "deep/up").symlink_to("../..")
    found = workspace(root, {"k.kernel.toml": KERNEL})
    assert [kernel.name for kernel in found.kernels] == ["k"]
    assert [(one.code, Path(one.span.path).name) for one in found.diagnostics] == [
        ("workspace/outside", "file.kernel.toml"),
        ("workspace/outside", "folder"),
    ]
    assert all(name not in file for file in found.files for name in ("folder", "file/", "third"))
    settings = '[workspace]\nkernel_folders = ["../folder", "../third", "../nowhere"]\n'
    found = workspace(root, {"ckwatch.toml": settings})
    assert [kernel.name for kernel in found.kernels] == ["folder", "k", "third"]
    assert [one.code for one in found.diagnostics] == ["workspace/outside", "workspace/missing-folder"]
    assert str(found.diagnostics[1].span.start) == "2:44"
    assert str(tmp_path / "third/third.kernel.toml") in found.files


def test_files_that_others_can_write_are_not_used(tmp_path: Path) -> None:
    found = workspace(tmp_path, {"good.kernel.toml": KERNEL, "open.kernel.toml": KERNEL, "drop/in.kernel.toml": KERNEL})
    assert len(found.kernels) == 3
    (tmp_path / "open.kernel.toml").chmod(0o666)
    (tmp_path / "drop").chmod(0o777)
    found = load_workspace(tmp_path)
    assert [kernel.name for kernel in found.kernels] == ["good"]
    assert [(one.code, Path(one.span.path).name) for one in found.diagnostics] == [
        ("kernel-file/writable-by-others", "in.kernel.toml"),
        ("kernel-file/writable-by-others", "open.kernel.toml"),
    ]
    assert f"every user can write its folder {tmp_path / 'drop'}" in found.diagnostics[0].message
    assert "every user can write it" in found.diagnostics[1].message
    trust(tmp_path, shared=True)
    assert len(load_workspace(tmp_path).kernels) == 3
    distrust(tmp_path)
    assert len(load_workspace(tmp_path).kernels) == 1


def test_settings_that_others_can_write_are_not_used(tmp_path: Path) -> None:
    workspace(tmp_path, {"k.kernel.toml": KERNEL})
    (tmp_path / "ckwatch.toml").chmod(0o606)
    with pytest.raises(CkwatchError, match=r"ckwatch.toml is not used: every user can write it"):
        load_workspace(tmp_path)
    (tmp_path / "ckwatch.toml").chmod(0o644)
    tmp_path.chmod(0o777)
    with pytest.raises(CkwatchError, match="every user can write its folder"):
        load_workspace(tmp_path)


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "gone.kernel.toml").symlink_to(tmp_path / "nowhere")
    found = workspace(tmp_path, {"k.kernel.toml": KERNEL})
    assert [(one.code, one.span.path) for one in found.diagnostics] == [
        ("kernel-file/unreadable", str(tmp_path / "gone.kernel.toml"))
    ]
    assert [kernel.name for kernel in found.kernels] == ["k"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.kernel.toml")
    (found,) = workspace(tmp_path, {"k.kernel.toml": KERNEL}).diagnostics
    assert found.message == "cannot be read: not a regular file"


def test_latin_1_is_reported_and_left_out(tmp_path: Path) -> None:
    text = KERNEL.replace('"first"', '"größe"').encode("latin-1")
    found = workspace(tmp_path, {"latin.kernel.toml": text, "k.kernel.toml": KERNEL})
    assert [(one.code, str(one.span.start)) for one in found.diagnostics] == [
        ("kernel-file/not-utf-8", "10:11"),
        ("kernel-file/not-utf-8", "10:12"),
    ]
    assert [kernel.name for kernel in found.kernels] == ["k"]


def test_overlays_replace_and_add(tmp_path: Path) -> None:
    workspace(tmp_path, {"k.kernel.toml": KERNEL})
    overlays = {
        str(tmp_path / "k.kernel.toml"): KERNEL.replace('"first"', '"second"'),
        str(tmp_path / "new/n.kernel.toml"): KERNEL.replace("t.hip.j2", "new.hip.j2"),
        str(tmp_path / "templates/new.hip.j2"): "{{ MPerBlock }}",
        str(tmp_path / "node_modules/x.kernel.toml"): "broken =",
        str(tmp_path / "ckwatch.toml"): '[workspace]\narchs = ["gfx950"]\n',
    }
    found = load_workspace(tmp_path, overlays=overlays)
    assert found.diagnostics == ()
    assert [unit.id for unit in found.units] == ["k/second@gfx950", "n/first@gfx950"]


def test_overlays_are_found_by_their_real_path(tmp_path: Path) -> None:
    root = tmp_path / "root"
    workspace(root, {"k.kernel.toml": KERNEL})
    (tmp_path / "link").symlink_to(root)
    changed = KERNEL.replace('"first"', '"second"')
    found = load_workspace(tmp_path / "link", overlays={str(root / "k.kernel.toml"): changed})
    assert [unit.id for unit in found.units] == ["k/second@gfx942"]


def test_patterns_that_find_nothing(tmp_path: Path) -> None:
    text = '[workspace]\nkernels = ["k.kernel.toml", "x/*.toml"]\n'
    (found,) = workspace(tmp_path, {"ckwatch.toml": text, "k.kernel.toml": KERNEL}).diagnostics
    assert (found.code, str(found.severity), str(found.span.start)) == ("workspace/no-kernel-file", "warning", "2:29")


def test_a_workspace_without_kernels(tmp_path: Path) -> None:
    (found,) = workspace(tmp_path, {}).diagnostics
    assert (found.code, str(found.severity)) == ("workspace/no-kernel-file", "warning")


def test_templates_of_the_workspace_come_first(tmp_path: Path) -> None:
    files = {
        "ckwatch.toml": '[workspace]\ntemplates = ["b", "a"]\n',
        "k.kernel.toml": KERNEL.replace("t.hip.j2", "cpp/gemm_blocked.cpp.j2"),
        "a/x": "",
        "b/x": "",
    }
    found = workspace(tmp_path, files)
    assert found.diagnostics == ()
    assert [folder.name for folder in found.template_folders] == ["b", "a", "ckwatch_templates"]
    assert found.kernels[0].archs == ("host",)


def test_messages_are_sorted_by_file_and_place(tmp_path: Path) -> None:
    broken = KERNEL + "[[shape]]\nM = 0\nN = 0\nK = 0\n"
    text = "x = 1\n[compile]\ny = 1\n"
    found = workspace(tmp_path, {"ckwatch.toml": text, "b.kernel.toml": broken, "a.kernel.toml": broken})
    places = [(Path(one.span.path).name, one.span.start.line + 1) for one in found.diagnostics]
    assert places == [("ckwatch.toml", 1), ("ckwatch.toml", 3)] + [
        (name, line) for name in ("a.kernel.toml", "b.kernel.toml") for line in (13, 14, 15)
    ]
