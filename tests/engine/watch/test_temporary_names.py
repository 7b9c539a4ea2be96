"""Which names are an editor's own."""

from __future__ import annotations

from ckwatch.engine.watch.batch import TEMPORARY_NAMES, is_temporary
from helpers.each_row import each_row

TEMPORARY = [
    "gemm.hip.j2~",
    ".gemm.hip.j2.swp",
    ".gemm.hip.j2.swx",
    "4913",
    ".#gemm.hip.j2",
    "#gemm.hip.j2#",
    "gemm.hip.j2___jb_tmp___",
    "gemm.hip.j2___jb_old___",
    ".goutputstream-AB12C3",
    ".gemm.hip.j2.kate-swp",
    "gemm.hip.j2x3Fq1a.bck",
    ".gemm.hip.j2.kak.8uXk2a",
    ".subl4f2.tmp",
    ".~lock.notes.odt#",
    "sedAb3x9Z",
    ".nfs000000000123abcd00000001",
    ".gemm.hip.j2.part",
]


@each_row("name", TEMPORARY)
def test_temporary(name: str) -> None:
    assert is_temporary(name)


@each_row(
    "name",
    [
        "gemm.hip.j2",
        "gemm.kernel.toml",
        "ckwatch.toml",
        ".hidden.kernel.toml",
        "__macros.j2",
        "49130",
        "sediment.h",
        "sedAb3x9Z.h",
        "a#b.h",
        "~a",
        "swp",
        "x.swp",
        "ü.j2",
    ],
)
def test_not_temporary(name: str) -> None:
    assert not is_temporary(name)


def test_each_row_of_the_table_is_tried() -> None:
    import re

    for pattern in TEMPORARY_NAMES:
        assert any(re.fullmatch(pattern, name) for name in TEMPORARY), pattern
