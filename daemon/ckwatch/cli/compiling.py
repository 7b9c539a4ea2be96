"""A command's compiler and store."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CancelScope, to_thread

from ckwatch.build.pipeline import Compiling
from ckwatch.cli.session import Session
from ckwatch.compile.builder import Builder
from ckwatch.render.cache import RenderCache
from ckwatch.store import ArtifactStore, default_folder
from ckwatch.toolchain import Toolchain, discover


@asynccontextmanager
async def open_compiling(
    options: argparse.Namespace, session: Session, jobs: int
) -> AsyncIterator[tuple[Toolchain, Compiling]]:
    """Find the toolchain and open the store; afterwards, keep the store within its size.

    Raises ToolchainError when there is no compiler.
    """
    settings = session.workspace.settings
    toolchain = await to_thread.run_sync(discover, settings.toolchain, os.environ)
    store = ArtifactStore(settings.store.folder or default_folder(), settings.store.size_limit_bytes)
    try:
        warnings = options.header_warnings or settings.compile.header_warnings
        folders = session.workspace.template_folders
        renders = RenderCache(store.folder / "renders", folders, store.contents.look().digest)
        builder = Builder(toolchain, store)
        yield toolchain, Compiling(builder, jobs, options.force, warnings, renders)
        if builder.compiled:
            await to_thread.run_sync(renders.prune)
            await to_thread.run_sync(store.collect_garbage)
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(store.close)
