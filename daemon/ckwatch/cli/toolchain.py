"""`ckwatch doctor` and `ckwatch toolchain …`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import anyio

from ckwatch.cli.toolchain_commands import doctor_command, install_command, list_command, remove_command
from ckwatch.compile.toolchain.doctor import CheckState, DoctorCheck
from ckwatch.compile.toolchain.model import Toolchain


def doctor(options: argparse.Namespace) -> int:
    """Report on the environment; 2 when something needed is missing."""
    return doctor_command(
        workspace=options.workspace,
        as_json=options.json,
        smoke=options.smoke,
        quiet=options.quiet,
        more=(partial(parts_check, options.workspace),),
    )


async def parts_check(workspace: Path | None, toolchain: Toolchain) -> DoctorCheck:
    """Whether host and device passes can run side by side, which halves the compile time."""
    from ckwatch.compile.precompiled_headers import PrecompiledHeaderStore
    from ckwatch.compile.request import CompileRequest
    from ckwatch.compile.staged_build import StagedCompiler
    from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
    from ckwatch.compile.store.header_sets import PathRoots
    from ckwatch.model.targets import Language
    from ckwatch.system.async_processes import run_process
    from ckwatch.workspace.loading import load_workspace

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


def install(options: argparse.Namespace) -> int:
    """Install a private toolchain."""
    return anyio.run(partial(install_command, mirror=options.mirror, force=options.force, quiet=options.quiet))


def list_installed(_options: argparse.Namespace) -> int:
    """List what `install` has made."""
    return list_command()


def remove(options: argparse.Namespace) -> int:
    """Remove one of them."""
    return remove_command(options.name)
