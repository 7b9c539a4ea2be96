"""Keys of compiles count everything that makes a difference, and nothing else."""

from __future__ import annotations

import pytest

from ckwatch.compile.keys import compile_key, flags_depend_on_places
from ckwatch.compile.store.header_sets import HeaderSet


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("-g", True), ("-ggdb3", True), ("-gline-tables-only", True), ("-g0", False), ("-O3", False), ("-G", False)],
)
def test_flags_that_make_places_count(flag: str, expected: bool) -> None:
    assert flags_depend_on_places(["-O3", flag]) is expected


def test_compile_key_counts_each_part() -> None:
    def key(
        tokens: str = "t",
        language: str = "hip",
        flags: tuple[str, ...] = ("-O3", "-DA"),
        arch: str = "gfx942",
        toolchain: str = "c",
        folders: tuple[str, ...] = ("a", "b"),
        products: tuple[str, ...] = ("x", "y"),
    ) -> str:
        return compile_key(
            tokens=tokens,
            language=language,
            flags=flags,
            arch=arch,
            toolchain=toolchain,
            include_folders=folders,
            products=products,
        )

    keys = [
        key(),
        key(tokens="u"),
        key(language="cpp"),
        key(flags=("-DA", "-O3")),
        key(arch="gfx90a"),
        key(toolchain="d"),
        key(folders=("b", "a")),
        key(products=("x",)),
    ]
    assert len(set(keys)) == len(keys)
    assert key(products=("y", "x")) == key()


def test_key_of_a_header_set() -> None:
    first = HeaderSet({"a": "1", "b": "2"}, ("c",)).key
    assert first == HeaderSet({"b": "2", "a": "1"}, ("c", "c")).key
    others = HeaderSet({"a": "1", "b": "3"}, ("c",)).key, HeaderSet({"a": "1", "b": "2"}).key
    assert len({first, *others}) == 3
