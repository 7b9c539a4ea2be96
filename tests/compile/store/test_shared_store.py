"""Artifacts of one user are found by others; problems of the shared store are a sentence and no more."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import Artifact
from ckwatch.compile.store.header_sets import HeaderObserver, HeaderSet, PathRoots
from ckwatch.compile.store.packed_entries import pack
from ckwatch.compile.store.shared_store import SharedStore, SharedStoreTimes, shown_location
from fakes.patience import PATIENCE_S
from helpers.stored_entries import KEY, RECORD, Publish

OTHER_KEY = "ef" + "1" * 62


PATIENT = replace(SharedStoreTimes(*[PATIENCE_S] * 6), absent_s=0.0)


Methods = dict[str, Callable[..., Any]]


class Shared(SharedStore):
    """Waits as long as it takes, unless told otherwise, and keeps what it has reported."""

    def __init__(self, location: str | Path, methods: Methods | None = None, **limits: float) -> None:
        """`methods`: of the local file system, instead of its own."""
        self.reported: SimpleQueue[str | None] = SimpleQueue()

        def open_files(location: str) -> tuple[LocalFileSystem, str]:
            return type("Files", (LocalFileSystem,), {"cachable": False, **(methods or {})})(), location

        given = None if methods is None else open_files
        super().__init__(str(location), replace(PATIENT, **limits), on_problem=self.reported.put, open_files=given)

    def find_in(self, store: ArtifactStore, roots: PathRoots, key: str = KEY) -> Artifact | None:
        return self.find(key, store, roots, store.contents.look())

    def add_and_end(self, *artifacts: Artifact, store: ArtifactStore) -> None:
        for artifact in artifacts:
            self.add(artifact, store)
        self.close(PATIENCE_S)

    def all_reported(self) -> list[str | None]:
        found: list[str | None] = []
        while True:
            try:
                found.append(self.reported.get_nowait())
            except Empty:
                return found


@pytest.fixture(params=["folder", "file", "memory"])
def location(request: pytest.FixtureRequest, shared_folder: Path) -> Iterator[str]:
    if request.param == "folder":
        yield str(shared_folder)
    elif request.param == "file":
        yield shared_folder.as_uri()
    else:
        yield f"memory://team{shared_folder}"
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def shared_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ArtifactStore]:
    """The store of another machine."""
    with ArtifactStore(tmp_path / "other store", grace_s=0) as store:
        yield store


@pytest.fixture
def open_shared() -> Iterator[Callable[..., Shared]]:
    opened: list[Shared] = []

    def _open(location: str | Path, methods: Methods | None = None, **limits: float) -> Shared:
        opened.append(Shared(location, methods, **limits))
        return opened[-1]

    yield _open
    for shared in opened:
        shared.close(PATIENCE_S)


OpenShared = Callable[..., Shared]


def contents_of(artifact: Artifact) -> dict[str, bytes]:
    return {name: (artifact.folder / name).read_bytes() for name in ("meta.json", *artifact.files)}


def entry_file(folder: Path, artifact: Artifact) -> Path:
    return folder / "artifacts" / artifact.key[:2] / artifact.key / f"{artifact.headers}.zip"


def header_file(folder: Path, artifact: Artifact) -> Path:
    return folder / "headers" / artifact.headers[:2] / f"{artifact.headers}.json"


def test_found_by_another_store(
    location: str,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    published = publish()
    first = open_shared(location)
    assert first.find_in(other, roots) is None
    first.add_and_end(published, store=store)
    second = open_shared(location)
    found = second.find_in(other, roots)
    assert found is not None
    assert found.folder == other.entry_folder(KEY, published.headers)
    assert contents_of(found) == contents_of(published)
    assert other.lookup(KEY, roots) == found
    assert other.header_set(found.headers) == store.header_set(published.headers)
    assert [*other.folder.glob("runs/*/*")] == []
    assert first.all_reported() == second.all_reported() == []


def test_failures_are_shared(shared_folder: Path, store: ArtifactStore, other: ArtifactStore, roots: PathRoots) -> None:
    failed = store.publish(KEY, HeaderSet({}), replace(RECORD, ok=False), source=b"int", log="error: no", products={})
    Shared(shared_folder).add_and_end(failed, store=store)
    shared = Shared(shared_folder)
    found = shared.find_in(other, roots)
    assert found is not None
    assert (found.ok, found.log, found.products) == (False, "error: no", {})
    shared.close()


def test_only_while_its_headers_hold(
    shared_folder: Path, store: ArtifactStore, other: ArtifactStore, publish: Publish, header: Path, roots: PathRoots
) -> None:
    first = publish()
    header.write_text("int b;")
    second = publish()
    Shared(shared_folder).add_and_end(first, second, store=store)
    shared = Shared(shared_folder)
    header.write_text("int c;")
    assert shared.find_in(other, roots) is None
    for text, expected in (("int a;", first), ("int b;", second)):
        header.write_text(text)
        found = shared.find_in(other, roots)
        assert found is not None
        assert found.headers == expected.headers
    shared.close()


def test_a_root_may_be_elsewhere(
    shared_folder: Path, store: ArtifactStore, other: ArtifactStore, publish: Publish, tmp_path: Path
) -> None:
    Shared(shared_folder).add_and_end(publish(), store=store)
    (tmp_path / "ck").rename(tmp_path / "elsewhere")
    shared = Shared(shared_folder)
    assert shared.find_in(other, PathRoots({"ck": tmp_path / "elsewhere"})) is not None
    shared.close()


def test_the_rule_for_make_names_the_headers_of_this_machine(
    shared_folder: Path, store: ArtifactStore, other: ArtifactStore, header: Path, roots: PathRoots, tmp_path: Path
) -> None:
    headers = HeaderObserver(store.contents, roots).observe((str(header),), (), (), begun_ns=2**62)
    assert headers is not None
    folder = store.work_folder()
    products = {"shared-object": folder / "kernel.so", "dependencies": folder / "kernel.d"}
    for path in products.values():
        path.write_text(f"kernel.so: {header}")
    published = store.publish(KEY, headers, RECORD, source=b"", log="", products=products, work_folder=folder)
    Shared(shared_folder).add_and_end(published, store=store)
    elsewhere = (tmp_path / "ck").rename(tmp_path / "elsewhere")
    shared = Shared(shared_folder)
    found = shared.find_in(other, PathRoots({"ck": elsewhere}))
    shared.close()
    assert found is not None
    assert (found.folder / "kernel.d").read_text() == f"kernel.so: \\\n  {elsewhere}/a\\ b.hpp\n"
    assert found.shared_object is not None
    assert found.shared_object.read_text() == f"kernel.so: {header}"


def test_a_key_that_is_absent_is_not_asked_for_again_soon(
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    remembers, forgets = open_shared(shared_folder, absent_s=PATIENCE_S), open_shared(shared_folder)
    assert remembers.find_in(other, roots) is forgets.find_in(other, roots) is None
    Shared(shared_folder).add_and_end(publish(), store=store)
    assert remembers.find_in(other, roots) is None
    assert forgets.find_in(other, roots) is not None


def test_what_is_there_is_not_written_again(
    shared_folder: Path, store: ArtifactStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish()
    Shared(shared_folder).add_and_end(published, store=store)
    before = {path: path.stat() for path in shared_folder.rglob("*")}
    Shared(shared_folder).add_and_end(published, published, store=store)
    assert {path: path.stat() for path in shared_folder.rglob("*")} == before


def truncated(path: Path, _artifact: Artifact) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path: Path, _artifact: Artifact) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def emptied(path: Path, _artifact: Artifact) -> None:
    path.write_bytes(b"")


def of_another_key(path: Path, artifact: Artifact) -> None:
    path.write_bytes(
        pack(replace(artifact, key=OTHER_KEY), {name: (artifact.folder / name).read_bytes() for name in artifact.files})
    )


@pytest.mark.parametrize("harm", [truncated, flipped, emptied, of_another_key])
def test_a_damaged_entry_is_reported_once_and_replaced(
    harm: Callable[[Path, Artifact], None],
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    published = publish()
    Shared(shared_folder).add_and_end(published, store=store)
    path = entry_file(shared_folder, published)
    whole = path.read_bytes()
    harm(path, published)
    shared = open_shared(shared_folder)
    assert shared.find_in(other, roots) is shared.find_in(other, roots) is None
    assert other.count() == 0
    (said,) = shared.all_reported()
    assert said is not None
    assert said.startswith(f"{path} in the shared store is damaged and not used: ")
    shared.add_and_end(published, store=store)
    assert shared.all_reported() == [None]
    assert path.read_bytes() == whole


def test_a_damaged_header_set_is_reported_once_and_replaced(
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    published = publish()
    Shared(shared_folder).add_and_end(published, store=store)
    path = header_file(shared_folder, published)
    whole = path.read_bytes()
    path.write_bytes(b'{"present": {}, "absent": []}')
    shared = open_shared(shared_folder)
    assert shared.find_in(other, roots) is shared.find_in(other, roots) is None
    (said,) = shared.all_reported()
    assert said == f"{path} in the shared store is damaged and not used: it is another header set than its name says"
    shared.add_and_end(published, store=store)
    assert (shared.all_reported(), path.read_bytes()) == ([None], whole)


@pytest.mark.parametrize("gone", [entry_file, header_file])
def test_a_half_that_was_deleted_is_added_again(
    gone: Callable[[Path, Artifact], Path],
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    published = publish()
    Shared(shared_folder).add_and_end(published, store=store)
    gone(shared_folder, published).unlink()
    shared = open_shared(shared_folder)
    assert shared.find_in(other, roots) is None
    shared.add_and_end(published, store=store)
    assert shared.all_reported() == []
    assert open_shared(shared_folder).find_in(other, roots) is not None


def test_strange_files_are_no_entries(shared_folder: Path, other: ArtifactStore, roots: PathRoots) -> None:
    folder = shared_folder / "artifacts" / KEY[:2] / KEY
    (folder / f"{KEY}.zip").mkdir(parents=True)
    for name in (".partial", f"{KEY}.tar", f"{KEY}.zip.old", "..zip"):
        (folder / name).touch()
    shared = Shared(shared_folder)
    assert shared.find_in(other, roots) is None
    assert shared.all_reported() == []
    shared.close()


class Gate:
    """Holds up all who call a method of a file system, until it opens; as many as it `lets` pass first."""

    def __init__(self, lets: int = 0) -> None:
        self.opened = threading.Event()
        self.lets = lets
        self.calls = 0
        self.held = threading.Event()

    def before(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def held(*arguments: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls > self.lets:
                self.held.set()
                self.opened.wait()
            return method(*arguments, **more)

        return held


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


SILENT = "the shared store {} does not answer: nothing is taken from it or added to it meanwhile"


def test_one_that_does_not_answer_is_not_asked_until_it_does(
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    gate: Gate,
    open_shared: OpenShared,
) -> None:
    Shared(shared_folder).add_and_end(publish(), store=store)
    again = Gate(lets=1)
    methods = {"ls": gate.before(LocalFileSystem.ls), "isdir": again.before(LocalFileSystem.isdir)}
    shared = open_shared(shared_folder, methods, look_up_s=0.01, retry_s=0.0)
    assert shared.find_in(other, roots) is None
    assert shared.reported.get(timeout=PATIENCE_S) == SILENT.format(shared_folder)
    assert again.held.wait(PATIENCE_S), "a thread tries"
    assert shared.find_in(other, roots) is shared.find_in(other, roots) is None
    assert (gate.calls, again.calls) == (1, 2)
    gate.opened.set()
    again.opened.set()
    assert shared.reported.get(timeout=PATIENCE_S) is None


def test_a_first_answer_that_is_late_is_not_waited_for(
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    gate: Gate,
    open_shared: OpenShared,
) -> None:
    Shared(shared_folder).add_and_end(publish(), store=store)
    shared = open_shared(shared_folder, {"isdir": gate.before(LocalFileSystem.isdir)}, connect_s=0.01)
    assert shared.find_in(other, roots) is None
    assert shared.reported.get(timeout=PATIENCE_S) == SILENT.format(shared_folder)
    gate.opened.set()
    assert shared.reported.get(timeout=PATIENCE_S) is None
    assert shared.find_in(other, roots) is not None


def test_an_entry_that_takes_too_long_is_compiled(
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    gate: Gate,
    open_shared: OpenShared,
) -> None:
    Shared(shared_folder).add_and_end(publish(), store=store)

    def slow(files: LocalFileSystem, path: str, *more: Any) -> Any:
        if path.endswith(".zip"):
            gate.opened.wait()
        return LocalFileSystem.cat_file(files, path, *more)

    shared = open_shared(shared_folder, {"cat_file": slow}, fetch_s=0.01)
    assert shared.find_in(other, roots) is None
    assert shared.all_reported() == [SILENT.format(shared_folder)]
    assert other.count() == 0


def test_adding_that_takes_too_long_is_left_behind(
    shared_folder: Path,
    store: ArtifactStore,
    publish: Publish,
    gate: Gate,
    open_shared: OpenShared,
) -> None:
    shared = open_shared(shared_folder, {"pipe_file": gate.before(LocalFileSystem.pipe_file)}, add_s=0.01)
    shared.add_and_end(publish(), publish(OTHER_KEY), store=store)
    assert shared.all_reported() == [SILENT.format(shared_folder)]
    assert gate.calls <= 1


def test_an_error_is_a_sentence_until_it_is_over(
    shared_folder: Path,
    other: ArtifactStore,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    renewed = threading.Event()

    def ls(files: LocalFileSystem, path: str, **more: Any) -> Any:
        if not renewed.is_set():
            raise RuntimeError("The token ftp://me:secret@host?sig=secret has expired\nand more")
        return LocalFileSystem.ls(files, path, **more)

    shared = open_shared(shared_folder, {"ls": ls}, retry_s=0.0)
    assert shared.find_in(other, roots) is None
    said = shared.reported.get(timeout=PATIENCE_S)
    renewed.set()
    assert said == (
        f"the shared store {shared_folder} cannot be read (The token ftp://host has expired): "
        "nothing is taken from it or added to it meanwhile"
    )
    assert shared.reported.get(timeout=PATIENCE_S) is None


def test_a_folder_that_is_mounted_later(
    tmp_path: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    folder = tmp_path / "mounted"
    shared = open_shared(folder, retry_s=0.001)
    assert shared.find_in(other, roots) is None
    said = shared.reported.get(timeout=PATIENCE_S)
    assert said is not None
    assert said.startswith(f"the shared store {folder} is not an existing folder: ")
    assert not folder.exists(), "what a file system is mounted on is not filled"
    folder.mkdir()
    assert shared.reported.get(timeout=PATIENCE_S) is None
    shared.add_and_end(publish(), store=store)
    assert open_shared(folder).find_in(other, roots) is not None


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("nowhere://team", "the shared store nowhere://team cannot be used, since fsspec has no protocol `nowhere`: "),
        ("s3://me:secret@team", "the shared store s3://team cannot be used without its driver (Install s3fs"),
    ],
)
def test_what_fsspec_cannot_reach(
    location: str,
    said: str,
    other: ArtifactStore,
    roots: PathRoots,
    monkeypatch: pytest.MonkeyPatch,
    open_shared: OpenShared,
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    shared = open_shared(location)
    assert shared.find_in(other, roots) is None
    (found,) = shared.all_reported()
    assert found is not None
    assert found.startswith(said)


def test_without_fsspec(
    shared_folder: Path,
    other: ArtifactStore,
    roots: PathRoots,
    monkeypatch: pytest.MonkeyPatch,
    open_shared: OpenShared,
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    shared = open_shared(shared_folder)
    assert shared.find_in(other, roots) is None
    (said,) = shared.all_reported()
    assert said is not None
    assert said.startswith(
        f"the shared store {shared_folder} needs fsspec, which is not installed (the extra `shared` "
    )


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_one_that_cannot_be_written_is_read(
    error: int,
    shared_folder: Path,
    store: ArtifactStore,
    other: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    open_shared: OpenShared,
) -> None:
    published = publish()
    Shared(shared_folder).add_and_end(published, store=store)
    writable = threading.Event()

    def pipe_file(files: LocalFileSystem, path: str, content: bytes) -> None:
        if writable.is_set():
            LocalFileSystem.pipe_file(files, path, content)
            return
        LocalFileSystem.pipe_file(files, path, content[:10])
        raise OSError(error, os.strerror(error), path)

    shared = open_shared(shared_folder, {"pipe_file": pipe_file}, retry_s=0.0)
    shared.add(publish(OTHER_KEY), store)
    assert shared.reported.get(timeout=PATIENCE_S) == (
        f"the shared store {shared_folder} cannot be written ({os.strerror(error)}): "
        "what is compiled here is not added to it"
    )
    assert shared.find_in(other, roots) is not None
    writable.set()
    assert [*shared_folder.rglob("*.partial")] == []
    shared.add(publish(OTHER_KEY), store)
    assert shared.reported.get(timeout=PATIENCE_S) is None
    assert open_shared(shared_folder).find_in(other, roots, OTHER_KEY) is not None


def test_a_local_store_that_cannot_be_written_is_no_fault_of_the_shared_one(
    shared_folder: Path,
    store: ArtifactStore,
    publish: Publish,
    roots: PathRoots,
    tmp_path: Path,
    open_shared: OpenShared,
) -> None:
    Shared(shared_folder).add_and_end(publish(), store=store)
    (tmp_path / "file").touch()
    shared = open_shared(shared_folder)
    with ArtifactStore(tmp_path / "file" / "store") as broken:
        assert shared.find_in(broken, roots) is None
    assert shared.all_reported() == []


def test_an_entry_that_has_gone_is_not_added(
    shared_folder: Path, store: ArtifactStore, publish: Publish, open_shared: OpenShared
) -> None:
    published = publish()
    (published.folder / "kernel.so").unlink()
    shared = open_shared(shared_folder)
    shared.add_and_end(published, store=store)
    assert ([*shared_folder.rglob("*.zip")], shared.all_reported()) == ([], [])


def test_many_write_and_read_at_once(
    shared_folder: Path, publish: Publish, roots: PathRoots, tmp_path: Path, open_shared: OpenShared
) -> None:
    """Readers see whole entries or none, whoever writes the same ones."""
    keys = [f"{number:02x}" + "0" * 62 for number in range(8)]

    def write(number: int) -> None:
        with ArtifactStore(tmp_path / f"writer {number}") as store:
            Shared(shared_folder).add_and_end(*(publish(key, into=store) for key in keys), store=store)

    def read(number: int) -> list[str | None]:
        shared = open_shared(shared_folder)
        with ArtifactStore(tmp_path / f"reader {number}") as store:
            while not all(shared.find_in(store, roots, key) for key in keys):
                pass
        return shared.all_reported()

    with ThreadPoolExecutor(6) as threads:
        writing = [threads.submit(write, number) for number in range(3)]
        reading = [threads.submit(read, number) for number in range(3)]
        for one in writing:
            one.result(PATIENCE_S)
        assert [one.result(PATIENCE_S) for one in reading] == [[]] * 3
    assert [*shared_folder.rglob("*.partial")] == []


def test_who_may_write_the_folder_may_write_what_is_in_it(
    shared_folder: Path, store: ArtifactStore, publish: Publish
) -> None:
    shared_folder.chmod(0o775)
    former = os.umask(0o077)
    try:
        published = publish()
        Shared(shared_folder).add_and_end(published, store=store)
    finally:
        os.umask(former)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in shared_folder.rglob("*") if path.is_dir()}
    assert modes == {0o775}
    assert stat.S_IMODE(entry_file(shared_folder, published).stat().st_mode) == 0o664


def test_the_end_waits_for_what_is_being_added(
    shared_folder: Path, store: ArtifactStore, publish: Publish, gate: Gate
) -> None:
    published = publish()
    shared = Shared(shared_folder, {"pipe_file": gate.before(LocalFileSystem.pipe_file)})
    shared.add(published, store)
    assert gate.held.wait(PATIENCE_S)
    shared.close(0.01)
    assert not entry_file(shared_folder, published).exists()
    gate.opened.set()
    shared.close(PATIENCE_S)
    assert entry_file(shared_folder, published).exists()


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/data/team?x", "/data/team?x"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("sftp://me:secret@host:22/data", "sftp://host:22/data"),
        ("https://host/data?signature=secret", "https://host/data"),
    ],
)
def test_logins_are_not_shown(location: str, shown: str) -> None:
    assert shown_location(location) == shown
