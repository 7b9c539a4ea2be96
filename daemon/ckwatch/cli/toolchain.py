"""`ckwatch doctor` and `ckwatch toolchain …`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import anyio

from ckwatch.toolchain import Toolchain
from ckwatch.toolchain.commands import doctor_command, install_command, list_command, remove_command
from ckwatch.toolchain.doctor import Check, State


def doctor(options: argparse.Namespace) -> int:
    """Report on the environment; 2 when something needed is missing."""
    return doctor_command(
        workspace=options.workspace,
        as_json=options.json,
        smoke=options.smoke,
        quiet=options.quiet,
        more=(partial(parts_check, options.workspace),),
    )


async def parts_check(workspace: Path | None, toolchain: Toolchain) -> Check:
    """Whether compiles can be taken apart, which halves their time."""
    from ckwatch.compile.ladder import Ladder
    from ckwatch.compile.precompiled import PrecompiledHeaders
    from ckwatch.compile.processes import run_process
    from ckwatch.compile.request import CompileRequest
    from ckwatch.config.workspace import load_workspace
    from ckwatch.model.language import Language
    from ckwatch.store import ArtifactStore, Roots, default_folder

    folder = None if workspace is None else load_workspace(workspace).settings.store.folder
    name = "fast compile"
    slower = "everything works, about half as fast"
    async with anyio.TemporaryDirectory(prefix="ckwatch-") as temporary:
        ladder = Ladder(toolchain, ArtifactStore(Path(temporary)), run_process)
        plan = await ladder.plan(CompileRequest("", "none", Language.HIP, "gfx942"))
    if plan is None:
        return Check(
            name,
            State.NOTE,
            f"compiles cannot be taken apart: {ladder.no_plan or 'hipcc does not tell its commands'}; {slower}",
        )
    headers = PrecompiledHeaders(ArtifactStore(folder or default_folder()), Roots(toolchain.roots), toolchain.identity)
    refusal = headers.refusal()
    if refusal is not None:
        return Check(name, State.NOTE, f"this compiler refuses its precompiled headers: {refusal}; {slower}")
    return Check(name, State.OK, "host and device pass side by side, with precompiled headers")


def install(options: argparse.Namespace) -> int:
    """Install a private toolchain."""
    return anyio.run(partial(install_command, mirror=options.mirror, force=options.force, quiet=options.quiet))


def list_installed(_options: argparse.Namespace) -> int:
    """List what `install` has made."""
    return list_command()


def remove(options: argparse.Namespace) -> int:
    """Remove one of them."""
    return remove_command(options.name)
