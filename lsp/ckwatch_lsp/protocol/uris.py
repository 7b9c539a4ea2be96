"""URIs of files, and of virtual documents: `ckwatch://source/KERNEL/INSTANCE@ARCH.hip?folder=…`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ckwatch.model.lazy_dataclass import dataclass

SCHEME = "ckwatch"

VirtualView = Literal["source", "isa", "profile", "code"]


@dataclass(frozen=True, slots=True)
class VirtualUri:
    """The rendered source, the ISA or the profile of a unit of the workspace at `folder`; or the figures and the ISA
    (`code`) of the file in `folder` whose name is in place of the unit's."""

    view: VirtualView
    unit: str
    folder: Path

    @property
    def file_name(self) -> str:
        """`KERNEL/INSTANCE@ARCH.hip`, by which editors recognise the language."""
        arch = self.unit.rpartition("@")[2]
        source = ".hip" if arch.startswith("gfx") else ".cu" if arch.startswith("sm_") else ".cpp"
        return self.unit + {"source": source, "isa": ".s", "profile": ".txt", "code": ".s"}[self.view]

    @property
    def uri(self) -> str:
        """As editors are given it."""
        path, folder = quote(self.file_name, safe="/@"), quote(os.fsencode(self.folder), safe="/")
        return f"{SCHEME}://{self.view}/{path}?folder={folder}"


def parse_virtual_uri(uri: str) -> VirtualUri | None:
    """Parse `uri`, also if an editor has escaped it otherwise; None if it is no such URI."""
    if not uri.startswith(f"{SCHEME}:"):
        return None
    try:
        parts = urlsplit(uri)
        query = parts.query or unquote(parts.path).partition("?")[2]
        query = query if "=" in query else unquote(query)
        folders = parse_qs(query, errors="surrogateescape").get("folder", [])
    except ValueError:
        return None
    view = next((each for each in get_args(VirtualView) if each == parts.netloc), None)
    unit, dot, _ = unquote(parts.path.partition("?")[0]).partition("?")[0].strip("/").rpartition(".")
    if view is None or not dot or len(folders) != 1 or not folders[0].startswith("/"):
        return None
    return VirtualUri(view, unit, Path(folders[0]))


def path_of(uri: str) -> str | None:
    """The absolute path that a `file:` URI names; None for any other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path, errors="surrogateescape")
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    return os.path.normpath(path)


def uri_of(path: str | os.PathLike[str]) -> str:
    """The `file:` URI of an absolute path, escaped as editors do."""
    return "file://" + quote(os.fsencode(path), safe="/-._~!$&'()*+,;=")
