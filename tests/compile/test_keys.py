"""Keys of compiles count everything that makes a difference, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ckwatch.compile.keys import flags_depend_on_places, request_key
from ckwatch.compile.store.header_sets import HeaderSet, PathRoots
from ckwatch.model.targets import Language
from fakes.fake_compiler import REQUEST, FakeToolchain


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("-g", True), ("-ggdb3", True), ("-gline-tables-only", True), ("-g0", False), ("-O3", False), ("-G", False)],
)
def test_flags_that_make_places_count(flag: str, expected: bool) -> None:
    assert flags_depend_on_places(["-O3", flag]) is expected


def test_key_counts_each_part() -> None:
    compiler = FakeToolchain(Path("hipcc"), Path("clang++"))
    request = replace(REQUEST, flags=("-O3", "-DA"), include_folders=(Path("/a"), Path("/b")))

    def key(more: str = "x", products: tuple[str, ...] = ("x", "y"), toolchain: str = "c", **changes: Any) -> str:
        named = replace(compiler, identity=toolchain)
        return request_key(replace(request, **changes), named, PathRoots({}), more=[more], products=products)

    keys = [
        key(),
        key(source="int u;"),
        key(language=Language.CPP),
        key(flags=("-DA", "-O3")),
        key(arch="gfx90a"),
        key(toolchain="d"),
        key(include_folders=(Path("/b"), Path("/a"))),
        key(products=("x",)),
        key(more="y"),
    ]
    assert len(set(keys)) == len(keys)
    assert key(products=("y", "x")) == key()


def test_key_of_a_header_set() -> None:
    first = HeaderSet({"a": "1", "b": "2"}, ("c",)).key
    assert first == HeaderSet({"b": "2", "a": "1"}, ("c", "c")).key
    others = HeaderSet({"a": "1", "b": "3"}, ("c",)).key, HeaderSet({"a": "1", "b": "2"}).key
    assert len({first, *others}) == 3
