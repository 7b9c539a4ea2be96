"""`ckwatch ci`: compares what a change affects with its base in git."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from anyio import CapacityLimiter, TemporaryDirectory, to_thread

from ckwatch.cli.ci.affected import AffectedSearch, Touched
from ckwatch.cli.ci.comparison import FAIL_ON, BaseTree, BothStates, all_diagnostics, new_errors, untimed
from ckwatch.cli.ci.formats import formatted
from ckwatch.cli.ci.report import CiReport, Revision
from ckwatch.cli.ci.repository import Differences, Repository
from ckwatch.cli.ci.texts import print_report
from ckwatch.cli.command_words import dependency
from ckwatch.cli.output import Output, write_file
from ckwatch.cli.reports import places
from ckwatch.cli.session import known_archs
from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import require_trust
from ckwatch.engine.workspace_outcomes import OutcomeTools, WorkspaceOutcomes, open_outcomes
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.wire.unit_changes import ChangeVerdict, change_summary
from ckwatch.workspace.discovery import FILE_NAME, find_workspace, working_folder


async def run(options: argparse.Namespace) -> int:
    """Compare units: 1 if one of them gets worse as `--fail-on` says, or a file has a new mistake, 2 if one cannot be
    compared here."""
    page: Callable[[], Awaitable[int]] | None = None
    if options.page is not None:
        from ckwatch.cli.web import export_all, require_nicegui

        require_nicegui(options)
        page = partial(export_all, options, options.page)
    root, words = await to_thread.run_sync(_workspace, options)
    await to_thread.run_sync(lambda: require_trust(root, options))
    output = Output(options, root)
    written = places(options.report)
    async with dependency(options, "stoppable", stoppable)():
        with output.working("comparing with git") as show:
            report = await _Run(options, root, words, show).report()
    for name, path in written:
        if path is not None:
            text = formatted(report, name, output.read_line)
            await to_thread.run_sync(write_file, path, text.encode())
    (shown,) = [name for name, path in written if path is None] or ["json" if output.json else "text"]
    if shown == "text":
        print_report(output, report)
    else:
        sys.stdout.write(formatted(report, shown, output.read_line))
    sys.stdout.flush()
    if page is not None and await page():
        return report.exit_status or 2
    return report.exit_status


def _workspace(options: argparse.Namespace) -> tuple[Path, list[str]]:
    """The workspace of `-C`, of the first path that is there, or of the working directory, and the absolute paths."""
    here = working_folder()
    words = [os.path.abspath(here / word) for word in options.paths]  # noqa: PTH100  # links keep their names
    there = next((Path(word) for word in words if os.path.exists(word)), here)  # noqa: PTH110
    return find_workspace(options.workspace or there), words


class _Run:
    """One run: what differs, the base's tree, both workspaces, and what they say."""

    def __init__(
        self, options: argparse.Namespace, root: Path, words: Sequence[str], show: Callable[[str], None]
    ) -> None:
        self._options = options
        self._root = root
        self._words = words
        self._show = show
        self._begun = time.monotonic()
        self._fail_on = tuple(ChangeVerdict(one) for one in options.fail_on) or FAIL_ON
        self._tools: OutcomeTools = dependency(
            options, "outcome_tools", OutcomeTools(renders=len(os.sched_getaffinity(0)))
        )
        self._notes: list[str] = []

    async def report(self) -> CiReport:
        """Raises CkwatchError where there is nothing to compare with."""
        repository = await Repository.around(self._root)
        base = await repository.base(self._options.base)
        differences = await repository.differences(base)
        head = await repository.head(base, differences)
        touched = _touched(repository, differences, self._words)
        if base.commit and base.commit == head.commit and not differences.paths and not self._words:
            self._notes.append(
                f"The work tree is at {base.name}: nothing differs. `--base HEAD~1` compares it with the commit before."
            )
        async with self._base_tree(repository, base, differences) as tree:
            return await self._compared(repository, base, head, differences, touched, tree)

    @asynccontextmanager
    async def _base_tree(
        self, repository: Repository, base: Revision, differences: Differences
    ) -> AsyncIterator[Path | None]:
        """The folder with the base's files; None before the first commit."""
        if not base.commit:
            yield None
            return
        async with TemporaryDirectory(prefix="ckwatch-base-") as folder:
            tree = await to_thread.run_sync(Path(folder, "tree").resolve)
            self._notes += await repository.write_base(base, differences, tree)
            yield tree

    async def _compared(
        self,
        repository: Repository,
        base: Revision,
        head: Revision,
        differences: Differences,
        touched: Touched,
        tree: Path | None,
    ) -> CiReport:
        options = self._options
        archs = await to_thread.run_sync(known_archs, options.arch)
        compilers = CapacityLimiter(1)
        tools = self._tools.with_one_search()
        places = BaseTree(str(tree or "/nowhere"), repository.root)
        base_root = None if tree is None else tree / repository.inside
        async with (
            open_outcomes(self._root, tools, compilers, trusted=self._root, archs=archs) as now,
            _opened_if_there(base_root, tools, compilers, trusted=self._root, archs=archs) as then,
        ):
            compilers.total_tokens = now.loaded.jobs
            if not options.no_build and now.loaded.toolchain_problem is not None and now.units:
                raise ToolchainError.of(now.loaded.toolchain_problem)
            if then is None and base.commit:
                self._notes.append(f"The base has no {FILE_NAME} here: all units are new.")
            self._show("rendering")
            search = AffectedSearch(now, then, repository.root, places.tree, touched, chosen=bool(self._words))
            affected = await search.find()
            comparison = BothStates(
                now,
                then,
                places,
                self._fail_on,
                build=not options.no_build,
                verify=not options.no_verify,
                profile=options.profile,
                bench=not options.no_bench,
                device=options.device,
            )
            units = await comparison.compared(affected, self._show)
            reasons = untimed(units)
            self._notes += reasons
            mistakes = new_errors(now, then, places)
            seen = touched.files | {one.span.path for one in mistakes}
            own = [one for one in now.loaded.diagnostics if one in mistakes or one.span.path in seen]
            faulted = any("faulted" in (one.change.before.outcome, one.change.after.outcome) for one in units)
            faulted |= bool(options.device and reasons)
            return CiReport(
                workspace=str(self._root),
                repository=repository.root,
                base=base,
                head=head,
                changed=differences.paths,
                units=tuple(units),
                unaffected=len(now.units) - sum(one.presence != "removed" for one in units),
                diagnostics=all_diagnostics(own, units),
                summary=change_summary([one.change for one in units]),
                fail_on=tuple(one.value for one in self._fail_on),
                exit_status=1 if mistakes or any(one.fails for one in units) else 2 if faulted else 0,
                new_mistakes=len(mistakes),
                notes=tuple(self._notes),
                seconds=time.monotonic() - self._begun,
            )


@asynccontextmanager
async def _opened_if_there(
    root: Path | None, tools: OutcomeTools, compilers: CapacityLimiter, *, trusted: Path, archs: tuple[str, ...]
) -> AsyncIterator[WorkspaceOutcomes | None]:
    """The base's workspace, if it has one."""
    if root is None or not (root / FILE_NAME).is_file():
        yield None
        return
    async with open_outcomes(root, tools, compilers, trusted=trusted, archs=archs) as found:
        yield found


def _touched(repository: Repository, differences: Differences, words: Sequence[str]) -> Touched:
    """The files that a run is about: what differs, or what the words name. Raises CkwatchError for a path that is
    neither in the work tree nor in the base."""
    deleted = {path for path in differences.kept if not os.path.lexists(f"{repository.root}/{path}")}
    if not words:
        files = [*differences.paths, *differences.submodules]
        return Touched(
            frozenset(f"{repository.root}/{path}" for path in files),
            tuple(f"{repository.root}/{path}/" for path in differences.submodules),
            frozenset(f"{repository.root}/{path}" for path in deleted),
        )
    gone = {f"{repository.root}/{path}" for path in deleted}
    for word in words:
        if not os.path.lexists(word) and word not in gone and not any(one.startswith(f"{word}/") for one in gone):
            raise CkwatchError(f"there is no {word}, nor was there one at the base")
    folders = tuple(f"{word}/" for word in words if word not in gone)
    return Touched(frozenset(words), folders, frozenset(gone.intersection(words)))
