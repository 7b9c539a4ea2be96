"""Random programs of two seeds; `make random-programs` has as many as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.discover import discover
from random_programs.compiler_mistakes import mistaken
from random_programs.execution import Programs, reduced
from random_programs.programs import Generator, Kernel


@pytest.fixture(scope="module")
def programs(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    made = Programs(discover(), library, tmp_path_factory.mktemp("programs"))
    yield made
    made.close()


@pytest.mark.toolchain
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "arch", "level"),
    [
        (1, "gfx942", "-O2"),
        (1, "gfx1100", "-O3"),
        (2, "gfx950", "-O0"),
        (2, "gfx90a", "-O3"),
        (3, "gfx1100/64", "-O2"),
    ],
)
def test_the_emulator_computes_what_the_host_does(programs: Programs, seed: int, arch: str, level: str) -> None:
    assert programs.differences(Generator(seed).kernels(10), seed, [arch], [level]) == []


@pytest.mark.toolchain
@pytest.mark.timeout(600)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_documented_mistakes_of_the_compiler_come_from_its_optimizations(programs: Programs, arch: str) -> None:
    kernels = mistaken(arch)
    shown = [(one.kernel, one.level) for one in programs.differences(kernels, 1, [arch], ["-O0", "-O2"])]
    assert shown == [(one.name, "-O2") for one in kernels]


def test_a_seed_has_the_same_kernels_always() -> None:
    texts = [[kernel.text() for kernel in Generator(seed).kernels(3)] for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_a_difference_is_made_small() -> None:
    """One statement differs; all others are left out."""
    (kernel,) = Generator(3).kernels(1)
    guilty = next(one for one in kernel.statements() if one.plain)

    def differs(tried: Kernel) -> bool:
        return guilty.head in tried.text()

    small = reduced(kernel, differs)
    assert guilty.head in small.text()
    kept = [one for one in kernel.statements() if one.head in small.text()]
    assert len(kept) < 6 < len(kernel.statements())
