"""`cpp/gemm_blocked.cpp.j2`, compiled by the host's compiler and run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from cases.gemm_case import GemmCase, GemmRun, Size
from cases.gemm_rows import BLOCKED_SMALL, CASES, REFUSAL_CASE, REFUSED, check_refusal, sizes
from ckwatch.bench.numerics.storage import narrow
from helpers.gemm_build import Build

TEMPLATE = "cpp/gemm_blocked.cpp.j2"

ODD = {"MPerBlock": 9, "NPerBlock": 10, "KPerBlock": 7, "MPerThread": 3, "NPerThread": 5, "Threads": 3}

INSTANCES: dict[str, Mapping[str, int]] = dict.fromkeys(CASES, BLOCKED_SMALL)
INSTANCES |= {"bf16 bias relu": ODD, "f32 alpha beta": ODD, "f64": ODD}


# The epilogues are those of the HIP template, which runs every case.
OWN = (
    "f16",
    "f16 col row row",
    "bf16 bias relu",
    "f32 alpha beta",
    "f8 row scales",
    "one buffer",
    "i8",
    "f64",
    "reordered",
)


@pytest.mark.parametrize("name", OWN)
def test_results(name: str, build: Build) -> None:
    case = CASES[name]
    library = build(case.unit(TEMPLATE, INSTANCES[name]), case)
    for seed, size in enumerate(sizes(name)):
        library.check(GemmRun(case, size, seed))


@pytest.mark.parametrize("name", ["f16", "bf16 bias relu", "f32 alpha beta", "f8 row scales", "f64"])
def test_nan_stays_nan(name: str, build: Build) -> None:
    """Without fast math, which is for HIP templates alone."""
    case = CASES[name]
    library = build(case.unit(TEMPLATE, INSTANCES[name]), case)
    run = GemmRun(case, Size(20, 24, 30))
    run.buffers["X"][...] = narrow(np.array([np.nan]), case.a, case.fnuz)
    assert library.call(run, None, None) == 0
    assert np.isnan(run.y()).all()


def test_the_number_of_threads_changes_no_bit(build: Build) -> None:
    case = GemmCase(bias="row")
    outputs = []
    for threads in (1, 2, 5):
        library = build(case.unit(TEMPLATE, BLOCKED_SMALL | {"Threads": threads}), case)
        run = GemmRun(case, Size(100, 90, 300, kBatch=3))
        library.check(run)
        outputs.append(run.y_buffer.tobytes())
    assert len(set(outputs)) == 1


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str, build: Build, capfd: pytest.CaptureFixture[str]) -> None:
    check_refusal(build(REFUSAL_CASE.unit(TEMPLATE, BLOCKED_SMALL), REFUSAL_CASE), what, capfd)
