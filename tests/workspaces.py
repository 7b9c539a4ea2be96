"""Workspaces for tests: small valid files, and texts in which `«` and `»` mark the place of a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ckwatch.model.text import LineIndex, Position, Span
from ckwatch.workspace.loading import Workspace, load_workspace

TEMPLATE = "{{ MPerBlock }} {{ NPerBlock }} {{ BlkGemmPipelineVer }} {{ Lengths }} {{ Fast }}\n"

OPERATION = """
[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }
"""

TOP = 'template = "t.hip.j2"\n'

INSTANCE = """
[[instance]]
name = "first"
MPerBlock = 128
"""

KERNEL = TOP + OPERATION + INSTANCE


def unmarked(text: str, path: str) -> tuple[str, Span | None]:
    """The text without its marks, and the span between them."""
    if "«" not in text:
        return text, None
    start, end = text.index("«"), text.index("»") - 1
    plain = text.replace("«", "").replace("»", "")
    lines = LineIndex(plain)
    return plain, Span(path, lines.position(start), lines.position(end))


def workspace(root: Path, files: Mapping[str, str | bytes], overlays: Mapping[str, str] | None = None) -> Workspace:
    """Write `files` (with an empty ckwatch.toml and the template `t.hip.j2` unless given) and load them."""
    for name, content in ({"ckwatch.toml": "", "templates/t.hip.j2": TEMPLATE} | dict(files)).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_workspace(root, overlays=overlays)


def whole_file(path: str) -> Span:
    """The empty span at the start of a file."""
    return Span(path, Position(0, 0), Position(0, 0))
