"""`hip/gemm_tiled.hip.j2`: its logic runs on the host through a stand-in for HIP (`hip_on_host`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import pytest

from cases.gemm_case import GemmCase, GemmRun, Size
from cases.gemm_rows import CASES, REFUSAL_CASE, REFUSED, TILED_SMALL, check_refusal, sizes
from ckwatch.render.renderer import Renderer
from fakes.host_compiler import HostCompiler
from helpers.gemm_build import Build, render

TEMPLATE = "hip/gemm_tiled.hip.j2"

WIDE = {"BlockSize": 32, "MPerBlock": 16, "NPerBlock": 64, "KPerBlock": 5, "MPerThread": 4, "NPerThread": 8}
ODD = {"BlockSize": 63, "MPerBlock": 27, "NPerBlock": 14, "KPerBlock": 3, "MPerThread": 3, "NPerThread": 2}
LARGE = {"BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 16, "MPerThread": 8, "NPerThread": 8}

INSTANCES: dict[str, Mapping[str, int]] = dict.fromkeys(CASES, TILED_SMALL)
INSTANCES |= {"f16": LARGE, "bf16 bias relu": WIDE, "f32 alpha beta": ODD, "f16 to f32": ODD}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str, build: Build) -> None:
    case = CASES[name]
    library = build(case.unit(TEMPLATE, INSTANCES[name]), case)
    for seed, size in enumerate(sizes(name)):
        library.check(GemmRun(case, size, seed))


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str, build: Build, capfd: pytest.CaptureFixture[str]) -> None:
    check_refusal(build(REFUSAL_CASE.unit(TEMPLATE, TILED_SMALL), REFUSAL_CASE), what, capfd)


def test_the_limits_of_a_launch(build: Build, capfd: pytest.CaptureFixture[str]) -> None:
    case = CASES["f16"]
    library = build(case.unit(TEMPLATE, INSTANCES["f16"]), case)
    run = GemmRun(case, Size(1, 1, 1))
    run.arguments |= {"M": 2**31 - 1, "N": 2**31 - 1, "LDC": 2**31 - 1}
    assert library.call(run, None, ctypes.c_size_t()) == -23
    assert "more threads than one launch has" in capfd.readouterr().err


@pytest.mark.parametrize(("kernel", "status"), [("gemm_tiled", 719), ("reduce_partials", 719)])
def test_a_launch_error_is_returned_and_named(
    kernel: str, status: int, build: Build, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["f16"]
    library = build(case.unit(TEMPLATE, INSTANCES["f16"]), case)
    workspace = (ctypes.c_uint8 * 8)()
    monkeypatch.setenv("HIP_ON_HOST_FAILING_KERNEL", kernel)
    assert library.call(GemmRun(case, Size(1, 1, 1, kBatch=2)), ctypes.addressof(workspace), None) == status
    assert f"launch of {kernel}: hipErrorLaunchFailure" in capfd.readouterr().err


RULES = {
    "BlockSize": (2048, "a block has at most 1024 threads"),
    "MPerThread": (3, "threads share the rows of a tile evenly"),
    "NPerThread": (3, "threads share the columns of a tile evenly"),
    "NPerBlock": (64, "one piece of the tile per thread"),
    "KPerBlock": (1024, "both tiles must fit into LDS"),
}


@pytest.mark.parametrize("parameter", RULES)
def test_a_bad_instance_does_not_compile(parameter: str, renderer: Renderer, host_compiler: HostCompiler) -> None:
    value, message = RULES[parameter]
    bad = GemmCase().unit(TEMPLATE, TILED_SMALL | {parameter: value})
    assert message in host_compiler.refusal(render(renderer, bad).text)
