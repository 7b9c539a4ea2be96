"""A CK Tile GEMM whose parameters are constants and aliases of the source, as PyTorch Inductor writes them.

    constexpr int32_t TileM = 256; … using GemmShape = ck_tile::TileGemmShape<ck_tile::sequence<TileM, …>, …>;

They have the names of `CkTileGemm`'s parameters. What is not there once, as a literal or a name, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckwatch.checks.rules.ck_tile_gemm import OPERATION
from ckwatch.checks.rules.rule import ParameterKind, TemplateParameter

_SHAPE = re.compile(r"\bTileGemmShape\s*<")
_WORDS = {
    "Pipeline": (re.compile(r"\bGemmPipelineAgBgCr(\w+)\s*<"), {}),
    "Scheduler": (re.compile(r"\bGemmPipelineScheduler\s*::\s*(\w+)"), {}),
    "Epilogue": (re.compile(r"\b(DefaultGemm2D|CShuffle)Epilogue\s*<"), {"DefaultGemm2D": "Default"}),
}
"""Words that name an enumerator of `CkTileGemm` in CK Tile, and the names that differ."""


def constant_arguments(blank: str) -> tuple[tuple[int, int], dict[str, str], dict[str, tuple[int, int]]] | None:
    """Return the place where a source without comments and strings makes a shape of tiles, and its arguments' texts and
    places by name."""
    shape = _SHAPE.search(blank)
    if shape is None:
        return None
    texts: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    for name, parameter in OPERATION.parameters.items():
        found = list(_definitions(blank, parameter))
        values = {blank[start:end] for start, end in found}
        if len(values) == 1:
            text = values.pop()
            scope = f"{parameter.enumeration}::" if parameter.enumeration else ""
            texts[name] = scope + (_WORDS[name][1].get(text, text) if scope else text)
            places[name] = found[0]
    return shape.span(), texts, places


def _definitions(blank: str, parameter: TemplateParameter) -> Iterator[tuple[int, int]]:
    if parameter.name in _WORDS:
        pattern = _WORDS[parameter.name][0]
    elif parameter.kind in (ParameterKind.INTEGER, ParameterKind.FLAG):
        pattern = re.compile(rf"\bconstexpr\s+[\w:]+\s+{parameter.name}\s*=\s*(\d+|true|false)\s*;")
    else:
        pattern = re.compile(rf"\busing\s+{parameter.name}\s*=\s*([\w:]+)\s*;")
    return (found.span(1) for found in pattern.finditer(blank))
