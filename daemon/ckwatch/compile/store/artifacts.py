"""Finds, publishes, checks and evicts entries of the store; and the folders of running processes in it."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Self

import platformdirs

from ckwatch.compile.store import entries
from ckwatch.compile.store.content_hashes import ContentHashes, ContentSnapshot
from ckwatch.compile.store.header_sets import HeaderSet, PathRoots
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import flush_folder, flushed_if_holding, replace_file, take_flushed, write_flushed
from ckwatch.system.file_locks import is_in_place, try_lock, unlock
from ckwatch.system.processes import kill_processes_in
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, digest_file, read_file

DEFAULT_SIZE_LIMIT_BYTES = 5 * 2**30
_GRACE_S = 60.0
_CACHEDIR_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by ckwatch; may be deleted.\n"


def default_folder() -> Path:
    """The store in the user's cache folder."""
    return Path(platformdirs.user_cache_dir("ckwatch")) / "store"


@dataclass(frozen=True, slots=True)
class GarbageCollection:
    """The result of a garbage collection. `size_bytes` is the size of the remaining entries."""

    evicted: int
    leftovers: int
    size_bytes: int


class ArtifactStore:
    """The store in `folder`, of at most about `size_limit_bytes`.

    Made for use from threads. Nothing is created until the first write; a store that cannot be written can be read.
    `grace_s`: entries that any process used so recently are not evicted. Close it, or use it in a `with`.
    """

    def __init__(
        self, folder: Path, size_limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES, *, grace_s: float = _GRACE_S
    ) -> None:
        self.folder = folder
        self.size_limit_bytes = size_limit_bytes
        self.contents = ContentHashes(folder / "contents.sqlite")
        self._grace_s = grace_s
        self._entries = folder / "artifacts"
        self._header_sets = folder / "headers"
        self._lock = threading.Lock()
        self._run: RunFolder | None = None
        self._in_use: set[str] = set()
        self._sets: dict[str, HeaderSet] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the memo and remove this process's temporary files."""
        self.contents.save()
        with self._lock:
            if self._run is not None:
                self._run.close()
                self._run = None

    @property
    def locks(self) -> Path:
        """The folder of the locks of keys in flight."""
        return self.folder / "locks"

    def work_folder(self) -> Path:
        """A new folder on the store's file system for one compile; the caller removes it. Raises StoreError."""
        with entries.storing_in(self.folder):
            return self._run_folder().new_folder()

    def disturbed(self, folder: Path) -> bool:
        """Return True if a work folder, or all of the store around it, has been deleted: a compiler's errors there may
        come from that."""
        with self._lock:
            run = self._run
        return run is None or not run.is_there or not folder.is_relative_to(run.path) or not folder.is_dir()

    def lookup(self, key: str, roots: PathRoots, look: ContentSnapshot | None = None) -> entries.Artifact | None:
        """The entry for `key` (`keys.request_key`) whose headers are as they were; None if there is none.

        A damaged entry is removed. `look` spares looking at the same headers again within one build.
        """
        look = look or self.contents.look()
        for entry in self._variants(key):
            headers = self.header_set(entry.name)
            if headers is None:
                self._discard(entry)
                continue
            if not self.holds(headers, roots, look):
                continue
            artifact = self._read(entry)
            if artifact is None or not self._is_whole(artifact):
                self._discard(entry)
                continue
            self.use(entry)
            return artifact
        return None

    def holds(self, headers: HeaderSet, roots: PathRoots, look: ContentSnapshot) -> bool:
        """Return True if the headers are unchanged; `look` remembers it."""
        holds = look.held.get(headers.key)
        if holds is None:
            holds = look.held[headers.key] = headers.holds(look, roots)
        return holds

    def entry(self, key: str, headers: str) -> entries.Artifact | None:
        """The entry for `key` whose headers were those, whatever they are now; None if it has gone."""
        artifact = self._read(self.entry_folder(key, headers))
        return artifact if artifact is not None and self._is_whole(artifact) else None

    def load(self, path: Path) -> bytes:
        """The contents of a product, as they were when it was stored: read now and compared with the recorded hash.

        Raises LostArtifactError when they are not, or when the entry has gone; a damaged one is removed. Raises
        StoreError for a damaged one that cannot be removed.
        """
        try:
            return entries.verified(path)
        except entries.LostArtifactError:
            if not self._discard(path.parent):
                raise entries.StoreError(
                    f"{path} is damaged, and the store cannot be written", "Delete it, or name another folder."
                ) from None
            raise

    def derived(self, key: str, headers: str, name: str) -> bytes | None:
        """Return the file `name` that was derived from an entry and kept with it; None if there is none."""
        try:
            return read_file(self.entry_folder(key, headers) / name, BINARY_LIMIT_BYTES)
        except OSError:
            return None

    def keep_derived(self, key: str, headers: str, name: str, content: bytes) -> None:
        """Keep what was worked out from an entry, as long as the entry is there. It can be worked out again: where it
        cannot be written it is not kept."""
        entry = self.entry_folder(key, headers)
        if not (entry / entries.META).exists():
            return
        with suppress(OSError, entries.StoreError):
            temporary = self._run_folder().new_name()
            write_flushed(temporary, content)
            temporary.replace(entry / name)

    def publish(
        self,
        key: str,
        headers: HeaderSet,
        record: entries.ArtifactRecord,
        *,
        source: bytes,
        log: str,
        products: Mapping[str, Path],
        work_folder: Path | None = None,
        replace_existing: bool = False,
    ) -> entries.Artifact:
        """Store a finished compile; the files in `products` are moved into the store.

        A `work_folder` of this store (`work_folder()`) that holds them becomes the entry itself; what else is in it
        goes: making a file takes ten times as long as giving it another name.

        If the same entry has been published meanwhile, that one is returned, unless it is to be replaced. Raises
        StoreError when the store cannot be written or is full; nothing of the entry can be found then.
        """
        with entries.storing_in(self.folder):
            if replace_existing:
                self._discard(self.entry_folder(key, headers.key))
            run = self._run_folder()
            staging = run.new_folder() if work_folder is None or work_folder.parent != run.path else work_folder
            try:
                if staging is work_folder:
                    _remove_others(staging, {record.source, *(path.name for path in products.values())}, run)
                texts = {record.source: source} | ({entries.LOG: log.encode("utf-8", "replace")} if log else {})
                files = _staged(staging, texts, products)
                named = {name: path.name for name, path in products.items()}
                artifact = entries.Artifact(key, headers.key, staging, record, files, named)
                write_flushed(staging / entries.META, entries.artifact_to_json(artifact))
                flush_folder(staging)
                self._write_header_set(headers, run)
                return self._install(replace(artifact, folder=self.entry_folder(key, headers.key)), staging)
            finally:
                if staging is not work_folder:
                    shutil.rmtree(staging, ignore_errors=True)

    def _install(self, artifact: entries.Artifact, staging: Path) -> entries.Artifact:
        entry = artifact.folder
        entry.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with self._lock:
                self._in_use.add(str(entry))
            try:
                staging.rename(entry)
            except FileNotFoundError:
                # A collection in another process has removed the empty folder above.
                entry.parent.mkdir(parents=True, exist_ok=True)
                continue
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                theirs = self._read(entry)
                if theirs is not None and self._is_whole(theirs):
                    self.use(entry)
                    return theirs
                if not self._discard(entry):
                    raise
                continue
            flush_folder(entry.parent)
            return artifact

    def collect_garbage(self) -> GarbageCollection:
        """Remove what killed runs left behind, then the entries used longest ago until the size limit holds.

        Never removes what this process looked up or published, nor what another process used within the grace time.
        """
        leftovers = remove_leftovers(self.folder / "runs")
        now = time.time()
        sized: list[tuple[float, int, Path]] = []
        for entry in self._entries.glob("??/*/*"):
            with suppress(OSError):
                sized.append((self._last_use(entry), folder_size(entry), entry))
        total = sum(size for _, size, _ in sized)
        evicted = 0
        for last_use, size, entry in sorted(sized):
            if total <= self.size_limit_bytes:
                break
            with self._lock:
                in_use = str(entry) in self._in_use
            if in_use or abs(now - last_use) < self._grace_s:
                continue
            if self._discard(entry):
                total -= size
                evicted += 1
        self.contents.save()
        if evicted:
            self._remove_unused_header_sets()
        return GarbageCollection(evicted, leftovers, total)

    def count(self) -> int:
        """How many artifacts there are, failed ones too."""
        return sum(1 for _ in self._entries.glob("??/*/*"))

    def remove_leftovers(self) -> int:
        """Remove what processes that were killed have left, their compilers too; returns how many there were."""
        return remove_leftovers(self.folder / "runs")

    def verify(self) -> list[Path]:
        """Read every entry whole, whatever is remembered of it; removes and returns the damaged ones."""
        damaged = []
        for entry in self._entries.glob("??/*/*"):
            artifact = self._read(entry)
            if artifact is None or not _matches(artifact, digest_file) or self.header_set(entry.name) is None:
                damaged.append(entry)
                self._discard(entry)
        return damaged

    def entry_folder(self, key: str, headers: str) -> Path:
        """Return the folder of the entry for `key` with those headers, if there is one."""
        return self._entries / key[:2] / key / headers

    def _variants(self, key: str) -> list[Path]:
        """The entries of `key`, the one used last first."""
        try:
            found = [(self._last_use(entry), entry) for entry in (self._entries / key[:2] / key).iterdir()]
        except OSError:
            return []
        return [entry for _, entry in sorted(found, reverse=True)]

    def _last_use(self, entry: Path) -> float:
        """Seconds since the epoch; 0 for an entry that has gone."""
        try:
            return entry.stat().st_mtime
        except OSError:
            return 0.0

    def use(self, entry: Path) -> None:
        """The entry, which is whole, is used by this process: no collection evicts it soon."""
        with self._lock:
            self._in_use.add(str(entry))
        with suppress(OSError):
            os.utime(entry)

    def _read(self, entry: Path) -> entries.Artifact | None:
        try:
            artifact = entries.read_entry(entry)
        except (OSError, ValueError):
            return None
        return artifact if (artifact.key, artifact.headers) == (entry.parent.name, entry.name) else None

    def _is_whole(self, artifact: entries.Artifact) -> bool:
        return _matches(artifact, partial(self.contents.digest, is_input=False))

    def _discard(self, entry: Path) -> bool:
        """Make `entry` vanish in one step, then delete it; False when it cannot be removed."""
        with self._lock:
            self._in_use.discard(str(entry))
        try:
            away = self._run_folder().new_name()
            entry.rename(away)
        except FileNotFoundError:
            return True
        except (OSError, entries.StoreError):
            return False
        shutil.rmtree(away, ignore_errors=True)
        with suppress(OSError):
            entry.parent.rmdir()
        self.contents.forget_below(entry)
        return True

    def _header_set_file(self, name: str) -> Path:
        return self._header_sets / name[:2] / f"{name}.json"

    def header_set(self, name: str) -> HeaderSet | None:
        """The header set called so; None when that record has gone."""
        with self._lock:
            known = self._sets.get(name)
        if known is not None:
            return known
        file = self._header_set_file(name)
        try:
            headers = HeaderSet.from_json(read_file(file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            headers = None
        if headers is None or headers.key != name:
            with suppress(OSError):
                file.unlink(missing_ok=True)
            return None
        with self._lock:
            self._sets[name] = headers
        return headers

    def _write_header_set(self, headers: HeaderSet, run: RunFolder) -> None:
        name = headers.key
        file = self._header_set_file(name)
        if self.header_set(name) is not None:
            with suppress(FileNotFoundError):
                os.utime(file)  # so that no collection takes it for unused before the entry is there
                return
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, headers.to_json(), temporary=run.new_name())

    def _remove_unused_header_sets(self) -> None:
        used = {entry.name for entry in self._entries.glob("??/*/*")}
        now, grace_s = time.time(), max(self._grace_s, 1.0)
        for file in self._header_sets.glob("??/*.json"):
            # A set is written before its entry: a young one may be waiting for it.
            with suppress(OSError):
                if file.stem not in used and abs(now - file.stat().st_mtime) > grace_s:
                    file.unlink()
                    with self._lock:
                        self._sets.pop(file.stem, None)

    def _run_folder(self) -> RunFolder:
        with self._lock:
            if self._run is not None and not self._run.is_there:
                self._run.close()
                self._run = None
            if self._run is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                tag = self.folder / "CACHEDIR.TAG"
                if not tag.exists():
                    tag.write_bytes(_CACHEDIR_TAG)
                self._run = RunFolder(self.folder / "runs")
            return self._run


def folder_size(folder: Path) -> int:
    """Bytes of a file, or of all files below a folder; what goes meanwhile does not count."""
    size = 0
    for path in (folder, *folder.rglob("*")):
        with suppress(OSError):
            stat = path.lstat()
            size += stat.st_size if S_ISREG(stat.st_mode) else 0
    return size


def _matches(artifact: entries.Artifact, digest: Callable[[str], str | None]) -> bool:
    """Return True if the entry's files have the recorded sizes and hashes; `digest` reads or remembers a hash."""
    for name, file in artifact.files.items():
        path = artifact.folder / name
        try:
            if path.stat().st_size != file.size_bytes or digest(str(path)) != file.sha256:
                return False
        except OSError:
            return False
    return True


def _staged(folder: Path, texts: Mapping[str, bytes], products: Mapping[str, Path]) -> dict[str, entries.StoredFile]:
    """Put the files of an entry into a folder, by their names."""
    files = {}
    for name, text in texts.items():
        files[name] = entries.StoredFile(len(text), hashlib.sha256(text).hexdigest())
        if not flushed_if_holding(folder / name, text):
            write_flushed(folder / name, text)
    for path in products.values():
        files[path.name] = entries.StoredFile(*take_flushed(path, folder / path.name))
    return dict(sorted(files.items()))


def _remove_others(folder: Path, kept: Container[str], run: RunFolder) -> None:
    """Leave only files of these names in a folder."""
    with os.scandir(folder) as found:
        others = [entry for entry in found if entry.name not in kept]
    for entry in others:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry)  # noqa: PTH108  # for thousands of entries
        elif os.listdir(entry):  # noqa: PTH208
            shutil.rmtree(entry)
        else:
            run.set_aside(Path(entry))


class RunFolder:
    """A folder for this process's temporary files: `NAME/`, beside `NAME.lock` which is held while it lives."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            name = f"{os.getpid()}-{secrets.token_hex(6)}"
            lock = try_lock(parent / f"{name}.lock")
            if lock is not None:
                break
        self._lock = lock
        self._lock_file = parent / f"{name}.lock"
        self._owner = os.getpid()
        self._count = 0
        self._spare: list[Path] = []
        self.path = parent / name
        try:
            self.path.mkdir()
        except BaseException:
            unlock(self._lock_file, self._lock)
            raise

    @property
    def is_there(self) -> bool:
        """Return True if it still exists; `rm -rf` of the whole store deletes it."""
        return self._lock >= 0 and is_in_place(self._lock_file, self._lock) and self.path.is_dir()

    def new_name(self) -> Path:
        """A name in the folder that is not in use."""
        self._count += 1
        return self.path / f"{self._count}-{secrets.token_hex(4)}"

    def new_folder(self) -> Path:
        """An empty folder in it."""
        with suppress(IndexError):
            path = self._spare.pop()
            if path.is_dir():
                return path
        path = self.new_name()
        path.mkdir()
        return path

    def set_aside(self, folder: Path) -> None:
        """Have an empty folder used again: to remove one takes three milliseconds on ext4 with `discard`."""
        spare = self.new_name()
        folder.rename(spare)
        self._spare.append(spare)

    def close(self) -> None:
        """Remove the folder and all in it; does nothing in a forked child or when called again."""
        if self._lock >= 0 and os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            unlock(self._lock_file, self._lock)
            self._lock = -1


def remove_leftovers(parent: Path) -> int:
    """Remove the run folders in `parent` whose process has ended; returns how many there were.

    Processes that still work there (compilers of a process that was killed) are killed: nothing waits for them.
    """
    removed = 0
    try:
        names = sorted({path.name.removesuffix(".lock") for path in parent.iterdir()})
    except OSError:
        return 0
    for name in names:
        lock_file = parent / f"{name}.lock"
        try:
            lock = try_lock(lock_file)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            folder = parent / name
            if folder.exists():
                removed += 1
                kill_processes_in(folder)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            unlock(lock_file, lock)
    return removed
