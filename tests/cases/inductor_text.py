"""The template strings of PyTorch Inductor's ROCm backend, fetched out of torch's wheel without the rest of it."""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import requests
from pypi_simple import NoSuchProjectError, PyPISimple

from ckwatch.compile.toolchain.package_index import IndexSettings, pip_index

TORCH_VERSION = "2.15.0"
FOLDER = "torch/_inductor/codegen/rocm/"
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class InductorText:
    """`gemm` is for universal and batched GEMMs. `tile_definition` and `tile_launch` are parts of what CK Tile's gets.

    `files` are the Python files that they stand in, by name.
    """

    gemm: str
    convolution: str
    tile_gemm: str
    tile_launch: str
    tile_definition: str
    files: Mapping[str, str]


class RemoteFile(io.RawIOBase):
    """A file of which the server sends ranges."""

    def __init__(self, url: str, session: requests.Session, timeout_s: float) -> None:
        super().__init__()
        self._url, self._session, self._timeout_s = url, session, timeout_s
        head = session.head(url, allow_redirects=True, timeout=timeout_s)
        head.raise_for_status()
        self._size = int(head.headers["Content-Length"])
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        if self._at >= end:
            return b""
        ranged = {"Range": f"bytes={self._at}-{end - 1}"}
        answer = self._session.get(self._url, headers=ranged, timeout=self._timeout_s)
        if answer.status_code != requests.codes.partial_content:
            raise requests.HTTPError(f"the index sends no ranges: {answer.status_code}")
        self._at += len(answer.content)
        return answer.content

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what a BufferedReader hands over
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def fetch_inductor_text() -> InductorText:
    """The strings; the test is skipped where no index has the wheel."""
    settings = pip_index()
    for url in settings.urls:
        try:
            return _fetch(url, settings)
        except (NoSuchProjectError, requests.RequestException, StopIteration):
            continue
    pytest.skip(f"no index has torch {TORCH_VERSION}")


def _fetch(url: str, settings: IndexSettings) -> InductorText:
    session = requests.Session()
    session.verify = settings.certificate or True
    with PyPISimple(url, session=session) as index:
        packages = index.get_project_page("torch", timeout=settings.timeout_s).packages
        wheel = next(one for one in packages if one.version == TORCH_VERSION and one.filename.endswith("x86_64.whl"))
        remote = io.BufferedReader(RemoteFile(wheel.url, session, settings.timeout_s), BLOCK_BYTES)  # type: ignore[type-var]  # it is a raw stream
        with zipfile.ZipFile(remote) as archive:
            names = ("ck_universal_gemm_template.py", "ck_conv_template.py", "ck_tile_universal_gemm_template.py")
            files = {name: archive.read(f"{FOLDER}{name}").decode() for name in names}
    gemm, convolution, tile = map(ast.parse, files.values())
    return InductorText(
        _string(gemm, "gemm_template"),
        _string(convolution, "conv_template"),
        _string(tile, "gemm_template"),
        _string(tile, "gemm_kernel_launch"),
        _string(tile, "template_definition"),
        files,
    )


def _string(module: ast.Module, name: str) -> str:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            assert isinstance(node.value, ast.Constant)
            return str(node.value.value)
    raise AssertionError(f"{name} is gone")
