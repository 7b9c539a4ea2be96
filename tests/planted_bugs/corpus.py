"""The planted bugs and their correct twins: small edits of shipped templates and of CK's headers, from `bugs.toml` and
`twins.toml`.

    [[bug]]
    kind = "missing barrier"
    name = "after the tiles are stored"
    unit = "hip/gemm_bf16_bias_silu/64x64x32@gfx942"     example/kernel/instance@arch; this one unless it is named
    file = "hip/gemm_tiled.hip.j2"                       this one unless it is named; a header as it is included: ck/…;
                                                         a template of an example: examples/…
    edits = [["old text", "new text"]]                   each old text is there exactly once
    finds = ["lds-race"]                                 kinds of findings that it may be called
    shown = ["x_tile[k]"]                                text of the lines at which it, or its other side, may stand
    twin = "…"                                           the name of its correct twin; the unchanged unit unless named

Bugs of `bugs.toml` and `examples.toml` are wrong; the units of the latter are right as they are, on each of `ARCHS`, and
everything in `twins.toml` (no `finds`, no `shown`) is right.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ckwatch_templates

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
HIP_UNIT = "hip/gemm_bf16_bias_silu/64x64x32@gfx942"
HIP_TEMPLATE = "hip/gemm_tiled.hip.j2"

KINDS = (
    "missing barrier",
    "missing wait",
    "missing wait on a path",
    "guard off by one",
    "wrong stride",
    "LDS overlap",
    "wrong K tail",
    "uninitialised",
    "prefetch beyond the end",
    "32-bit offset",
    "wrong index",
    "missing mask",
    "unwritten tail",
    "wrong scale",
    "race",
)

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """An edit of a file that a unit is made of; without `edits` the unit as it is shipped."""

    name: str
    kind: str = ""
    unit: str = HIP_UNIT
    file: str = HIP_TEMPLATE
    edits: tuple[tuple[str, str], ...] = ()
    finds: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    twin: str = ""
    quick: bool = False
    """Runs in `make test`."""

    @property
    def is_header(self) -> bool:
        return self.file.startswith("ck/") and not self.file.endswith(".j2")

    @property
    def template(self) -> Path:
        return (ROOT if self.file.startswith("examples/") else ckwatch_templates.ROOT) / self.file

    def edited(self, text: str) -> str:
        """Raises ValueError where an old text is not there exactly once."""
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {text.count(old)} times in {self.file}: {old!r}")
            text = text.replace(old, new)
        return text

    def __str__(self) -> str:
        return f"{self.kind or 'right'}: {self.name}"


def bugs() -> list[Variant]:
    """All bugs, by kind."""
    return sorted((*_read("bugs.toml", "bug"), *_of_examples()), key=lambda bug: KINDS.index(bug.kind))


def twins() -> list[Variant]:
    """All correct variants."""
    units = dict.fromkeys(bug.unit.partition("@")[0] for bug in _of_examples())
    shipped = [Variant(name=f"{unit}@{arch}", unit=f"{unit}@{arch}") for unit in units for arch in ARCHS]
    return [*_read("twins.toml", "twin"), *shipped]


def _of_examples() -> list[Variant]:
    return _read("examples.toml", "bug")


def _read(name: str, table: str) -> list[Variant]:
    entries = tomllib.loads((FOLDER / name).read_text("utf-8"))[table]
    return [Variant(**{key: _frozen(value) for key, value in entry.items()}) for entry in entries]


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
