"""Gives a worker that lacks the daemon's toolchain the private one that `ckwatch toolchain install` made, once.

It travels as one archive in pieces, through dask, and is unpacked, relocated and kept below the worker's own folder.
Only what comes out with the identity of the daemon's toolchain is used.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.installations import MANIFEST, read_manifest
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain
from ckwatch.compile.toolchain.relocate import relocate
from ckwatch.farm.messages import toolchain_identity
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import replace_file
from ckwatch.system.file_locks import try_lock, unlock
from ckwatch.system.user_files import digest_file

PIECE_BYTES = 8 * 2**20
KEPT = 2
"""Toolchains that a worker's machine was given: the newest."""

LOCK_POLL_S = 0.5
PART_KEPT_S = 24 * 3600.0
"""How long pieces wait for the others."""

TREE, HEADERS = "toolchain", ("ck", "ck_tile")


@dataclass(frozen=True, slots=True)
class PackedToolchain:
    """An archive of a private toolchain and its Composable Kernel, called by its identity."""

    path: Path
    identity: str
    size_bytes: int
    sha256: str

    def pieces(self, begin: int) -> Iterator[tuple[int, bytes]]:
        """Yield the rest behind `begin` in pieces, each with its offset. Blocks; call from a worker thread."""
        with self.path.open("rb") as file:
            file.seek(begin)
            while piece := file.read(PIECE_BYTES):
                yield file.tell() - len(piece), piece


def pack_toolchain(toolchain: Toolchain, identity: str, folder: Path) -> PackedToolchain:
    """Make the archive in `folder`. Blocks; call from a worker thread. Raises CkwatchError for a toolchain that
    ckwatch has not installed: it cannot be moved. Raises OSError."""
    manifest = read_manifest(toolchain.root.parent)
    if manifest is None:
        raise CkwatchError(
            f"{toolchain.title} was not installed by ckwatch, and cannot be given to others",
            "Install it on the workers as it is here, or use one of ckwatch's: `ckwatch toolchain install`.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{identity}-{secrets.token_hex(4)}.tar"
    try:
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(manifest.root, TREE)
            libraries = dict(zip(HEADERS, (toolchain.ck, toolchain.ck_tile), strict=True))
            folders = {name: library.folder for name, library in libraries.items() if library is not None}
            for name, library_folder in folders.items():
                # Of the workspace's choice the folder may be any, such as the user's own.
                for part in filter(Path.is_dir, (library_folder / one for one in HEADERS)):
                    if name == HEADERS[0] or library_folder != folders.get(HEADERS[0]):
                        archive.add(part, f"{name}/{part.name}")
        digest, size = digest_file(path), path.stat().st_size
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return PackedToolchain(path, identity, size, digest)


def given_folder(farm: Path) -> Path:
    """Return the folder of files given to a worker that keeps to the folder `farm`."""
    return farm / "given"


def received(farm: Path, sha256: str) -> int:
    """How much of an archive has arrived, in bytes. Blocks; call from a worker thread."""
    try:
        return _part(farm, sha256).stat().st_size
    except OSError:
        return 0


def receive(farm: Path, sha256: str, offset: int, piece: bytes) -> None:
    """Keep a piece of an archive. Blocks; call from a worker thread. Raises OSError."""
    path = _part(farm, sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(offset)
        file.write(piece)


async def install_given(farm: Path, sha256: str, identity: str) -> None:
    """Unpack what was received, make it run where it is, and see that it is what it should be. Raises CkwatchError for
    what is not, and OSError. Nothing is left of it then."""
    final = given_folder(farm) / _plain(identity)
    final.parent.mkdir(parents=True, exist_ok=True)
    while (lock := await to_thread.run_sync(try_lock, final.parent / ".lock")) is None:  # noqa: ASYNC110  # of a process
        await anyio.sleep(LOCK_POLL_S)
    try:
        if not final.is_dir():  # else another daemon was first
            await to_thread.run_sync(_sweep, final.parent, _part(farm, sha256))
            await _install(farm, sha256, identity, final)
    finally:
        unlock(final.parent / ".lock", lock)
        _part(farm, sha256).unlink(missing_ok=True)


def _sweep(folder: Path, wanted: Path) -> None:
    """Remove what killed workers have left; the lock is held. Pieces may still be arriving for a day."""
    for left in folder.glob(".*-*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in folder.glob(".*.part"):
        with suppress(OSError):
            if left != wanted and time.time() - left.stat().st_mtime > PART_KEPT_S:
                left.unlink()


async def _install(farm: Path, sha256: str, identity: str, final: Path) -> None:
    new = final.with_name(f".{final.name}-{secrets.token_hex(4)}")
    try:
        await to_thread.run_sync(_unpack, _part(farm, sha256), sha256, new)
        await to_thread.run_sync(relocate, new / TREE, final / TREE)
        await to_thread.run_sync(_settle, new, final)
        found = await to_thread.run_sync(given_toolchains, farm)
        if identity not in found:
            raise CkwatchError("the toolchain that was sent is another one when it is unpacked")
    except BaseException:
        for folder in (new, final):
            await to_thread.run_sync(shutil.rmtree, folder, True)
        raise


def _unpack(archive: Path, sha256: str, target: Path) -> None:
    if digest_file(archive) != sha256:
        raise CkwatchError("the toolchain was changed on its way")
    target.mkdir(parents=True)
    if not hasattr(tarfile, "data_filter"):
        raise CkwatchError("its Python cannot unpack what others have packed", "Use Python 3.11.4 or later there.")
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
    except tarfile.TarError as error:
        raise CkwatchError(f"the toolchain cannot be unpacked: {error}") from error


def _settle(new: Path, final: Path) -> None:
    """Put it in place under a manifest that says where it is, and drop the oldest others."""
    manifest = read_manifest(new / TREE)
    if manifest is None:
        raise CkwatchError("what was sent is not a complete toolchain")
    replace_file(new / TREE / MANIFEST, replace(manifest, root=final / TREE).to_json().encode())
    new.rename(final)
    others = sorted(_given(final.parent), key=lambda one: one.stat().st_mtime)
    for old in others[:-KEPT]:
        if old != final:
            shutil.rmtree(old, ignore_errors=True)


def _given(folder: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")]
    except OSError:
        return []


def given_toolchains(farm: Path) -> dict[str, Toolchain]:
    """The toolchains that a worker was given and that are whole, by identity. Blocks; call from a worker thread."""
    found = {}
    for folder in _given(given_folder(farm)):
        ck, ck_tile = (path if (path := folder / name).is_dir() else None for name in HEADERS)
        choice = FixedToolchainChoice(rocm=folder / TREE / "usr", ck=ck, ck_tile=ck_tile)
        try:
            toolchain = discover(choice, os.environ)
        except ToolchainError:
            continue
        identity = toolchain_identity(toolchain, ContentHashes(None))
        if identity == folder.name:
            found[identity] = toolchain
    return found


def _part(farm: Path, sha256: str) -> Path:
    return given_folder(farm) / f".{_plain(sha256)}.part"


def _plain(name: str) -> str:
    if not name.isalnum():
        raise CkwatchError(f"`{name}` is not a name of a toolchain")
    return name
