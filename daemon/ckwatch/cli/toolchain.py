"""`ckwatch doctor` and `ckwatch toolchain install|list|remove`.

Exit status 0, or 2 when something needed is missing. ToolchainError is left to the caller.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from ckwatch.cli.command_words import dependency
from ckwatch.cli.output import Output
from ckwatch.cli.signals import stoppable
from ckwatch.cli.trust import trusted_workspace
from ckwatch.compile.toolchain import installations, rocm_libraries
from ckwatch.compile.toolchain.clang_headers import (
    CLANG_HEADERS_INSTALL_COMMAND,
    can_fetch_headers,
    fetch_clang_headers,
    find_clang_headers,
)
from ckwatch.compile.toolchain.clangd import fetch_clangd, find_clangd, major_to_fetch
from ckwatch.compile.toolchain.composable_kernel import RELEASES, CkRelease, find_sources, installed_sources
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.doctor import XDL_ARCHS, CheckState, DoctorCheck, DoctorReport, examine
from ckwatch.compile.toolchain.install import install as install_toolchain
from ckwatch.compile.toolchain.install import install_composable_kernel
from ckwatch.compile.toolchain.install_steps import InstallStep, OnProgress
from ckwatch.compile.toolchain.library_install import install_libraries
from ckwatch.compile.toolchain.model import Toolchain, ToolchainChoice
from ckwatch.compile.toolchain.named import installed_names, short_name
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.compile.toolchain.rocm_libraries import chosen_libraries
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.toolchain_names import fits_version
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.trust import require_trusted

_MARKS = {CheckState.OK: ("✓", "green"), CheckState.NOTE: ("·", "yellow"), CheckState.MISSING: ("✗", "red bold")}


def doctor(options: argparse.Namespace) -> int:
    """Report on the environment, and on what the workspace's `ckwatch.toml` asks for; 2 when something is missing.

    Raises `UntrustedError` for a named workspace whose compilers may not run here, `CkwatchError` if it cannot be read.
    """
    root = trusted_workspace(options)
    choice: ToolchainChoice | None = None
    archs: tuple[str, ...] = ("gfx942",)
    if root is not None:
        require_trusted(root)
        settings = load_workspace(root).settings
        choice, archs = settings.toolchain, tuple(settings.workspace.archs)
    more = (partial(parts_check, root),)
    report = anyio.run(partial(examine, choice, os.environ, archs=archs, smoke=options.smoke, more=more))
    output = Output(options, root)
    if output.json and not options.quiet:
        output.answer(environment_of(report))
    elif not options.quiet:
        print_report(report, output.console)
    return 0 if report.ok else 2


async def parts_check(workspace: Path | None, toolchain: Toolchain) -> DoctorCheck:
    """Check that host and device passes can run side by side, which halves the compile time."""
    from ckwatch.compile.precompiled_headers import PrecompiledHeaderStore
    from ckwatch.compile.request import CompileRequest
    from ckwatch.compile.staged_build import StagedCompiler
    from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
    from ckwatch.compile.store.header_sets import PathRoots
    from ckwatch.model.targets import Language
    from ckwatch.system.async_processes import run_process

    folder = None if workspace is None else load_workspace(workspace).settings.store.folder
    name = "fast compile"
    slower = "everything works, about half as fast"
    async with anyio.TemporaryDirectory(prefix="ckwatch-") as temporary:
        ladder = StagedCompiler(toolchain, ArtifactStore(Path(temporary)), run_process)
        plan = await ladder.plan(CompileRequest("", "none", Language.HIP, "gfx942"))
    if plan is None:
        return DoctorCheck(
            name,
            CheckState.NOTE,
            "host and device passes cannot run separately: "
            f"{ladder.no_plan or 'hipcc does not print its commands'}; {slower}",
        )
    headers = PrecompiledHeaderStore(
        ArtifactStore(folder or default_folder()), PathRoots(toolchain.roots), toolchain.identity
    )
    refusal = headers.refusal()
    if refusal is not None:
        return DoctorCheck(name, CheckState.NOTE, f"this compiler refuses its precompiled headers: {refusal}; {slower}")
    return DoctorCheck(name, CheckState.OK, "host and device pass side by side, with precompiled headers")


@stoppable()  # apt, which holds a lock, ends with it
async def install(options: argparse.Namespace) -> int:
    """Install a private toolchain, or what a ROCm lacks of Composable Kernel; clangd, the headers of clang and those of
    ROCm's libraries by themselves, or beside these.

    The headers of clang come with a whole toolchain, unless they cannot be had. With a progress bar, or plain lines
    where there is no terminal. Raises `UntrustedError` for a workspace whose compiler may not run here, for all but the
    first two, and `CkwatchError`.
    """
    libraries = chosen_libraries(options.libraries) if options.libraries else ()
    alone = bool(options.clangd or options.clang_headers or libraries)
    choice = _toolchain_choice(trusted_workspace(options)) if alone else None
    release, beside = _release(options.ck), options.rocm is not None or options.clang is not None
    part, force = options.part or ("all" if beside or not alone else None), options.force
    if options.ck and not options.part and not beside:
        part = "ck"
    note = ""
    if libraries and part != "all":
        part, note = await anyio.to_thread.run_sync(_where_libraries_go, options, choice, part)
    console = Console(stderr=True, quiet=options.quiet)
    out = Console(quiet=options.quiet, soft_wrap=True)
    shown = _ProgressBars(console) if console.is_terminal else _ProgressLines(console)
    done: list[tuple[str, Path, bool, float]] = []
    with shown:
        if part == "all":
            before = installations.installed(installations.toolchains_folder(os.environ))
            begun = time.monotonic()
            manifest = await dependency(options, "install_toolchain", install_toolchain)(
                options.rocm, clang=options.clang, mirror=options.mirror, force=force, progress=shown.show
            )
            there = manifest.root in (tree.root for tree in before) and not force
            done.append((manifest.name, manifest.root, there, time.monotonic() - begun))
            if not there and before and not beside:  # the new tree gets the libraries that the former had
                former = rocm_libraries.installed_libraries(before[0].root)
                libraries = chosen_libraries([*former, *(one.name for one in libraries)]) if former else libraries
        if part is not None:
            there = find_sources(installations.cache_folder(os.environ), release) is not None and not force
            begun = time.monotonic()
            sources = await dependency(options, "install_composable_kernel", install_composable_kernel)(
                release, force=force, progress=shown.show
            )
            done.append((f"Composable Kernel {release.ck_version}", sources.root, there, time.monotonic() - begun))
        if options.clangd:
            begun = time.monotonic()
            program, there = await _install_clangd(options, choice, shown.show)
            done.append(("clangd", program, there, time.monotonic() - begun))
        if options.clang_headers:
            done += await _install_clang_headers(options, choice, shown.show)
        elif part == "all" and not beside and not options.no_clang_headers:
            try:
                done += await _install_clang_headers(options, choice, shown.show)
            except CkwatchError as error:  # without them edits compile, only slower
                again = f"`{CLANG_HEADERS_INSTALL_COMMAND}` tries again"
                note = f"the headers of clang are not installed: {error.message}; {again}"
        if libraries:
            begun = time.monotonic()
            added = await dependency(options, "install_libraries", install_libraries)(
                libraries, mirror=options.mirror, force=force, progress=shown.show
            )
            title = f"the headers of {', '.join(one.name for one in libraries)}"
            done.append((title, added.folder, not added.fetched, time.monotonic() - begun))
    for name, root, there, seconds in done:
        be = "are" if name.startswith("the headers") else "is"
        how = f"{be} installed already" if there else f"installed in {seconds:.0f} s"
        out.print(f"{name} {how}: {root}", highlight=False)
    if note:
        console.print(note, highlight=False, soft_wrap=True)
    return 0


async def _install_clang_headers(
    options: argparse.Namespace, choice: ToolchainChoice | None, progress: OnProgress
) -> list[tuple[str, Path, bool, float]]:
    """Return what is installed, where, whether it was there, and after how many seconds; nothing where none were asked
    for and the compiler is not one of Debian's."""
    begun = time.monotonic()
    toolchain = await anyio.to_thread.run_sync(dependency(options, "discover", discover), choice)
    if not options.clang_headers and not can_fetch_headers(toolchain):
        return []
    there = find_clang_headers(toolchain, os.environ) is not None and not options.force
    folder = await dependency(options, "fetch_clang_headers", fetch_clang_headers)(
        toolchain, progress, mirror=options.mirror, force=options.force
    )
    return [("the headers of clang", folder, there, time.monotonic() - begun)]


def _release(version: str | None) -> CkRelease:
    """The newest Composable Kernel of a version, of all versions by default. Raises `ToolchainError` for others."""
    for release in RELEASES:
        if version is None or fits_version(version, release.ck_version):
            return release
    known = " and ".join(release.ck_version for release in RELEASES)
    raise ToolchainError(
        f"no package is known that brings Composable Kernel {version}: there are {known}",
        "Name a folder that holds another: `ck` in [toolchain] of ckwatch.toml.",
    )


def _where_libraries_go(
    options: argparse.Namespace, choice: ToolchainChoice | None, part: str | None
) -> tuple[str | None, str]:
    """The packages to install before libraries are added to the private toolchain, and a note where another ROCm is
    used. Raises `ToolchainError` where a ROCm is used that ckwatch has not installed, and there is none that it has."""
    private = installations.current(installations.toolchains_folder(os.environ))
    try:
        used: Toolchain | None = dependency(options, "discover", discover)(choice)
    except ToolchainError:
        if choice is not None and choice.rocm is not None:
            raise
        used = None
    if used is None:
        return ("all" if private is None else part), ""
    if used.libraries is not None:
        return part, ""
    if private is None:
        raise ToolchainError(
            f"{used.title} is used here, which has libraries of its own: they are not mixed with others",
            "Install them from where it comes from (AMD's packages are called rocprim-dev, hipcub-dev, …), or install "
            "ckwatch's own toolchain with them: `ckwatch toolchain install all --with …`.",
        )
    return part, f"Without effect here: {used.title} is used, which has its own libraries."


def _toolchain_choice(root: Path | None) -> ToolchainChoice | None:
    if root is None:
        return None
    require_trusted(root)
    return load_workspace(root).settings.toolchain


async def _install_clangd(
    options: argparse.Namespace, choice: ToolchainChoice | None, progress: OnProgress
) -> tuple[Path, bool]:
    """The clangd for the compiler, and whether it was there before."""

    def find() -> tuple[int, Path | None]:
        toolchain = _any_compiler(options, choice)
        found = None if options.force else find_clangd(toolchain, os.environ, None if choice is None else choice.clangd)
        return major_to_fetch(toolchain), None if found is None else found.path

    major, present = await anyio.to_thread.run_sync(find)
    if present is not None:
        return present, True
    fetch = dependency(options, "fetch_clangd", fetch_clangd)
    return await fetch(major, progress, mirror=options.mirror, force=options.force), False


def _any_compiler(options: argparse.Namespace, choice: ToolchainChoice | None) -> Toolchain | NvccToolchain:
    try:
        return dependency(options, "discover", discover)(choice)
    except ToolchainError:
        try:
            return dependency(options, "find_nvcc", find_nvcc)()
        except ToolchainError:
            pass
        raise


def list_installed(_options: argparse.Namespace) -> int:
    """List installed toolchains and Composable Kernels; the ones in use are marked."""
    folder = installations.toolchains_folder(os.environ)
    used = installations.current(folder)
    lines = []
    for tree in installations.installed(folder):
        versions = f"CK {tree.ck_version}, " if tree.ck_version else ""
        lines.append((tree == used, tree.name, f"{versions}clang {tree.llvm_major}", tree.root))
    lines += [
        (one.release == RELEASES[0], one.release.name, f"{one.release.project} {one.release.version}", one.root)
        for one in installed_sources(installations.cache_folder(os.environ))
    ]
    for is_used, name, versions, root in lines:
        sys.stdout.write(f"{'*' if is_used else ' '} {name}  {versions}  {root}\n")
    return 0


def remove(options: argparse.Namespace) -> int:
    """Remove an installed toolchain or Composable Kernel. Raises `ToolchainError` when there is none of that name."""
    name = options.name
    folder = installations.toolchains_folder(os.environ)
    tree = folder / name
    for sources in installed_sources(installations.cache_folder(os.environ)):
        if sources.release.name == name:
            gone = sources.root.rename(sources.root.with_name(f".work-{sources.root.name}"))  # half of one is none
            shutil.rmtree(gone)
            return 0
    for manifest in installations.installed(folder):
        if short_name(manifest) == name:
            tree = folder / manifest.name
    there = tree.is_dir() and (not tree.is_symlink() or installations.read_manifest(tree) is not None)
    if not name or name.startswith(".") or Path(name).name != name or name == "current" or not there:
        known = ", ".join(installed_names(os.environ)) or "none"
        raise ToolchainError(f"no toolchain called {name!r} is installed", f"Installed: {known}.")
    installations.remove_tree(tree)
    left = installations.installed(folder)
    if left:
        installations.set_current(folder, left[0].name)
    else:
        (folder / "current").unlink(missing_ok=True)
    return 0


def environment_of(report: DoctorReport) -> dict[str, object]:
    """The fields of `doctor --json`."""
    found = report.toolchain
    facts = found and {
        "source": found.source.name.lower(),
        "root": found.root,
        "hipcc": found.hipcc,
        "clang": found.clang_version,
        "hip": found.hip_version,
        "rocm": found.rocm_version,
        "identity": found.identity,
        "ck": found.ck,
        "ck_tile": found.ck_tile,
        "ck4inductor": report.ck4inductor,
        "openmp": found.openmp,
    }
    rest = {"archs": report.archs, "devices": report.devices, "checks": report.checks}
    return {"ok": report.ok, "toolchain": facts, **rest}


def print_report(report: DoctorReport, console: Console) -> None:
    """Print a report for people."""
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        mark, style = _MARKS[check.state]
        _print_line(console, (mark, style), check.name.ljust(width), check.detail)
        if check.fix:
            console.print(Text(f"{'':{width + 3}}→ {check.fix}", "cyan"))
    for device in report.devices:
        where = f" at {device.pci}" if device.pci else ""
        _print_line(console, ("✓", "green"), device.name.ljust(width), f"{device.description}{where}")
    if report.archs:
        first = [arch for arch in report.archs if arch in XDL_ARCHS]
        rest = f" and {len(report.archs) - len(first)} more" if len(report.archs) > len(first) else ""
        _print_line(console, ("✓", "green"), "archs".ljust(width), f"{' '.join(first)}{rest} (all with --json)")
    summary = ("All checks passed.", "green") if report.ok else ("Some requirements are missing.", "red bold")
    console.print(Text(*summary))


def _print_line(console: Console, mark: tuple[str, str], name: str, detail: str) -> None:
    first, *others = detail.splitlines() or [""]
    console.print(Text.assemble(mark, " ", (name, "bold"), " ", first))
    for line in others:
        console.print(Text(f"{'':{len(name) + 3}}{line.strip()}"))


class _ProgressBars:
    """Progress on a terminal: one line that is finished and followed by the next."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            console=console,
        )
        self._task: TaskID | None = None
        self._title = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None:
            self._finish()
        self._progress.stop()

    def show(self, step: InstallStep) -> None:
        if step.title != self._title:
            self._finish()
            self._title = step.title
            self._task = self._progress.add_task(step.title, total=step.total or None, amount="")
        if self._task is not None:
            self._progress.update(self._task, completed=step.done, amount=_amount(step))

    def _finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)


class _ProgressLines:
    """Progress in a log: one line for each step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, step: InstallStep) -> None:
        if step.title != self._title:
            self._title = step.title
            total = f" ({step.total / 1e6:.0f} MB)" if step.unit == "bytes" else ""
            self._console.print(f"{step.title}{total}", highlight=False)


def _amount(step: InstallStep) -> str:
    if step.unit == "bytes":
        return f"{step.done / 1e6:.0f}/{step.total / 1e6:.0f} MB"
    return f"{step.done}/{step.total} {step.unit}" if step.total else ""
