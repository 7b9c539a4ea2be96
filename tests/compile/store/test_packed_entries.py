"""An entry is unpacked whole and plain, or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.compile.store.entries import META, Artifact, StoredFile, artifact_to_json
from ckwatch.compile.store.header_sets import HeaderSet
from ckwatch.compile.store.packed_entries import header_set_from, pack, unpack
from helpers.each_row import each_row
from helpers.stored_entries import KEY, RECORD

SET = "cd" + "0" * 62
CONTENTS = {"kernel.hip": b"int a;\r\n", "kernel.so": b"\x7fELF" * 100, "log.txt": b"a warning\n"}


def artifact(contents: Mapping[str, bytes] = CONTENTS) -> Artifact:
    files = {name: StoredFile(len(one), hashlib.sha256(one).hexdigest()) for name, one in contents.items()}
    return Artifact(KEY, SET, Path(), RECORD, files, {"shared-object": "kernel.so"})


PACKED = pack(artifact(), CONTENTS)


def archive(members: Mapping[str, bytes], *more: tuple[str, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w", compression) as written:
        for name, content in (*members.items(), *more):
            written.writestr(name, content)
    return packed.getvalue()


def with_meta(change: Callable[[dict[str, Any]], object], contents: Mapping[str, bytes] = CONTENTS) -> bytes:
    """An archive whose `meta.json` was changed by somebody who knows how it is hashed."""
    meta = json.loads(artifact_to_json(artifact()))
    del meta["sha256"]
    change(meta)
    text = json.dumps(meta, sort_keys=True)
    return archive(
        {META: json.dumps({**meta, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode(), **contents}
    )


def test_unpacked_as_packed() -> None:
    found = unpack(PACKED, KEY, SET)
    assert (found.artifact, found.contents) == (artifact(), CONTENTS)
    assert pack(artifact(), CONTENTS) == PACKED, "what is equal is packed equally"


def test_a_failed_compile_has_no_products() -> None:
    contents = {"kernel.hip": b"int", "log.txt": b"error: no"}
    failed = Artifact(
        KEY, SET, Path(), RECORD, {n: StoredFile(len(c), hashlib.sha256(c).hexdigest()) for n, c in contents.items()}
    )
    assert unpack(pack(failed, contents), KEY, SET).contents == contents


META_TEXT = artifact_to_json(artifact())


def renamed(name: str) -> bytes:
    """An entry whose product is called so, everywhere."""

    def change(meta: dict[str, Any]) -> None:
        meta["files"][name] = meta["files"].pop("kernel.so")
        meta["products"]["shared-object"] = name

    return with_meta(change, {**{k: v for k, v in CONTENTS.items() if k != "kernel.so"}, name: CONTENTS["kernel.so"]})


def set_in(table: str, key: str, value: object) -> bytes:
    return with_meta(lambda meta: meta[table].update({key: value}))


@each_row(
    ("packed", "said"),
    [
        (b"", "not a complete archive"),
        (b"PK\x03\x04", "not a complete archive"),
        (PACKED[:-1], "not a complete archive"),
        (PACKED[: len(PACKED) // 2], "not a complete archive"),
        (archive({}), "meta.json is missing"),
        (archive(CONTENTS), "meta.json is missing"),
        (archive({META: b"{}", **CONTENTS}), "damaged"),
        (archive({META: b"[" * 100_000, **CONTENTS}), "damaged|too large"),
        (archive({META: b" " * (5 * 2**20), **CONTENTS}), "missing or too large"),
        (archive({META: META_TEXT}), "other files than"),
        (archive({META: META_TEXT, **CONTENTS, "report.json": b"{}"}), "other files than"),
        (archive({META: META_TEXT, **CONTENTS, "../../up": b""}), "other files than"),
        (archive({META: META_TEXT, **CONTENTS, "folder/": b""}), "other files than"),
        (archive({META: META_TEXT, **CONTENTS, "kernel.so": b"x" * 400}), "is not what was compiled"),
        (archive({META: META_TEXT, **CONTENTS, "kernel.so": b"x"}), "another size"),
        (archive({META: META_TEXT, **CONTENTS, "kernel.so": bytes(2**22)}), "another size"),
        (archive({META: META_TEXT, **CONTENTS}, compression=ZIP_BZIP2), "compressed in another way"),
        (archive({META: META_TEXT.replace(b"gfx942", b"gfx950"), **CONTENTS}), "damaged"),
        (with_meta(lambda meta: meta.update(key="ef" + "0" * 62)), "another entry"),
        (with_meta(lambda meta: meta.update(headers=KEY)), "another entry"),
        (with_meta(lambda meta: meta.update(format=99)), "damaged"),
        (with_meta(lambda meta: meta["products"].update(object="kernel.o")), "other files than an entry has"),
        (with_meta(lambda meta: meta["products"].clear()), "other files than an entry has"),
        (renamed("../../../kernel.so"), "something else than an entry has"),
        (renamed("/tmp/kernel.so"), "something else than an entry has"),
        (renamed(".hidden"), "something else than an entry has"),
        (renamed("kernel.so\n"), "something else than an entry has"),
        (renamed("x" * 200), "something else than an entry has"),
        (renamed("log.txt"), "other files than an entry has"),
        (set_in("record", "source", "../kernel.hip"), "other files than an entry has"),
        (set_in("record", "ok", "yes"), "something else than an entry has"),
        (set_in("record", "symbol", ["k_1"]), "something else than an entry has"),
        (set_in("record", "exports", [1]), "something else than an entry has"),
        (set_in("record", "more", 1), "damaged"),
        (set_in("products", "shared-object", 7), "something else than an entry has"),
        (with_meta(lambda meta: meta["record"]["commands"][0].update(exit_status="0")), "something else than an entry has"),
        (with_meta(lambda meta: meta["record"]["commands"][0].update(duration_s=float("nan"))), "something else"),
        (with_meta(lambda meta: meta["files"]["kernel.so"].update(size_bytes=2**40)), "too large"),
        (with_meta(lambda meta: meta["files"]["kernel.so"].update(size_bytes=-1)), "something else than an entry has"),
        (with_meta(lambda meta: meta["files"]["kernel.so"].update(size_bytes=True)), "something else than an entry has"),
    ],
)  # fmt: skip
def test_what_is_refused(packed: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack(packed, KEY, SET)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name() -> None:
    packed = archive({META: META_TEXT, **CONTENTS}, ("kernel.so", b"other"))
    with pytest.raises(ValueError, match="two files have one name"):
        unpack(packed, KEY, SET)


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_damaged_byte_is_found_or_matters_not(at: int, change: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= change
    try:
        found = unpack(bytes(damaged), KEY, SET)
    except ValueError:
        return
    assert (found.artifact, found.contents) == (artifact(), CONTENTS)


HEADERS = HeaderSet({"<ck>/a.hpp": "0" * 64}, ("<ck>/b.hpp",))


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (HEADERS.to_json(), KEY, "another header set"),
        (HEADERS.to_json()[:-1], HEADERS.key, "delimiter"),
        (b"[]", KEY, "not a header set"),
        (b'{"present": {}}', KEY, "not a header set"),
        (b'{"present": {"a": 1}, "absent": []}', KEY, "not a header set"),
        (b'{"present": {}, "absent": [1]}', KEY, "not a header set"),
        (b'{"present": {"a\\u0000b": "0"}, "absent": []}', KEY, "not a header set"),
        (b"[" * 100_000, KEY, "not a header set"),
    ],
)
def test_header_sets_that_are_refused(content: bytes, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        header_set_from(content, name)


def test_a_header_set_of_its_name() -> None:
    assert header_set_from(HEADERS.to_json(), HEADERS.key) == HEADERS
