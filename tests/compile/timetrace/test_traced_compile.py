"""Time traces of the real clang on small sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.timetrace.summary import CompilerStage
from ckwatch.compile.timetrace.traced_compile import trace_compile
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.targets import Language

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(900)]

TEMPLATES = """\
namespace own {
template <int N> struct Deep : Deep<N - 1> { static constexpr int value = N; };
template <> struct Deep<0> {};
template <typename T> T chained(T x, int n) { return n > 0 ? chained(x * 2, n - 1) : x; }
}
"""
HIP = f"""\
#include <hip/hip_runtime.h>
{TEMPLATES}
__global__ void add(const float* a, float* b) {{
#ifdef __HIP_DEVICE_COMPILE__
    static_assert(own::Deep<500>::value == 500);
#endif
    b[threadIdx.x] += a[threadIdx.x];
}}
extern "C" int k_1(const float* a, float* b, hipStream_t stream) {{
    add<<<dim3(1), dim3(256), 0, stream>>>(a, b);
    return 0;
}}
"""
CPP = f'{TEMPLATES}extern "C" int k_1() {{ return own::chained(own::Deep<500>::value, 9); }}\n'


async def test_both_passes(toolchain: Toolchain, tmp_path: Path) -> None:
    work, target = tmp_path / "work ü", tmp_path / "a trace.json"
    work.mkdir()
    # The flags of a user must not make an error of what is said about flags for the other pass.
    request = CompileRequest(HIP, "k_1", Language.HIP, "gfx942", flags=("-Werror", "-Wall"))
    traced = await trace_compile(request, toolchain, folder=work, target=target)
    assert traced.failure is None
    device, host = traced.passes
    assert (device.name, host.name) == ("device pass (gfx942)", "host pass")
    for one in traced.passes:
        stages = one.summary.stages
        assert all(stages[stage] > 0 for stage in CompilerStage), one
        assert stages[CompilerStage.PARSING] > stages[CompilerStage.CODE_GENERATION]
        assert 0 < sum(one.summary.stages.values()) < one.seconds
    found = {one.side: {cost.name: cost for cost in one.summary.templates} for one in traced.passes}
    deep = found[PassSide.DEVICE]["own::Deep"]
    assert 1 < deep.count <= 500
    assert 0 < deep.self_s <= deep.inclusive_s < device.seconds
    assert "own::Deep" not in found[PassSide.HOST]
    events = json.loads(target.read_text())["traceEvents"]
    begun = {event["pid"]: event["ts"] for event in events if event["name"] == "ExecuteCompiler"}
    assert set(begun) == {1, 2}
    assert min(begun.values()) < 1e6


async def test_one_pass(toolchain: Toolchain, tmp_path: Path) -> None:
    traced = await trace_compile(CompileRequest(CPP, "k_1", Language.CPP, "host"), toolchain, folder=tmp_path)
    (only,) = traced.passes
    assert (only.side, only.name) == (PassSide.HOST, "host pass")
    assert "own::Deep" in {cost.name for cost in only.summary.templates}


async def test_errors_of_the_pass_that_fails_first(toolchain: Toolchain, tmp_path: Path) -> None:
    source = HIP.replace("== 500", "== 501")
    traced = await trace_compile(CompileRequest(source, "k_1", Language.HIP, "gfx942"), toolchain, folder=tmp_path)
    assert traced.passes == ()
    assert traced.failure is not None
    assert traced.failure.fault is None
    (error,) = [message for message in parse_clang_log(traced.failure.log) if message.is_error]
    assert error.position is not None
    assert (error.path, error.position.line) == ("kernel.hip", 10)
    assert str(tmp_path) not in traced.failure.log
