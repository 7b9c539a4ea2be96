"""`ckwatch store size|gc`: what the store of artifacts takes, and less of it."""

from __future__ import annotations

import argparse

from ckwatch.cli.command_words import workspace_if_any
from ckwatch.cli.output import Output
from ckwatch.compile.store.artifacts import ArtifactStore, default_folder, folder_size
from ckwatch.compile.store.shared_store import shown_location
from ckwatch.model.amounts import count, memory
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.settings import StoreSection, parse_byte_size

SHOWN_BYTES = 500_000


def size(options: argparse.Namespace) -> int:
    """Print what each part of the store takes."""
    settings = _settings(options)
    folder = settings.folder or default_folder()
    parts = {path.name: folder_size(path) for path in sorted(folder.iterdir())} if folder.is_dir() else {}
    with ArtifactStore(folder) as store:
        artifacts = store.count()
    shared = None if settings.shared is None else shown_location(settings.shared)
    output = Output(options)
    output.answer(
        folder=folder, artifacts=artifacts, size_bytes=sum(parts.values()),
        size_limit_bytes=settings.size_limit_bytes, parts=parts, shared=shared,
    )  # fmt: skip
    output.text(str(folder), "bold")
    rows = [[name, memory(taken)] for name, taken in parts.items() if taken >= SHOWN_BYTES]
    output.table(rows, frozenset({1}))
    output.text(f"{memory(sum(parts.values()))} in all, {count(artifacts, 'artifact')}")
    output.text(f"artifacts are limited to {memory(settings.size_limit_bytes)} ([store] size_limit_bytes)")
    if shared is not None:
        output.text(f"shared with others: {shared} ([store] shared)")
    return 0


def collect_garbage(options: argparse.Namespace) -> int:
    """Remove artifacts down to the limit, and what killed processes left."""
    settings = _settings(options)
    limit = settings.size_limit_bytes if options.limit is None else parse_byte_size(options.limit)
    with ArtifactStore(settings.folder or default_folder(), limit) as store:
        done = store.collect_garbage()
    output = Output(options)
    output.answer(removed=done.evicted, leftovers=done.leftovers, size_bytes=done.size_bytes)
    left = f", {count(done.leftovers, 'folder')} of killed processes" if done.leftovers else ""
    output.text(f"removed {count(done.evicted, 'artifact')}{left}; artifacts take {memory(done.size_bytes)}")
    return 0


def _settings(options: argparse.Namespace) -> StoreSection:
    """`[store]` of the workspace; outside of one, the defaults."""
    root = workspace_if_any(options)
    return StoreSection() if root is None else load_workspace(root).settings.store
