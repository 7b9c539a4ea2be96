"""When a compile that still runs is reported as slow, and what is said of it."""

from __future__ import annotations

import pytest

from ckwatch.compile.flags import HIP_FLAGS
from ckwatch.compile.slow_compile import FAR_LONGER, SHORTEST_S, SLOW_COMPILE, USUAL_S, SlowCompile, processor_wait
from ckwatch.model.compiler_flags import ENDLESS_ADVICE
from ckwatch.model.text import span
from fakes.fake_compiler import request_with

PLACE = span("/ws/a.kernel.toml", 3, 0, 3, 5)
ENDLESS = ("-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false")


@pytest.mark.parametrize(
    ("usual_s", "first_s"), [(0.0, FAR_LONGER * USUAL_S), (40.0, FAR_LONGER * 40), (5.0, SHORTEST_S)]
)
def test_it_is_reported_once_and_again_after_each_doubling(usual_s: float, first_s: float) -> None:
    slow = SlowCompile(request_with(), PLACE, usual_s)
    assert slow.take("device pass", first_s - 1) is None
    assert slow.take("host pass", first_s - 2) is None
    found = slow.take("device pass", first_s)
    assert found is not None
    assert (found.code, found.span) == (SLOW_COMPILE, PLACE)
    for used_s in (first_s + 1, first_s * 2 - 1):
        assert slow.take("device pass", used_s) is None
    later = slow.take("device pass", first_s * 9)
    assert later is not None
    assert later.message != found.message
    assert slow.take("device pass", first_s * 15) is None


@pytest.mark.parametrize(
    ("usual_s", "flags", "expected"),
    [
        (
            40.0,
            ("-g",),
            f"2 min of the processor and goes on; compiles of gemm take 40 s at most (flags: {' '.join(HIP_FLAGS)} -g)",
        ),
        (
            0.0,
            ENDLESS,
            f"1 min 30 s of the processor and goes on; compiles usually take less than 30 s; {ENDLESS_ADVICE} (flags: {' '.join((*HIP_FLAGS, *ENDLESS))})",
        ),
    ],
)
def test_what_is_said(usual_s: float, flags: tuple[str, ...], expected: str) -> None:
    slow = SlowCompile(request_with(flags=flags, kernel="gemm"), PLACE, usual_s)
    found = slow.take("the device pass", 120)
    assert found is not None
    assert found.message == f"the device pass has used {expected}"


@pytest.mark.parametrize(
    ("used_s", "passed_s", "waits"),
    [(0.0, 9.9, False), (4.9, 10.0, True), (5.0, 10.0, False), (20.0, 60.0, True), (90.0, 60.0, False)],
)
def test_a_stage_without_its_share_of_the_processor_waits_for_it(used_s: float, passed_s: float, waits: bool) -> None:
    assert bool(processor_wait(used_s, passed_s)) is waits
