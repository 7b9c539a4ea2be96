"""Workspaces for tests: small valid files, and texts in which `«` and `»` mark the place of a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.text import LineIndex, Position, Span
from ckwatch.workspace.loading import Workspace, load_workspace
from ckwatch.workspace.toml import toml_value

TEMPLATE = "{{ MPerBlock }} {{ NPerBlock }} {{ BlkGemmPipelineVer }} {{ Lengths }} {{ Fast }}\n"

TOP = 'template = "t.hip.j2"\n'


def operation(dtype: str = "f16", layouts: Sequence[str] = ("row", "col", "row")) -> str:
    """`[operation]` of a GEMM whose operands all have one type."""
    operands = zip("abc", layouts, strict=True)
    lines = (f'{name} = {{ dtype = "{dtype}", layout = "{layout}" }}\n' for name, layout in operands)
    return '\n[operation]\nkind = "gemm"\n' + "".join(lines)


Tables = Mapping[str, Mapping[str, ParameterValue]]


def gemm_kernel(
    template: str,
    instances: Tables,
    *,
    dtype: str = "f16",
    layouts: Sequence[str] = ("row", "col", "row"),
    shapes: Tables | None = None,
) -> str:
    """A kernel file, a blank line between its tables. `instances` and `shapes` are keys and values by name."""
    text = f"template = {toml_value(template)}\n" + operation(dtype, layouts)
    for table, rows in (("shape", shapes or {}), ("instance", instances)):
        for name, values in rows.items():
            keys = {"name": name, **values}
            text += f"\n[[{table}]]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())
    return text


OPERATION = operation()

INSTANCE = """
[[instance]]
name = "first"
MPerBlock = 128
"""

KERNEL = gemm_kernel("t.hip.j2", {"first": {"MPerBlock": 128}})


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
