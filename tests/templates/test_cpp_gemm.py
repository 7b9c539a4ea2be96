"""`cpp/gemm_blocked.cpp.j2`, compiled by the host's compiler and run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.templates.conftest import Build
from tests.templates.gemm_case import GemmCase, GemmRun, Size
from tests.templates.gemm_rows import CASES, sizes

TEMPLATE = "cpp/gemm_blocked.cpp.j2"

SMALL = {"MPerBlock": 24, "NPerBlock": 32, "KPerBlock": 32, "MPerThread": 6, "NPerThread": 16, "Threads": 0}
ODD = {"MPerBlock": 9, "NPerBlock": 10, "KPerBlock": 7, "MPerThread": 3, "NPerThread": 5, "Threads": 3}

INSTANCES: dict[str, Mapping[str, int]] = {name: SMALL for name in CASES}
INSTANCES |= {"bf16 bias relu": ODD, "f32 alpha beta": ODD, "f64": ODD}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str, build: Build) -> None:
    case = CASES[name]
    library = build(case.unit(TEMPLATE, INSTANCES[name]), case)
    for seed, size in enumerate(sizes(name)):
        library.check(GemmRun(case, size, seed))


def test_the_number_of_threads_changes_no_bit(build: Build) -> None:
    case = GemmCase(bias="row")
    outputs = []
    for threads in (1, 2, 5):
        library = build(case.unit(TEMPLATE, SMALL | {"Threads": threads}), case)
        run = GemmRun(case, Size(100, 90, 300, kBatch=3))
        library.check(run)
        outputs.append(run.y_buffer.tobytes())
    assert len(set(outputs)) == 1
