"""An entry to publish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import Artifact
from ckwatch.compile.store.header_sets import HeaderObserver, PathRoots
from helpers.stored_entries import KEY, RECORD, Publish


@pytest.fixture
def roots(tmp_path: Path) -> PathRoots:
    (tmp_path / "ck").mkdir()
    return PathRoots({"ck": tmp_path / "ck"})


@pytest.fixture
def header(tmp_path: Path, roots: PathRoots) -> Path:
    path = tmp_path / "ck" / "a b.hpp"
    path.write_text("int a;")
    return path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ArtifactStore]:
    with ArtifactStore(tmp_path / "the store", grace_s=0) as store:
        yield store


@pytest.fixture
def publish(store: ArtifactStore, header: Path, roots: PathRoots) -> Publish:
    def _publish(key: str = KEY, content: bytes = b"\x7fELF" * 100, into: ArtifactStore = store) -> Artifact:
        headers = HeaderObserver(into.contents, roots).observe((str(header),), (), (), begun_ns=2**62)
        assert headers is not None
        product = into.work_folder() / "kernel.so"
        product.write_bytes(content)
        return into.publish(
            key, headers, RECORD, source=b"int a;\r\n", log="a warning ü\n", products={"shared-object": product}
        )

    return _publish
