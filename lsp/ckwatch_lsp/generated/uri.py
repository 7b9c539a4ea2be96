"""URIs of documents that are no files: `ckwatch://source/KERNEL/INSTANCE@ARCH.hip?folder=…`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qs, quote, unquote, urlsplit

SCHEME = "ckwatch"

View = Literal["source", "isa"]


@dataclass(frozen=True, slots=True)
class Generated:
    """The rendered source or the ISA of a unit of the workspace at `folder`."""

    view: View
    unit: str
    folder: Path

    @property
    def file_name(self) -> str:
        """`KERNEL/INSTANCE@ARCH.hip`, by which editors tell the language."""
        arch = self.unit.rpartition("@")[2]
        source = ".hip" if arch.startswith("gfx") else ".cu" if arch.startswith("sm_") else ".cpp"
        suffix = ".s" if self.view == "isa" else source
        return self.unit + suffix

    @property
    def uri(self) -> str:
        """As editors are given it."""
        path, folder = quote(self.file_name, safe="/@"), quote(os.fsencode(self.folder), safe="/")
        return f"{SCHEME}://{self.view}/{path}?folder={folder}"


def parse_generated(uri: str) -> Generated | None:
    """What `uri` names, also where an editor has escaped it otherwise; None if it is no such URI."""
    if not uri.startswith(f"{SCHEME}:"):
        return None
    try:
        parts = urlsplit(uri)
        query = parts.query or unquote(parts.path).partition("?")[2]
        query = query if "=" in query else unquote(query)
        folders = parse_qs(query, errors="surrogateescape").get("folder", [])
    except ValueError:
        return None
    view = next((each for each in get_args(View) if each == parts.netloc), None)
    unit, dot, _ = unquote(parts.path.partition("?")[0]).partition("?")[0].strip("/").rpartition(".")
    if view is None or not dot or len(folders) != 1 or not folders[0].startswith("/"):
        return None
    return Generated(view, unit, Path(folders[0]))
