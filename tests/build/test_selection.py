"""Which units a word means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.build.selection import Words, only_unit, resolved, select, sort_words, units_of, with_native_arch
from ckwatch.errors import CkwatchError
from ckwatch.model.kernel import Instance, Kernel
from units import place, unit


def kernel(name: str, *instances: str, archs: tuple[str, ...] = ("gfx942",), path: str = "/ws/k.kernel.toml") -> Kernel:
    made = tuple(Instance(instance, {}, place(), {}) for instance in instances)
    return replace(unit("k.hip.j2").kernel, name=name, instances=made, archs=archs, path=path)


KERNELS = [
    kernel("gemm", "v1", "v3_a", "v3_b", archs=("gfx942", "gfx950"), path="/ws/a/gemm.kernel.toml"),
    kernel("host_gemm", "one", archs=("host",), path="/ws/b/host.kernel.toml"),
]
ROWS = [
    ([], [], ["gemm/v1@gfx942", "gemm/v1@gfx950", "gemm/v3_a@gfx942", "gemm/v3_a@gfx950", "gemm/v3_b@gfx942",
              "gemm/v3_b@gfx950", "host_gemm/one@host"]),
    (["gemm/v1"], [], ["gemm/v1@gfx942", "gemm/v1@gfx950"]),
    (["gemm/v3_*"], ["gfx90a"], ["gemm/v3_a@gfx90a", "gemm/v3_b@gfx90a"]),
    (["host_gemm"], ["gfx90a"], ["host_gemm/one@host"]),
    (["gemm/v1@gfx950", "host_gemm"], [], ["gemm/v1@gfx950", "host_gemm/one@host"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "archs", "expected"), ROWS)
def test_patterns(words: list[str], archs: list[str], expected: list[str]) -> None:
    chosen = select(KERNELS, Words((), tuple(words)), archs)
    assert [one.id for one in chosen] == expected


def test_folders() -> None:
    assert [one.id for one in select(KERNELS, Words((Path("/ws/b"),), ()))] == ["host_gemm/one@host"]


def test_words_that_are_paths(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "x.kernel.toml").touch()
    words = sort_words(["a b", "x.kernel.toml", "gemm*"], tmp_path)
    assert words.folders == ((tmp_path / "a b").resolve(), (tmp_path / "x.kernel.toml").resolve())
    assert words.patterns == ("gemm*",)


@pytest.mark.parametrize(
    ("word", "hint"), [("gem", "did you mean 'gemm'?"), ("zzz", "kernels of this workspace: gemm, host_gemm")]
)
def test_a_word_without_units(word: str, hint: str) -> None:
    with pytest.raises(CkwatchError) as refused:
        select(KERNELS, Words((), (word,)))
    assert refused.value.hint == hint


def test_one_unit_means_one(tmp_path: Path) -> None:
    assert only_unit(KERNELS, "gemm/v1@gfx942", tmp_path).id == "gemm/v1@gfx942"
    with pytest.raises(CkwatchError, match="means 6 units"):
        only_unit(KERNELS, "gemm", tmp_path)


def test_native_is_this_machine() -> None:
    native = kernel("n", "one", archs=("native", "gfx942"))
    (found,) = with_native_arch([native], [], "gfx942")
    assert [one.arch for one in units_of(found)] == ["gfx942"]
    assert resolved(["native", "gfx90a"], "gfx1100") == ("gfx1100", "gfx90a")
    with pytest.raises(CkwatchError, match="there is none"):
        with_native_arch([native], [], None)
    assert with_native_arch([native], ["gfx90a"], None) == [native]
