"""A store that several people share: in a folder, or wherever fsspec reaches (`s3://…`).

    SHARED/
      artifacts/ab/KEY/SET.zip   an entry of an `ArtifactStore` as one file (`packed_entries`)
      headers/ab/SET.json        a set of headers, as in an `ArtifactStore`; written before the entries that name it

What the local store lacks is looked for here, and installed there as if it had been compiled on this machine; what is
compiled is added. Entries appear in one step and are never changed, except that a damaged one is replaced. All of it
may be deleted at any time.

Nothing waits long for it. What takes longer than its limit is left behind, and the shared store is then not asked until
a thread that tries now and then gets an answer. Entries are added by a thread of their own. Whatever goes wrong is one
sentence, `problem`, and never more than a compile that others have done before.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from ckwatch.compile.dependencies import format_dependency_file
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.content_hashes import ContentSnapshot
from ckwatch.compile.store.entries import LOG, Artifact, ProductKind, StoreError
from ckwatch.compile.store.header_sets import HeaderSet, PathRoots
from ckwatch.compile.store.packed_entries import (
    PACKED_LIMIT_BYTES,
    UnpackedEntry,
    header_set_from,
    pack,
    unpack,
)
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.installation import command_for_extra, command_for_packages
from ckwatch.system.left_behind import LeftBehindError, TimeLimitedCalls
from ckwatch.system.user_files import TEXT_LIMIT_BYTES

_ENTRY = re.compile(r"[0-9a-f]{64}\.zip")
_LOGIN = re.compile(r"(?<=//)[^/@\s]*@|\?\S*")
DRIVERS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
           "sftp": "paramiko", "ssh": "paramiko"}  # fmt: skip
"""The package of each protocol of fsspec that needs one."""

_WHOLE_PUTS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"})
"""Protocols of object stores: there are no folders, and an object is seen when it is complete."""

_SETS_READ = 16
"""Header sets that one look-up fetches at most; those that it has fetched are known to the next."""

_SETS_KEPT = 64
_ABSENT_KEPT = 4096

_Answer = TypeVar("_Answer")


def shown_location(location: str) -> str:
    """The folder or URL of a shared store, without a login or a signature that it may hold."""
    return _LOGIN.sub("", location) if "://" in location else location


@dataclass(frozen=True, slots=True)
class SharedStoreTimes:
    """How long what may take, in seconds."""

    connect_s: float = 5.0
    look_up_s: float = 2.0
    """Until it is known whether there is an entry; an edit may wait for it."""
    fetch_s: float = 20.0
    """Until an entry is here, which spares a compile."""
    add_s: float = 120.0
    retry_s: float = 30.0
    """So long after it has failed it is tried again."""
    absent_s: float = 10.0
    """So long a key that was not there is not looked for again."""


class SharedStore:
    """The shared store at `location`, a folder or a URL of fsspec. Made for use from threads; close it.

    `on_problem` is called from any thread when `problem` changes. `open_files` returns the file system of fsspec for a
    location, and the folder in it.
    """

    def __init__(
        self,
        location: str,
        times: SharedStoreTimes = SharedStoreTimes(),
        *,
        on_problem: Callable[[str | None], None] = lambda _problem: None,
        open_files: Callable[[str], tuple[Any, str]] | None = None,
    ) -> None:
        self.location = location
        self._open_files = open_files or _file_system
        self._shown = shown_location(location)
        self._times = times
        self._on_problem = on_problem
        self._calls = TimeLimitedCalls("ckwatch-shared-store")
        self._lock = threading.Lock()
        self._remote: _Remote | None = None
        self._answered = threading.Event()
        self._connect_until = time.monotonic() + times.connect_s
        self._closed = threading.Event()
        self._absent: dict[str, float] = {}
        self._sets: dict[str, HeaderSet] = {}
        self._damaged: dict[str, str] = {}
        self._outage: str | None = None
        self._refusal: str | None = None
        self._refused_until = float("-inf")
        self.problem: str | None = None
        """The reason why it cannot be used, in a sentence."""
        self._reporting = threading.Lock()
        self._to_add: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._adder = threading.Thread(target=self._add_all, name="ckwatch-shared-store", daemon=True)
        self._adder.start()
        self._start_connecting(0.0)

    def close(self, wait_s: float = 0.0) -> None:
        """Add what is still to be added, for at most `wait_s`, and do nothing more."""
        self._to_add.put(None)
        self._adder.join(wait_s)
        with self._reporting:
            self._closed.set()

    def find(self, key: str, store: ArtifactStore, roots: PathRoots, look: ContentSnapshot) -> Artifact | None:
        """The entry for `key` whose headers are as they are here, installed into `store`; None if there is none, or
        none that could be had."""
        remote = self._connected()
        if remote is None or time.monotonic() < self._absent.get(key, 0.0):
            return None
        try:
            for headers in self._fitting(remote, key, store, roots, look):
                entry = self._entry(remote, key, headers.key)
                if entry is not None:
                    return _installed(entry, headers, store, roots)
        except LeftBehindError:
            self._fail(remote, "does not answer")
        except StoreError:
            pass  # the local store cannot be written; the compile says so
        except Exception as error:  # noqa: BLE001  # drivers raise what they like
            self._fail(remote, f"cannot be read ({_reason(error)})")
        else:
            if len(self._absent) >= _ABSENT_KEPT:
                self._absent.clear()
            self._absent[key] = time.monotonic() + self._times.absent_s
        return None

    def add(self, artifact: Artifact, store: ArtifactStore) -> None:
        """Share an entry of `store`, later and in another thread, unless it is shared already."""
        self._to_add.put(lambda: self._add(artifact, store))

    def _fitting(
        self, remote: _Remote, key: str, store: ArtifactStore, roots: PathRoots, look: ContentSnapshot
    ) -> Iterator[HeaderSet]:
        """The header sets of the entries for `key` that hold, those first that are known already."""
        left_s = self._times.look_up_s
        names, left_s = self._timed(lambda: remote.entries(key), left_s)
        found = {name: self._sets.get(name) or store.header_set(name) for name in names}
        known = {name: headers for name, headers in found.items() if headers is not None}
        unknown = [name for name in names if name not in known]
        for headers in known.values():
            if store.holds(headers, roots, look):
                yield headers
        for name in unknown[:_SETS_READ]:
            path = remote.header_set(name)
            content, left_s = self._timed(lambda path=path: remote.read(path, TEXT_LIMIT_BYTES), left_s)  # type: ignore[misc]
            if content is None:
                continue
            try:
                headers = header_set_from(content, name)
            except ValueError as error:
                self._mark_damaged(path, str(error))
                continue
            if len(self._sets) >= _SETS_KEPT:
                self._sets.clear()
            self._sets[name] = headers
            if store.holds(headers, roots, look):
                yield headers

    def _timed(self, question: Callable[[], _Answer], limit_s: float) -> tuple[_Answer, float]:
        """The answer, and what is left of the time."""
        began = time.monotonic()
        answer = self._calls.ask(question, max(0.0, limit_s))
        return answer, limit_s - (time.monotonic() - began)

    def _entry(self, remote: _Remote, key: str, headers: str) -> UnpackedEntry | None:
        path = remote.entry(key, headers)
        packed = self._calls.ask(lambda: remote.read(path, PACKED_LIMIT_BYTES), self._times.fetch_s)
        if packed is None:
            return None
        try:
            return unpack(packed, key, headers)
        except ValueError as error:
            self._mark_damaged(path, str(error))
            return None

    def _add_all(self) -> None:
        while (add := self._to_add.get()) is not None:
            add()
        self._calls.close()

    def _add(self, artifact: Artifact, store: ArtifactStore) -> None:
        remote = self._connected()
        headers = store.header_set(artifact.headers)
        if remote is None or headers is None or artifact.size_bytes > PACKED_LIMIT_BYTES:
            return
        if time.monotonic() < self._refused_until:
            return
        try:
            self._calls.ask(lambda: self._add_now(remote, artifact, headers, store), self._times.add_s)
        except LeftBehindError:
            self._fail(remote, "does not answer")
        except CkwatchError:
            pass  # the entry has gone meanwhile
        except Exception as error:  # noqa: BLE001  # drivers raise what they like
            self._refused_until = time.monotonic() + self._times.retry_s
            why = f"cannot be written ({_reason(error)}): what is compiled here is not added to it"
            self._report(refusal=f"the shared store {self._shown} {why}")

    def _add_now(self, remote: _Remote, artifact: Artifact, headers: HeaderSet, store: ArtifactStore) -> None:
        entry, header_set = remote.entry(artifact.key, headers.key), remote.header_set(headers.key)
        for path, content in (
            (header_set, headers.to_json),
            (entry, lambda: pack(artifact, {name: store.load(artifact.folder / name) for name in artifact.files})),
        ):
            if path in self._damaged or not remote.exists(path):
                remote.put(path, content())
                with self._reporting:
                    self._damaged.pop(path, None)
                self._report(refusal="")

    def _connected(self) -> _Remote | None:
        """Return the server to ask, or None while asking is useless."""
        if not self._answered.wait(max(0.0, self._connect_until - time.monotonic())):
            self._report_outage("does not answer")
        return self._remote

    def _start_connecting(self, after_s: float) -> None:
        threading.Thread(target=self._connect, args=(after_s,), name="ckwatch-shared-store", daemon=True).start()

    def _connect(self, after_s: float) -> None:
        """Try until there is an answer: one thread, however long an answer takes."""
        while not self._closed.wait(after_s):
            try:
                remote = _Remote(*self._open_files(self.location))
                remote.check()
            except CkwatchError as error:
                self._report_outage(str(error))
            except Exception as error:  # noqa: BLE001  # drivers raise what they like
                self._report_outage(f"cannot be read ({_reason(error)})")
            else:
                self._absent.clear()
                self._remote = remote
                self._report(outage="")
                self._answered.set()
                return
            self._answered.set()
            after_s = self._times.retry_s
        self._answered.set()

    def _fail(self, remote: _Remote, why: str) -> None:
        """Ask `remote` no more."""
        with self._lock:
            if self._remote is not remote:
                return
            self._remote = None
        self._report_outage(why)
        self._start_connecting(self._times.retry_s)

    def _mark_damaged(self, path: str, why: str) -> None:
        with self._reporting:
            self._damaged.setdefault(path, why)
        self._report()

    def _report_outage(self, why: str) -> None:
        self._report(outage=f"the shared store {self._shown} {why}: nothing is taken from it or added to it meanwhile")

    def _report(self, outage: str | None = None, refusal: str | None = None) -> None:
        """Say what is wrong if that has changed. An empty text: no more; None: as it was."""
        with self._reporting:
            if outage is not None:
                self._outage = outage
            if refusal is not None:
                self._refusal = refusal
            problem = self._outage or self._refusal or self._damage()
            if problem == self.problem or self._closed.is_set():
                return
            self.problem = problem
            self._on_problem(problem)

    def _damage(self) -> str | None:
        if not self._damaged:
            return None
        path, why = next(iter(self._damaged.items()))
        others = f" (and {len(self._damaged) - 1} more)" if len(self._damaged) > 1 else ""
        return f"{path}{others} in the shared store is damaged and not used: {why}"


def _installed(entry: UnpackedEntry, headers: HeaderSet, store: ArtifactStore, roots: PathRoots) -> Artifact:
    """The entry in the local store, as if it had been compiled here. Raises StoreError."""
    artifact, contents = entry.artifact, entry.contents
    folder = store.work_folder()
    try:
        products = {kind: folder / name for kind, name in artifact.products.items()}
        # the rule for make, in which headers have the paths that they have here
        target, paths = artifact.products.get(ProductKind.SHARED_OBJECT, ""), map(roots.expand, headers.present)
        rule = format_dependency_file(target, tuple(sorted(paths))).encode("utf-8", "surrogateescape")
        for kind, path in products.items():
            path.write_bytes(rule if kind == ProductKind.DEPENDENCIES else contents[path.name])
        return store.publish(
            artifact.key,
            headers,
            artifact.record,
            source=contents[artifact.record.source],
            log=contents.get(LOG, b"").decode("utf-8", "replace"),
            products=products,
            work_folder=folder,
        )
    except OSError as error:
        raise StoreError(f"the artifact store in {store.folder} cannot be written: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Remote:
    """A file system of fsspec, and the folder of the shared store in it. Its methods raise what its driver raises."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        protocols = {files.protocol} if isinstance(files.protocol, str) else {*files.protocol}
        self._has_folders = not protocols & _WHOLE_PUTS
        self._is_local = "file" in protocols

    def check(self) -> None:
        """Raises CkwatchError where the folder is not there; an object store needs none, but must answer."""
        if self._has_folders and not self._files.isdir(self._root or "/"):
            raise CkwatchError("is not an existing folder")
        if not self._has_folders:
            self._files.exists(f"{self._root}/artifacts")

    def entry(self, key: str, headers: str) -> str:
        return f"{self._root}/artifacts/{key[:2]}/{key}/{headers}.zip"

    def header_set(self, name: str) -> str:
        return f"{self._root}/headers/{name[:2]}/{name}.json"

    def entries(self, key: str) -> list[str]:
        """The names of the header sets for which there is an entry, the newest first."""
        folder = f"{self._root}/artifacts/{key[:2]}/{key}"
        self._files.invalidate_cache(folder)
        try:
            found = self._files.ls(folder, detail=True)
        except FileNotFoundError:
            return []
        times = ("mtime", "LastModified", "last_modified", "updated", "created")
        named = [
            (str(next((info[word] for word in times if info.get(word)), "")), name.removesuffix(".zip"))
            for info in found
            if _ENTRY.fullmatch(name := info["name"].rpartition("/")[2]) and info["type"] == "file"
        ]
        return [name for _, name in sorted(named, reverse=True)]

    def read(self, path: str, limit_bytes: int) -> bytes | None:
        """The contents of a file, cut off behind the limit; None if there is none."""
        try:
            content: bytes = self._files.cat_file(path, 0, limit_bytes + 1)
        except FileNotFoundError:
            return None
        return content

    def exists(self, path: str) -> bool:
        self._files.invalidate_cache(path.rpartition("/")[0])
        return bool(self._files.exists(path))

    def put(self, path: str, content: bytes) -> None:
        """Put a file in place in one step."""
        if not self._has_folders:
            self._files.pipe_file(path, content)
            return
        folder, _, name = path.rpartition("/")
        self._make_folder(folder)
        partial = f"{folder}/.{name[:16]}.{os.urandom(8).hex()}.partial"
        try:
            self._files.pipe_file(partial, content)
            self._open_to_others(partial, 0o666)
            self._files.mv(partial, path)
        except BaseException:
            with suppress(Exception):
                self._files.rm_file(partial)
            raise

    def _make_folder(self, folder: str) -> None:
        """Make a folder with those above it."""
        if folder == self._root or self._files.isdir(folder):
            return
        self._make_folder(folder.rpartition("/")[0])
        try:
            self._files.mkdir(folder, create_parents=False)
        except FileExistsError:
            return
        self._open_to_others(folder, 0o7777)

    def _open_to_others(self, path: str, bits: int) -> None:
        """Whoever may write the shared folder may write what is in it, whatever the umask was."""
        if self._is_local:
            with suppress(OSError):
                Path(path).chmod(Path(self._root).stat().st_mode & bits)


def _file_system(location: str) -> tuple[Any, str]:
    """The file system of `location`, and the folder in it. Raises CkwatchError, whose message continues a sentence,
    where it cannot be used, and what its driver raises."""
    try:
        from fsspec.core import filesystem, url_to_fs
    except ImportError:
        text = "needs fsspec, which is not installed (the extra `shared` of ckwatch)"
        raise CkwatchError(f"{text}: `{command_for_extra('shared')}`") from None
    protocol, is_url, _ = location.partition("://")
    try:
        # an instance of its own: one that has failed may not get over it
        found: tuple[Any, str] = (
            url_to_fs(location, skip_instance_cache=True)
            if is_url
            else (filesystem("file", skip_instance_cache=True), location)
        )
    except ImportError as error:
        adding = f": `{command_for_packages(DRIVERS[protocol])}`" if protocol in DRIVERS else ""
        raise CkwatchError(f"cannot be used without its driver ({_reason(error)}){adding}") from None
    except ValueError as error:
        if "Protocol not known" not in str(error):
            raise
        raise CkwatchError(f"cannot be used, since fsspec has no protocol `{protocol}`") from None
    return found


def _reason(error: Exception) -> str:
    """Return a driver's message in one line and without credentials."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _LOGIN.sub("", next(iter(text.strip().splitlines()), "")) or type(error).__name__
