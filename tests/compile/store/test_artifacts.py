"""Published artifacts are found again, whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import LostArtifactError, StoreError
from ckwatch.compile.store.header_sets import HeaderSet, PathRoots
from ckwatch.model.errors import CkwatchError
from ckwatch.system.file_locks import is_in_place, try_lock, unlock
from fakes.patience import PATIENCE_S
from helpers.stored_entries import KEY, RECORD, Publish


def test_found_as_published(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    assert store.lookup(KEY, roots) is None
    published = publish()
    found = store.lookup(KEY, roots)
    assert found == published
    assert found is not None
    assert found.record == RECORD
    assert found.shared_object is not None
    assert found.shared_object.read_bytes() == b"\x7fELF" * 100
    assert (found.code_object, found.object) == (None, None)
    assert (found.log, found.source_text) == ("a warning ü\n", "int a;\r\n")
    assert found.size_bytes == 400 + len("a warning ü\n".encode()) + 8
    headers = store.header_set(found.headers)
    assert headers is not None
    assert list(headers.present) == ["<ck>/a b.hpp"]
    with ArtifactStore(store.folder) as again:
        assert again.lookup(KEY, roots) == published


def test_failures_are_kept(store: ArtifactStore, roots: PathRoots) -> None:
    record = replace(RECORD, ok=False)
    store.publish(KEY, HeaderSet({}), record, source=b"int", log="error: no", products={})
    found = store.lookup(KEY, roots)
    assert found is not None
    assert (found.ok, found.log, found.shared_object) == (False, "error: no", None)


def test_holds_as_long_as_its_headers(store: ArtifactStore, publish: Publish, header: Path, roots: PathRoots) -> None:
    first = publish()
    header.write_text("int b;")
    assert store.lookup(KEY, roots) is None
    second = publish()
    assert store.lookup(KEY, roots) == second
    header.write_text("int a;")
    assert store.lookup(KEY, roots) == first
    header.unlink()
    assert store.lookup(KEY, roots) is None


def test_ends_when_a_file_appears_that_would_be_read_instead(
    store: ArtifactStore, tmp_path: Path, roots: PathRoots
) -> None:
    store.publish(KEY, HeaderSet({}, ("<ck>/new.hpp",)), RECORD, source=b"", log="", products={})
    assert store.lookup(KEY, roots) is not None
    (tmp_path / "ck" / "new.hpp").touch()
    assert store.lookup(KEY, roots) is None


def test_root_may_move(store: ArtifactStore, publish: Publish, tmp_path: Path) -> None:
    published = publish()
    (tmp_path / "ck").rename(tmp_path / "elsewhere")
    assert store.lookup(KEY, PathRoots({"ck": tmp_path / "elsewhere"})) == published
    assert store.lookup(KEY, PathRoots({})) is None


DAMAGES = {
    "product cut short": ("kernel.so", lambda path: os.truncate(path, 10)),
    "product changed": ("kernel.so", lambda path: path.write_bytes(b"\x7fELg" * 100)),
    "product gone": ("kernel.so", lambda path: path.unlink()),
    "log gone": ("log.txt", lambda path: path.unlink()),
    "source changed": ("kernel.hip", lambda path: path.write_bytes(b"int b;\r\n")),
    "meta cut short": ("meta.json", lambda path: os.truncate(path, 100)),
    "meta empty": ("meta.json", lambda path: os.truncate(path, 0)),
    "meta of another shape": ("meta.json", lambda path: path.write_text("[]")),
    "meta changed": ("meta.json", lambda path: path.write_bytes(path.read_bytes().replace(b"gfx942", b"gfx90a"))),
    "meta gone": ("meta.json", lambda path: path.unlink()),
}


@pytest.mark.parametrize("fresh_process", [False, True])
@pytest.mark.parametrize(("file", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_noticed_and_mended(
    store: ArtifactStore, publish: Publish, roots: PathRoots, file: str, damage: object, fresh_process: bool
) -> None:
    published = publish()
    assert store.lookup(KEY, roots) == published
    assert callable(damage)
    damage(published.folder / file)
    if fresh_process:
        with ArtifactStore(store.folder) as other:
            assert other.lookup(KEY, roots) is None
    else:
        assert store.lookup(KEY, roots) is None
    assert not published.folder.exists()
    assert publish() == published
    assert store.lookup(KEY, roots) == published


def test_damage_is_noticed_when_the_hash_is_remembered(
    store: ArtifactStore, publish: Publish, roots: PathRoots
) -> None:
    published = publish()
    old = time.time() - 100
    product = published.folder / "kernel.so"
    os.utime(product, (old, old))
    product.write_bytes(b"\x7fELh" * 100)
    os.utime(product, (old, old))
    assert store.lookup(KEY, roots) is None


def test_damaged_header_set(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    published = publish()
    for file in (store.folder / "headers").glob("*/*.json"):
        file.write_bytes(file.read_bytes()[:-9])
    with ArtifactStore(store.folder) as other:
        assert other.lookup(KEY, roots) is None
        assert publish(into=other) == published
        assert other.lookup(KEY, roots) == published


def test_publishing_over_a_damaged_entry(store: ArtifactStore, publish: Publish) -> None:
    published = publish()
    (published.folder / "kernel.so").write_bytes(b"")
    assert publish() == published
    assert published.shared_object is not None
    assert published.shared_object.stat().st_size == 400


def test_verify_reads_everything(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    good, bad = publish(), publish("cd" + KEY[2:])
    (bad.folder / "kernel.so").write_bytes(b"\x7fELg" * 100)
    assert store.verify() == [bad.folder]
    assert store.lookup(KEY, roots) == good


def test_damaged_memo_is_replaced(store: ArtifactStore, publish: Publish, roots: PathRoots, header: Path) -> None:
    publish()
    memo = store.folder / "contents.sqlite"
    memo.write_bytes(b"no database" * 1000)
    settled = header.with_name("settled")
    settled.write_text("a")
    with ArtifactStore(store.folder) as other:
        assert other.lookup(KEY, roots) is not None
        other.contents._settled_ns = -1  # no waiting until the file is old enough
        assert other.contents.digest(str(settled)) is not None
    assert memo.read_bytes().startswith(b"SQLite format 3")


def test_concurrent_publishers(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    stores = [ArtifactStore(store.folder) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        published = list(pool.map(lambda other: publish(into=other), stores))
    for other in stores:
        other.close()
    assert len({artifact.folder for artifact in published}) == 1
    assert store.lookup(KEY, roots) == published[0]
    assert list((store.folder / "runs").iterdir()) == []


WRITER = """
import sys, itertools
from pathlib import Path
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.header_sets import HeaderSet, PathRoots
from helpers.stored_entries import RECORD
store = ArtifactStore(Path(sys.argv[1]))
print("ready", flush=True)
for count in itertools.count():
    product = store.work_folder() / "kernel.so"
    product.write_bytes(b"x" * 300_000)
    key = f"{count % 4:02x}" + "0" * 62
    store.publish(key, HeaderSet({}), RECORD, source=b"int a;", log="", products={"shared-object": product})
    if count % 3 == 0:
        (store._entry_folder(key, HeaderSet({}).key) / "kernel.so").write_bytes(b"damaged")
    store.lookup(key, PathRoots({}))
"""


def test_writers_killed_at_any_moment(store: ArtifactStore) -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "daemon"), str(root / "tests")])}
    for wait_s in (0.001, 0.003, 0.007, 0.013, 0.021):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(store.folder)], stdout=subprocess.PIPE, env=environment, cwd=root
            )
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        time.sleep(wait_s)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
    for count in range(4):
        found = store.lookup(f"{count:02x}" + "0" * 62, PathRoots({}))
        if found is not None:
            assert found.shared_object is not None
            assert found.shared_object.read_bytes() == b"x" * 300_000
    store.verify()
    assert store.verify() == []
    store.collect_garbage()
    store.close()
    assert list((store.folder / "runs").iterdir()) == []


def test_leftovers_of_the_living_stay(store: ArtifactStore) -> None:
    with ArtifactStore(store.folder) as other:
        mine = other.work_folder()
        assert store.collect_garbage().leftovers == 0
        assert mine.is_dir()
    assert not mine.exists()
    (store.folder / "runs" / "123-dead" / "1").mkdir(parents=True)
    assert store.collect_garbage().leftovers == 1
    assert list((store.folder / "runs").iterdir()) == []


def test_compilers_that_nobody_waits_for_are_ended(store: ArtifactStore) -> None:
    folder = store.folder / "runs" / "123-dead" / "1"
    folder.mkdir(parents=True)
    elsewhere = store.folder / "elsewhere"
    elsewhere.mkdir()
    forgotten, other = (subprocess.Popen(["sleep", "1000"], cwd=place) for place in (folder, elsewhere))
    try:
        assert store.remove_leftovers() == 1
        assert forgotten.wait(PATIENCE_S) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (forgotten, other):
            process.kill()
            process.wait()


def flip(path: Path, at: int = -1) -> None:
    """Damage one byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_what_is_loaded_is_what_was_stored(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    path = publish().shared_object
    assert path is not None
    assert store.load(path) == b"\x7fELF" * 100
    flip(path)
    with pytest.raises(LostArtifactError, match="is damaged: it is not what was compiled") as lost:
        store.load(path)
    assert lost.value.artifact == f"{KEY}.{path.parent.name}"
    assert not path.parent.exists()
    with pytest.raises(LostArtifactError, match="is no longer in the store"):
        store.load(path)
    path = publish().shared_object
    assert path is not None
    flip(path.parent / "meta.json", 30)
    with pytest.raises(LostArtifactError, match=r"meta.json is damaged"):
        store.load(path)
    assert store.lookup(KEY, roots) is None


def test_what_cannot_be_read_now_is_not_thrown_away(
    store: ArtifactStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = publish().shared_object
    assert path is not None

    def no_descriptors(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("ckwatch.compile.store.entries.read_file", no_descriptors)
        with pytest.raises(CkwatchError, match="cannot be read: Too many open files"):
            store.load(path)
    assert store.load(path) == b"\x7fELF" * 100


@pytest.mark.parametrize("left", [(), ("made by a compiler",)])
def test_an_emptied_folder_is_used_again(store: ArtifactStore, left: tuple[str, ...]) -> None:
    folder = store.work_folder()
    (folder / "temporary").mkdir()
    for name in ("kernel.so", *(f"temporary/{name}" for name in left)):
        (folder / name).write_bytes(b"code")
    products = {"shared-object": folder / "kernel.so"}
    found = store.publish(KEY, HeaderSet({}), RECORD, source=b"int a;", log="", products=products, work_folder=folder)
    assert {path.name for path in found.folder.iterdir()} == {"kernel.so", RECORD.source, "meta.json"}
    others = [store.work_folder() for _ in range(2)]
    assert [[*other.iterdir()] for other in others] == [[], []]
    assert len({folder, *others}) == 3


def test_the_folder_is_deleted_under_a_living_store(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    publish()
    folder = store.work_folder()
    assert not store.disturbed(folder)
    shutil.rmtree(store.folder)
    assert store.disturbed(folder)
    assert store.lookup(KEY, roots) is None
    again = store.work_folder()
    assert (store.disturbed(again), store.disturbed(folder)) == (False, True)
    publish()
    assert store.lookup(KEY, roots) is not None
    assert store.remove_leftovers() == 0
    assert again.is_dir()


def test_the_lock_of_another_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    mine = try_lock(path)
    assert mine is not None
    path.unlink()
    theirs = try_lock(path)
    assert theirs is not None
    unlock(path, mine)
    assert is_in_place(path, theirs)
    unlock(path, theirs)
    assert not path.exists()


def test_least_recently_used_goes_first(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    keys = [f"{index:02x}" + "0" * 62 for index in range(4)]
    entries = [publish(key, bytes(10_000)) for key in keys]
    for age, entry in zip((400, 300, 200, 100), entries, strict=True):
        os.utime(entry.folder, (time.time() - age,) * 2)
    size = sum(file.stat().st_size for file in entries[0].folder.iterdir())
    with ArtifactStore(store.folder, size_limit_bytes=int(2.5 * size), grace_s=0) as other:
        assert other.lookup(keys[0], roots) is not None
        collected = other.collect_garbage()
        assert (collected.evicted, collected.leftovers) == (2, 0)
        assert collected.size_bytes <= 2.5 * size
        assert [other.lookup(key, roots) is not None for key in keys] == [True, False, False, True]


def test_nothing_in_use_is_evicted(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    published = publish()
    os.utime(published.folder, (1, 1))
    store.size_limit_bytes = 0
    assert store.collect_garbage().evicted == 0
    with ArtifactStore(store.folder, 0, grace_s=1e12) as other:
        assert other.collect_garbage().evicted == 0
    with ArtifactStore(store.folder, 0, grace_s=0) as other:
        assert other.collect_garbage().evicted == 1
    assert store.lookup(KEY, roots) is None


@pytest.mark.parametrize("call", ["write_flushed", "take_flushed", "flush_folder"])
def test_no_space_left(
    store: ArtifactStore, publish: Publish, roots: PathRoots, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"ckwatch.compile.store.artifacts.{call}", full)
        with pytest.raises(StoreError, match="no space left") as caught:
            publish()
    assert caught.value.no_space
    assert caught.value.hint is not None
    assert store.lookup(KEY, roots) is None
    assert publish() == store.lookup(KEY, roots)


def test_store_that_cannot_be_written_is_read(
    store: ArtifactStore, publish: Publish, roots: PathRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish()
    store.close()

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("mkdir", "rename", "unlink", "rmdir", "touch"):
        monkeypatch.setattr(Path, name, read_only)
    monkeypatch.setattr(os, "utime", read_only)
    with ArtifactStore(store.folder) as other:
        assert other.lookup(KEY, roots) == published
        with pytest.raises(StoreError, match="cannot be written"):
            other.work_folder()


def test_folder_that_is_no_folder(tmp_path: Path, roots: PathRoots) -> None:
    (tmp_path / "file").touch()
    with ArtifactStore(tmp_path / "file") as store:
        assert store.lookup(KEY, roots) is None
        with pytest.raises(StoreError):
            store.work_folder()


def test_an_entry_that_has_gone(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    published = publish()
    assert store.lookup(KEY, roots) == published
    shutil.rmtree(store.folder)
    assert store.lookup(KEY, roots) is None


def test_what_is_worked_out_goes_with_its_entry(store: ArtifactStore, publish: Publish, roots: PathRoots) -> None:
    published = publish()
    place = (published.key, published.headers, "report.json")
    assert store.derived(*place) is None
    store.keep_derived(*place, b"one")
    store.keep_derived(*place, b"two")
    assert store.derived(*place) == b"two"
    assert store.lookup(KEY, roots) == published, "the entry is whole all the same"
    assert store.verify() == []
    with ArtifactStore(store.folder, 0, grace_s=0) as other:
        assert other.collect_garbage().evicted == 1
    assert store.derived(*place) is None
    store.keep_derived(*place, b"three")
    assert store.derived(*place) is None, "there is no entry to keep it with"
    assert not published.folder.exists()


def test_what_cannot_be_kept_is_not_kept(
    store: ArtifactStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ckwatch.compile.store.artifacts.write_flushed", full)
    store.keep_derived(published.key, published.headers, "report.json", b"one")
    assert store.derived(published.key, published.headers, "report.json") is None
