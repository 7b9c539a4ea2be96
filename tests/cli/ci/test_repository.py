"""The base's tree, made from git's objects and the work tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli.ci.repository import COPIED_BYTES, Repository
from ckwatch.model.errors import CkwatchError
from helpers.git_repositories import git

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 3\n"
DIGEST = "ab" * 32


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the workspace `ws`, in which nothing is committed yet."""
    root = tmp_path / "repository"
    write(root, {"ws/ckwatch.toml": "", "ws/kept.h": "1", "ws/edited ü.h": "1", "ws/gone.h": "1", "other/a/b.h": "1"})
    write(root, {"other/c/edited.h": "1", "other/c/kept.h": "1", "third/party.h": "1", ".gitignore": "build/\n"})
    git(root, "init", "--quiet", "--initial-branch", "main")
    return root


def write(root: Path, files: dict[str, str]) -> None:
    """Write files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "…")


async def base_tree(root: Path) -> tuple[Path, list[str]]:
    """The tree of the base, which is `main`, and what could not be made."""
    found = await Repository.around(root / "ws", {"PATH": "/usr/local/bin:/usr/bin:/bin"})
    base = await found.base(None)
    tree = root.parent / "tree"
    return tree, await found.write_base(base, await found.differences(base), tree)


async def test_what_differs_is_gits_and_the_rest_is_the_work_trees(root: Path) -> None:
    (root / "ws/link.h").symlink_to("kept.h")
    commit(root)
    write(root, {"ws/edited ü.h": "2", "ws/new.h": "2", "other/c/edited.h": "2", "ws/build/made.h": "0"})
    write(root, {"ws/large.bin": "x" * (COPIED_BYTES + 1), "other/c/kept.h": "1"})
    (root / "ws/gone.h").unlink()
    git(root, "add", "ws/new.h")
    tree, notes = await base_tree(root)
    assert notes == []
    files = ("ws/kept.h", "ws/edited ü.h", "ws/gone.h", "ws/link.h", "other/a/b.h", "other/c/edited.h", "third/party.h")
    assert [(tree / name).read_text() for name in files] == ["1"] * len(files)
    assert not (tree / "ws/new.h").exists()
    links = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink()}
    assert links == {"ws/link.h", "ws/build", "other/a", "other/c/kept.h", "third", ".gitignore"}


async def test_a_folder_in_the_place_of_a_file(root: Path) -> None:
    commit(root)
    (root / "ws/kept.h").unlink()
    write(root, {"ws/kept.h/inside.h": "2"})
    tree, _ = await base_tree(root)
    assert (tree / "ws/kept.h").read_text() == "1"


async def test_a_submodule_at_another_commit_is_said(root: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    write(module, {"a.h": "1"})
    git(module, "init", "--quiet")
    commit(module)
    git(root, "submodule", "--quiet", "add", str(module), "ws/module")
    commit(root)
    write(root, {"ws/module/a.h": "2"})
    commit(root / "ws/module")
    tree, notes = await base_tree(root)
    assert notes == ["`ws/module` is a submodule at another commit: its present files are used for the base, too."]
    assert (tree / "ws/module/a.h").read_text() == "2"


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_file_that_git_lfs_keeps(root: Path, *, is_here: bool) -> None:
    write(root, {"ws/data.npy": POINTER.format(digest=DIGEST)})
    commit(root)
    write(root, {"ws/data.npy": "new"})
    if is_here:
        write(root, {f".git/lfs/objects/ab/ab/{DIGEST}": "old"})
    tree, notes = await base_tree(root)
    assert ((tree / "ws/data.npy").read_text() == "old") is is_here
    assert [
        note.startswith("`ws/data.npy` of the base is kept by Git LFS and not here: `git lfs fetch") for note in notes
    ] == ([] if is_here else [True])


async def test_a_branch_without_a_common_commit(root: Path) -> None:
    commit(root)
    git(root, "checkout", "--quiet", "--orphan", "other")
    git(root, "commit", "--quiet", "--message", "another")
    found = await Repository.around(root / "ws")
    with pytest.raises(CkwatchError, match="'main' has no commit in common with HEAD"):
        await found.base("main")
    with pytest.raises(CkwatchError, match="there is no commit '--help' in this repository"):
        await found.base("--help")
