"""A command's compiler and store."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread

from ckwatch.build.pipeline import Compiling
from ckwatch.cli.session import Session
from ckwatch.compile import Builder
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
    with ArtifactStore(settings.store.folder or default_folder(), settings.store.size_limit_bytes) as store:
        builder = Builder(toolchain, store)
        warnings = options.header_warnings or settings.compile.header_warnings
        yield toolchain, Compiling(builder, jobs, options.force, warnings)
        await to_thread.run_sync(store.collect_garbage)
