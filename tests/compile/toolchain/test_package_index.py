"""Fetching a source distribution: from pip's index, with the pinned hash, against a server of our own."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from ckwatch.compile.toolchain import package_index
from ckwatch.compile.toolchain.composable_kernel import CkRelease
from ckwatch.compile.toolchain.package_index import IndexSettings, pip_index
from ckwatch.model.errors import ToolchainError

CONTENT = b"a source distribution" * 1000
WANTED = CkRelease("1.2.0", "a-b", "1", "ck", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
PAGE = f'<!DOCTYPE html><html><body><a href="/files/{WANTED.file_name}">{WANTED.file_name}</a></body></html>'

fetch = partial(package_index.fetch, WANTED)


class Index(BaseHTTPRequestHandler):
    files: dict[str, bytes] = {}  # noqa: RUF012 - set by the fixture

    def do_GET(self) -> None:
        body = self.files.get(self.path)
        self.send_response(404 if body is None else 200)
        kind = "text/html" if self.path.endswith("/") else "application/gzip"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "*")
    Index.files = {"/simple/a-b/": PAGE.encode(), f"/files/{WANTED.file_name}": CONTENT}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple/"
    server.shutdown()
    server.server_close()
    thread.join()


def settings(*urls: str) -> IndexSettings:
    return IndexSettings(urls, None, 5)


def test_the_file_is_fetched_once(index: str, tmp_path: Path) -> None:
    target, counts = tmp_path / "x.tar.gz", list[int]()
    fetch(target, settings(index), checkpoint=counts.append)
    assert target.read_bytes() == CONTENT
    assert counts[-1] == len(CONTENT)
    fetch(target, settings(), checkpoint=counts.append)  # no index is asked


def test_the_next_index_is_asked(index: str, tmp_path: Path) -> None:
    fetch(tmp_path / "x", settings("http://127.0.0.1:9/simple", index.replace("simple", "other"), index))
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_another_content_is_refused_and_thrown_away(index: str, tmp_path: Path) -> None:
    Index.files[f"/files/{WANTED.file_name}"] = b"other"
    with pytest.raises(ToolchainError, match="not the pinned one"):
        fetch(tmp_path / "x", settings(index))
    assert list(tmp_path.iterdir()) == []


def test_a_half_file_of_an_earlier_run_is_replaced(index: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT[:50])
    fetch(tmp_path / "x", settings(index))
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_every_problem_is_named_without_passwords(index: str, tmp_path: Path) -> None:
    secret = "http://user:secret@127.0.0.1:9/simple"
    Index.files["/simple/a-b/"] = b"<html></html>"
    with pytest.raises(ToolchainError) as caught:
        fetch(tmp_path / "x", settings(secret, index))
    assert "127.0.0.1:9/simple: cannot be reached" in caught.value.message
    assert f"{index} does not have a-b" in caught.value.message
    assert "secret" not in str(caught.value)
    hint = caught.value.hint or ""
    assert "PIP_INDEX_URL" in hint
    assert f"{WANTED.sha256}) at {tmp_path / 'x'}" in hint  # for a machine without a network


def test_without_an_index_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"a_b-1\.tar\.gz, which holds Composable Kernel\n.*no index to ask"):
        fetch(tmp_path / "x", settings())


@pytest.mark.parametrize(
    ("config", "urls", "certificate"),
    [
        ("", (PYPI_SIMPLE_ENDPOINT,), None),
        ("global.index-url='http://a/simple'\n", ("http://a/simple",), None),
        (":env:.index-url='http://b/'\nglobal.index-url='http://a/'\n", ("http://b/",), None),
        ("global.extra-index-url='file:///x http://c/'\n", (PYPI_SIMPLE_ENDPOINT, "http://c/"), None),
        ("global.extra-index-url='\\nhttp://c/\\nhttp://d/'\n", (PYPI_SIMPLE_ENDPOINT, "http://c/", "http://d/"), None),
        ("global.no-index='true'\nglobal.index-url='http://a/simple'\n", (), None),
        ("install.index-url='http://i/'\nglobal.cert='/c.pem'\nlist.format='json'\n", ("http://i/",), "/c.pem"),
    ],
)
def test_the_index_is_that_of_pip(
    monkeypatch: pytest.MonkeyPatch, config: str, urls: tuple[str, ...], certificate: str | None
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    found = pip_index(lambda: config)
    assert (found.urls, found.certificate) == (urls, certificate)


def test_without_pip_its_environment_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://e/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    assert pip_index(lambda: "").urls == ("http://e/simple",)
