"""The git repository around a workspace: its base, what differs from that, and the base's files.

The base is the merge base of HEAD with a branch, so that it is a part of the history that the workspace is trusted
with. What differs is what `git diff` of the work tree says, with files that git does not know and does not ignore.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath

from anyio import to_thread

from ckwatch.cli.ci.report import Revision
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.system.git import GIT, git_environment
from ckwatch.system.user_files import read_file
from ckwatch.workspace.kernel_globs import is_skipped

OUTPUT_LIMIT_BYTES = 256 * 2**20

COPIED_BYTES = 2**22
"""Larger files of the workspace that do not differ are links to those of the work tree."""

PATHS_AT_ONCE = 500

BRANCH_VARIABLES = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CHANGE_TARGET")
"""Variables in which pipelines name the branch that a change is for: GitHub's, GitLab's, Jenkins's."""

DEFAULT_BRANCHES = (
    *("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master"),
    *("refs/heads/main", "refs/heads/master"),
)

POINTER_BYTES = 1024
"""The longest pointer of Git LFS."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Differences:
    """`paths` differ from the base, relative to the repository, those of `kept` exist at the base. `submodules` are at
    another commit. `ignored`: folders and files that git ignores."""

    paths: tuple[str, ...]
    kept: frozenset[str]
    submodules: tuple[str, ...]
    ignored: frozenset[str]


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository in the absolute folder `root`; `inside`: the workspace's folder in it, empty for its top."""

    root: str
    inside: str
    environment: Mapping[str, str]
    is_shallow: bool = False
    lfs_objects: str = ""
    head_commit: str = ""
    """Empty before the first commit."""

    @classmethod
    async def around(cls, workspace: Path, environment: Mapping[str, str] = os.environ) -> Repository:
        """Raises CkwatchError where there is no repository, or git refuses it."""
        own = git_environment(environment) | {"GIT_LFS_SKIP_SMUDGE": "1"}
        found = cls(str(workspace), "", own)
        asked = ("--show-toplevel", "--show-prefix", "--is-shallow-repository", "--git-path", "lfs/objects")
        answer = await found._run("rev-parse", *asked)
        if not answer.succeeded:
            words = answer.stderr.strip().removeprefix("fatal: ")
            if "not a git repository" in words:
                raise CkwatchError(f"{workspace} is not in a git repository", "`git init` makes one.")
            raise CkwatchError(f"git refuses {workspace}: {words}")
        top, inside, shallow, objects = answer.stdout.split("\n")[:4]
        inside = inside.rstrip("/")
        end = f"/{inside}" if inside else ""
        # a workspace that was reached through a link keeps the path it was given by
        root = str(workspace).removesuffix(end) if str(workspace).endswith(end) else top
        head = await found._commit("HEAD")
        return cls(root, inside, own, shallow == "true", str(workspace / objects), head)

    async def head(self, base: Revision, differences: Differences) -> Revision:
        """The state of the work tree."""
        branch = await self._line("symbolic-ref", "--quiet", "--short", "HEAD")
        dirty = bool(differences.paths)
        if self.head_commit != base.commit:
            dirty = bool(await self._output("status", "--porcelain", "-z"))
        return Revision(name=branch or "HEAD", commit=self.head_commit, dirty=dirty)

    async def base(self, asked: str | None) -> Revision:
        """The base: the merge base with `asked`, with the branch that a pipeline names, or with the default branch.
        Before the first commit it is empty. Raises CkwatchError for one that is not there, with the command that
        fetches it."""
        if not self.head_commit:
            if asked:
                raise CkwatchError(f"there is no commit yet to compare with '{asked}'")
            return Revision(name="no commit", commit="")
        branch = next((name for one in BRANCH_VARIABLES if (name := self.environment.get(one))), None)
        if asked is None and branch is None:
            return await self._default()
        named = asked or branch or ""
        for name in (asked,) if asked else (f"origin/{branch}", named):
            if commit := await self._commit(name):
                return Revision(name=name, commit=await self._merge_base(name, commit))
        where = "shallow clone" if self.is_shallow else "repository"
        raise CkwatchError(f"there is no commit '{named}' in this {where}", self._fetch(named))

    async def _default(self) -> Revision:
        known = await self._output("for-each-ref", "--format=%(refname) %(objectname)", *DEFAULT_BRANCHES)
        commits = dict(line.split(" ") for line in known.splitlines())
        for branch in DEFAULT_BRANCHES:
            if branch in commits:
                name = branch.removeprefix("refs/heads/").removeprefix("refs/remotes/")
                return Revision(name=name, commit=await self._merge_base(name, commits[branch]))
        raise CkwatchError(
            "there is no default branch to compare with: no origin/HEAD, main or master",
            self._fetch("main") if self.is_shallow else "--base names a commit or a branch.",
        )

    async def _merge_base(self, name: str, commit: str) -> str:
        found = await self._line("merge-base", "HEAD", commit)
        if found:
            return found
        if self.is_shallow:
            raise CkwatchError(
                f"this shallow clone does not reach back to where the work tree left '{name}'", self._fetch(name)
            )
        raise CkwatchError(f"'{name}' has no commit in common with HEAD", "--base names another commit or branch.")

    def _fetch(self, name: str) -> str:
        """The command that fetches a branch or a commit."""
        branch = name.removeprefix("origin/")
        target = shlex.quote(branch if re.fullmatch(r"[0-9a-f]{7,64}", branch) else
                             f"{branch}:refs/remotes/origin/{branch}")  # fmt: skip
        return f"`git fetch {'--unshallow ' if self.is_shallow else ''}origin {target}` fetches it."

    async def _commit(self, name: str) -> str:
        return await self._line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    async def differences(self, base: Revision) -> Differences:
        """The differences between the base and the work tree."""
        unknown = _names(await self._output("ls-files", "--others", "--exclude-standard", "-z"))
        ignored = _names(
            await self._output("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
        )
        kept: dict[str, None] = {}
        added: dict[str, None] = {}
        submodules: list[str] = []
        if base.commit:
            raw = await self._output(
                "diff", "--raw", "--no-renames", "--no-ext-diff", "--no-color", "--no-relative", "-z", base.commit, "--"
            )
            for entry, path in _batched(_names(raw), 2):
                old_mode, new_mode, _, _, status = entry.removeprefix(":").split(" ")
                if "160000" in (old_mode, new_mode):
                    submodules.append(path)
                elif status == "A":
                    added[path] = None
                else:
                    kept[path] = None
        else:
            added |= dict.fromkeys(_names(await self._output("ls-files", "--cached", "-z")))
        return Differences(
            tuple(sorted({*kept, *added, *unknown})),
            frozenset(kept),
            tuple(submodules),
            frozenset(one.rstrip("/") for one in ignored),
        )

    async def write_base(self, base: Revision, differences: Differences, target: Path) -> list[str]:
        """Make the base's files in the new folder `target`, and return what could not be made, as sentences.

        What differs comes from git. Of the rest, folders outside of the workspace are links to the work tree's, and
        files of the workspace are copies: kernel files behind a link that leads out of a workspace would not be read.
        """
        changed = frozenset(differences.paths)
        opened = {str(parent) for path in (*changed, f"{self.inside}/.") for parent in PurePosixPath(path).parents}
        linked = differences.ignored.union(await self._submodules())
        copying = _Mirror(self.root, str(target), self.inside, changed, opened, linked)
        await to_thread.run_sync(copying.make)
        index = target.with_name(f"{target.name}.index")
        environment = {"GIT_INDEX_FILE": str(index)}
        await self._output("read-tree", base.commit, more=environment)
        for paths in _batched(sorted(differences.kept), PATHS_AT_ONCE):
            prefix = f"--prefix={target}/"
            await self._output("checkout-index", "--force", "--quiet", prefix, "--", *paths, more=environment)
        lost = await to_thread.run_sync(_fill_pointers, target, sorted(differences.kept), Path(self.lfs_objects))
        notes = [f"`{one}` is a submodule at another commit: its present files are used for the base, too." for one in
                 differences.submodules]  # fmt: skip
        if lost:
            more = f" and {count(len(lost) - 1, 'more file')}" if len(lost) > 1 else ""
            notes.append(
                f"`{lost[0]}`{more} of the base is kept by Git LFS and not here: "
                f"`git lfs fetch origin {base.commit[:10]}` fetches it."
            )
        return notes

    async def _submodules(self) -> list[str]:
        entries = _names(await self._output("ls-files", "--stage", "-z"))
        return [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]

    async def _run(self, *arguments: str, more: Mapping[str, str] | None = None) -> ProcessResult:
        environment = {**self.environment, **(more or {})}
        try:
            return await run_process(
                (*GIT, *arguments), environment=environment, folder=Path(self.root),
                output_limit_bytes=OUTPUT_LIMIT_BYTES,
            )  # fmt: skip
        except ToolchainError as error:
            raise CkwatchError(f"git cannot be run: {error.message}", "`ckwatch ci` compares commits of git.") from None

    async def _line(self, *arguments: str) -> str:
        """The output's first line; empty where git has no answer."""
        answer = await self._run(*arguments)
        return answer.stdout.strip().partition("\n")[0] if answer.succeeded else ""

    async def _output(self, *arguments: str, more: Mapping[str, str] | None = None) -> str:
        answer = await self._run(*arguments, more=more)
        if not answer.succeeded or answer.dropped_bytes:
            words = answer.stderr.strip() or "its output is too long"
            raise CkwatchError(f"`git {arguments[0]}` failed: {words}")
        return answer.stdout


def _batched(names: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    left = iter(names)
    while some := tuple(islice(left, size)):
        yield some


def _names(output: str) -> list[str]:
    return [name for name in output.split("\0") if name]


@dataclass(frozen=True, slots=True)
class _Mirror:
    """Copies and links what does not differ. `opened`: folders in which something differs."""

    root: str
    target: str
    inside: str
    changed: AbstractSet[str]
    opened: Collection[str]
    linked: AbstractSet[str]

    def make(self) -> None:
        """Blocks; call from a worker thread."""
        os.mkdir(self.target)  # noqa: PTH102
        waiting = [""]
        while waiting:
            waiting += self._fill(waiting.pop())

    def _fill(self, folder: str) -> Iterator[str]:
        """Make what is in a folder, and give the folders that are made themselves."""
        with os.scandir(f"{self.root}/{folder}") as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if path == ".git" or path in self.changed:
                    continue
                with suppress(FileNotFoundError):
                    if self._make(entry, path):
                        yield path

    def _make(self, entry: os.DirEntry[str], path: str) -> bool:
        target = f"{self.target}/{path}"
        own = not self.inside or path.startswith(f"{self.inside}/") or path == self.inside
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)  # noqa: PTH115, PTH211
        elif entry.is_dir():
            if (
                path in self.opened
                or path == self.inside
                or (own and path not in self.linked and not is_skipped(entry.name))
            ):
                os.mkdir(target)  # noqa: PTH102
                return True
            os.symlink(entry.path, target)  # noqa: PTH211
        elif entry.is_file():
            if own and entry.stat().st_size <= COPIED_BYTES:
                shutil.copy2(entry.path, target)
            else:
                os.symlink(entry.path, target)  # noqa: PTH211
        return False


def _fill_pointers(target: Path, paths: Sequence[str], objects: Path) -> list[str]:
    """Put the contents that Git LFS has here in the place of pointers; the paths of the others. Blocks; call from a
    worker thread."""
    lost = []
    for path in paths:
        content = b""
        with suppress(OSError):  # larger than a pointer, a link that leads nowhere, a folder
            content = read_file(target / path, POINTER_BYTES)
        if not content.startswith(LFS_POINTER):
            continue
        digest = content.partition(b"oid sha256:")[2][:64].decode("ascii", "replace")
        kept = objects / digest[:2] / digest[2:4] / digest
        if kept.is_file():
            shutil.copyfile(kept, target / path)
        else:
            lost.append(path)
    return lost
