"""Fetches a source distribution from the index that pip is configured with, as a file with a known hash.

`pip download` would run its build.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import requests
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    NoSuchProjectError,
    ProgressTracker,
    PyPISimple,
    UnsupportedContentTypeError,
)

from ckwatch.compile.toolchain.composable_kernel import CkRelease
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.processes import ProcessStartError, run_blocking
from ckwatch.system.python_process import module_command, module_environment
from ckwatch.system.user_files import digest_file


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """pip's package index, and how the server is trusted."""

    urls: tuple[str, ...]
    certificate: str | None
    timeout_s: float


def pip_index(run_pip: Callable[[], str] | None = None) -> IndexSettings:
    """The package index that pip is configured with (files and environment), else the library's default."""
    values = _parse_pip_config((run_pip or _pip_config)())
    for key in (
        "index-url",
        "extra-index-url",
        "no-index",
        "cert",
        "timeout",
    ):  # what pip itself would read, if pip is not there
        variable = os.environ.get("PIP_" + key.upper().replace("-", "_"))
        if variable:
            values[key] = variable
    urls = (values.get("index-url") or PYPI_SIMPLE_ENDPOINT).split() + values.get("extra-index-url", "").split()
    if values.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        urls = []
    return IndexSettings(
        tuple(url for url in urls if urlsplit(url).scheme in ("http", "https")),
        values.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or None,
        float(values.get("timeout") or 60),
    )


def fetch(
    wanted: CkRelease,
    target: Path,
    settings: IndexSettings,
    *,
    checkpoint: Callable[[int], None] = lambda _: None,
) -> None:
    """Put the source distribution at `target`, its hash checked; nothing is fetched when it is there already.

    `checkpoint` gets the number of bytes that have arrived. Raises `ToolchainError` when no index has the file, when
    the network fails, and when the hash differs.
    """
    if is_intact(target, wanted.sha256):
        return
    problems = (
        [] if settings.urls else ["pip is configured with no index to ask over the network (`no-index`, `file:`)"]
    )
    for url in settings.urls:
        try:
            _fetch_from(url, wanted, target, settings, checkpoint)
        except NoSuchProjectError:
            problems.append(f"{_shown(url)} does not have {wanted.project}")
        except (requests.RequestException, UnsupportedContentTypeError) as error:
            problems.append(f"{_shown(url)}: {_reason(error)}")
        else:
            if is_intact(target, wanted.sha256):
                return
            target.unlink(missing_ok=True)
            problems.append(f"{_shown(url)} delivered a file whose SHA-256 is not the pinned one")
    raise ToolchainError(
        f"cannot fetch {wanted.file_name}, which holds Composable Kernel\n"
        + "\n".join(f"  {line}" for line in problems),
        "Check the network and the index that pip is configured with (`pip config list`, PIP_INDEX_URL), "
        f"or put that file (SHA-256 {wanted.sha256}) at {target}; then run it again: what is already here is kept.",
    )


def is_intact(path: Path, sha256: str) -> bool:
    """Return True if the file is there and has that hash."""
    return path.is_file() and digest_file(path) == sha256


def _fetch_from(
    url: str, wanted: CkRelease, target: Path, settings: IndexSettings, checkpoint: Callable[[int], None]
) -> None:
    session = requests.Session()
    if settings.certificate:
        session.verify = settings.certificate
    with PyPISimple(url, session=session) as index:
        page = index.get_project_page(wanted.project, timeout=settings.timeout_s)
        package = next((package for package in page.packages if package.filename == wanted.file_name), None)
        if package is None:
            raise NoSuchProjectError(f"{wanted.project} {wanted.version}", url)
        # The pinned hash is checked by the caller, whatever the index says that it is.
        progress = _tracker(checkpoint)
        index.download_package(package, target, verify=False, timeout=settings.timeout_s, progress=progress)


def _tracker(checkpoint: Callable[[int], None]) -> Callable[[int | None], ProgressTracker]:
    class Tracker:
        def __enter__(self) -> Self:
            self.done = 0
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, increment: int) -> None:
            self.done += increment
            checkpoint(self.done)

    return lambda _size: Tracker()


def _pip_config() -> str:
    """Empty when pip does not answer."""
    command = module_command("pip", "config", "list")
    try:
        done = run_blocking(command, environment=module_environment(), timeout_s=30)
    except (ProcessStartError, TimeoutError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _parse_pip_config(text: str) -> dict[str, str]:
    """Lines like `global.index-url='…'`; a later section (environment) wins, as it does for pip."""
    rank = {"global": 0, "download": 1, "install": 1, ":env:": 2}
    found: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        section, _, name = key.strip().rpartition(".")
        if separator and section in rank:
            found.append((rank[section], name.replace("_", "-"), _unquote(value.strip())))
    return {name: value for _, name, value in sorted(found, key=lambda entry: entry[0])}


def _unquote(text: str) -> str:
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1].replace("\\n", "\n").replace("\\'", "'")
    try:
        return str(json.loads(text))
    except ValueError:
        return text


def _shown(url: str) -> str:
    """The index without the password it may contain."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "the server's certificate is not trusted"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached"
    return str(error)
