"""The real compiler taken apart, on a small kernel: whichever way it is compiled, the same comes of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.compile.build_events import BuildEvent, BuildOptions, CompilerLine
from ckwatch.compile.builder import Builder
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.kept_clang import (
    FREE_BYTES,
    PLUGIN_FLAGS,
    PLUGIN_SOURCE,
    PLUGINS,
    PUBLIC_ONLY,
    KeptClang,
    KeptClangs,
)
from ckwatch.compile.rendered_unit import live_diagnostics
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompileStatus
from ckwatch.compile.single_call import compile_source
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.clang_headers import can_fetch_headers, fetch_clang_headers, find_clang_headers
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.targets import Language
from ckwatch.render.outcome import Rendered
from ckwatch.system.async_processes import run_process
from helpers.clang_logs import mapped, unit_of
from helpers.kept_builds import kept

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(600)]

KERNEL = """\
#include <hip/hip_runtime.h>
#include <array>
#include "own.h"
// CKWATCH_WARM_UP: small
namespace k_0123456789ab_unit {
template <int N>
#if defined(CKWATCH_WARM_UP)
__device__ void
#else
__global__ void
#endif
    scale(float* x) {
    own::Scaled<N> scaled;
    x[threadIdx.x] = scaled(x[threadIdx.x]);
}
#if defined(CKWATCH_WARM_UP)
__device__ inline void warm(float* x) { scale<3>(x); }
#endif
}  // namespace k_0123456789ab_unit
#if !defined(CKWATCH_WARM_UP)
extern "C" __attribute__((visibility("default"))) int k_0123456789ab(float* x, hipStream_t stream) {
    const std::array<int, 1> threads{64};
    k_0123456789ab_unit::scale<3><<<dim3(1), dim3(threads[0]), 0, stream>>>(x);
    return 0;
}
#endif
"""

OWN = """\
#pragma once
namespace own {
template <int N> struct Scaled {
    __device__ float operator()(float x) const { return x * N + FACTOR; }
};
}
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ArtifactStore]:
    with ArtifactStore(tmp_path / "a store ü") as store:
        yield store


@pytest.fixture
def request_for_hip(tmp_path: Path) -> CompileRequest:
    folder = tmp_path / "own headers ü"
    folder.mkdir()
    (folder / "own.h").write_text(OWN)
    return CompileRequest(
        KERNEL, "k_0123456789ab", Language.HIP, "gfx942", include_folders=(folder,), defines=("FACTOR=7",)
    )


@pytest.fixture
def ladder(toolchain: Toolchain, store: ArtifactStore) -> StagedCompiler:
    return StagedCompiler(toolchain, store, run_process)


async def by_parts(ladder: StagedCompiler, store: ArtifactStore, request: CompileRequest) -> CompileOutcome:
    return await ladder.compile(request, store.work_folder(), BuildOptions(force=True))


async def by_one_call(toolchain: Toolchain, store: ArtifactStore, request: CompileRequest) -> CompileOutcome:
    return await compile_source(request, toolchain, folder=store.work_folder())


async def make_headers(ladder: StagedCompiler, request: CompileRequest, *, warm: bool) -> list[bool]:
    """Make those that are lacking for both passes; whether they could be made."""
    plan = await ladder.plan(request)
    assert plan is not None
    lacking = ladder.warming.lacking(request, plan, warm=warm)
    return [await ladder.warming.make(wanted, request, plan, nice=0) for wanted in lacking]


def used(outcome: CompileOutcome) -> int:
    """By how many passes a precompiled header was used."""
    return sum("-include-pch" in command.arguments for command in outcome.commands)


def result_of(outcome: CompileOutcome) -> tuple[object, ...]:
    """All that counts of it, the device's code byte for byte."""
    code = outcome.files[ProductKind.CODE_OBJECT].read_bytes()
    return outcome.status, outcome.log, outcome.exports, outcome.headers, code


@pytest.fixture
def keeps_clangs(ladder: StagedCompiler, toolchain: Toolchain, store: ArtifactStore) -> bool:
    """Return True if the compiler's clang can be kept; its headers are fetched once, and the plugin for it is made
    once, for all runs."""
    headers = find_clang_headers(toolchain, toolchain.environment)
    if headers is None:
        if not can_fetch_headers(toolchain):
            return False
        headers = asyncio.run(fetch_clang_headers(toolchain))
    clangs = ladder.warming.kept = KeptClangs(toolchain, store, run_process, available=lambda: FREE_BYTES)

    def make(target: Path) -> None:
        made = asyncio.run(clangs.plugin(0))
        assert made is not None
        made.rename(target)

    made_of = (PLUGIN_SOURCE.read_text(), " ".join(PLUGIN_FLAGS), str(headers), toolchain.identity)
    plugin = kept("plugin", made_of, make)
    name = clangs.plugin_name(PLUGIN_SOURCE.read_bytes(), headers)
    (store.folder / PLUGINS).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(plugin, store.folder / PLUGINS / name)
    return True


async def test_the_plugin_does_without_private_members(
    toolchain: Toolchain, store: ArtifactStore, keeps_clangs: bool
) -> None:
    headers = find_clang_headers(toolchain, toolchain.environment)
    assert (headers is not None) == keeps_clangs
    if headers is not None:
        command = [str(toolchain.clangxx), *toolchain.cpp_arguments, *PLUGIN_FLAGS, "-isystem", str(headers)]
        checked = await run_process(
            [*command, PUBLIC_ONLY, "-fsyntax-only", str(PLUGIN_SOURCE)],
            environment=toolchain.environment,
            folder=store.folder,
            timeout_s=300,
        )
        assert (checked.succeeded, checked.stderr) == (True, "")


@asynccontextmanager
async def keeping(ladder: StagedCompiler, *requests: CompileRequest) -> AsyncIterator[KeptClang]:
    """Keep a clang that has parsed the texts of requests."""
    found = None
    async with anyio.create_task_group() as tasks:
        for request in requests:
            plan = await ladder.plan(request)
            assert plan is not None
            passes = await ladder.plan_with_lines(request, plan)
            assert await ladder.warming.keep(request, plan, passes, tasks)
            found = ladder.warming.find_kept(request, PassSide.DEVICE, plan, passes)
        assert found is not None
        yield found
        tasks.cancel_scope.cancel()


async def test_the_same_whichever_way(
    ladder: StagedCompiler,
    toolchain: Toolchain,
    store: ArtifactStore,
    request_for_hip: CompileRequest,
    keeps_clangs: bool,
) -> None:
    """One long row of events, as each compile costs seconds."""
    request = request_for_hip
    expected = result_of(await by_one_call(toolchain, store, request))
    assert expected[:3] == (CompileStatus.OK, "", ("k_0123456789ab",))
    apart = await by_parts(ladder, store, request)
    assert (result_of(apart), used(apart)) == (expected, 0)
    assert await make_headers(ladder, request, warm=False) == [True, True]
    with_includes = await by_parts(ladder, store, request)
    assert (result_of(with_includes), used(with_includes)) == (expected, 2)
    assert await make_headers(ladder, request, warm=True) == [True, True]
    warm = await by_parts(ladder, store, request)
    assert (result_of(warm), used(warm)) == (expected, 2)

    # One that differs in a parameter is warmed up by the first.
    sibling = replace(request, source=KERNEL.replace("scale<3>", "scale<5>"))
    one_call = result_of(await by_one_call(toolchain, store, sibling))
    warmed = await by_parts(ladder, store, sibling)
    assert (result_of(warmed), used(warmed)) == (one_call, 2)
    shared = warmed.files[ProductKind.SHARED_OBJECT].read_bytes()
    assert one_call != expected

    header = request.include_folders[0] / "own.h"
    if keeps_clangs:
        # So is it by a clang that has parsed the first and another. It says nothing of a mistake that is not said without.
        mistaken = replace(sibling, source=sibling.source.replace("    own::Scaled", f"{DEVICE_ONLY}    own::Scaled"))
        without = await by_parts(ladder, store, mistaken)
        named = KERNEL.replace("0123456789ab", "0123456789ac")
        other = replace(request, source=named.replace("scale<3>", "scale<7>"), symbol="k_0123456789ac")
        async with keeping(ladder, request, other) as clang:
            forked = await by_parts(ladder, store, sibling)
            assert (result_of(forked), used(forked)) == (one_call, 0)
            assert forked.files[ProductKind.SHARED_OBJECT].read_bytes() == shared
            again = await by_parts(ladder, store, mistaken)
            assert (again.status, again.log) == (CompileStatus.FAILED, without.log)
            header.write_text(OWN.replace("x * N", "x + N"))
            assert used(await by_parts(ladder, store, sibling)) == 0
            while not clang.has_ended:  # noqa: ASYNC110  # it sets no event
                await anyio.sleep(0.01)

    # An edited header is seen, and what was made of it is used no more.
    header.write_text(OWN.replace("x * N", "x - N"))
    edited = await by_parts(ladder, store, request)
    assert (edited.status, used(edited)) == (CompileStatus.OK, 0)
    assert result_of(edited)[-1] != expected[-1]


STUBBORN = """\
#pragma once
namespace own {
template <int N> struct Scaled {
    __device__ float operator()(float x) const {
#pragma clang loop vectorize(enable)
        for (int i = 0, count = x; i < count; ++i) x = x * N + i;
        return x;
    }
};
}
"""
"""A header with a loop that the optimizer cannot treat as it is asked to."""

CROWDED = (
    KERNEL.replace("__global__ void\n", "__global__ __attribute__((amdgpu_waves_per_eu(8))) void\n")
    .replace("    own::Scaled", "    __shared__ float all[16000];\n    all[threadIdx.x] = x[0];\n    own::Scaled")
    .replace("scaled(x[threadIdx.x])", "scaled(x[threadIdx.x]) + all[int(x[1])]")
)
"""A source whose kernel takes more shared memory than the occupancy that it asks for leaves it."""


@pytest.mark.parametrize(
    ("lines", "flags"), [(False, ()), (True, ()), (False, ("-Rpass-analysis=kernel-resource-usage",))]
)
async def test_what_a_fork_warns_of(
    ladder: StagedCompiler,
    toolchain: Toolchain,
    store: ArtifactStore,
    request_for_hip: CompileRequest,
    keeps_clangs: bool,
    lines: bool,
    flags: tuple[str, ...],
) -> None:
    """The optimizer's and the code generator's warnings and remarks are those of a plain pass: one has its place in a
    header where places are known."""
    (request_for_hip.include_folders[0] / "own.h").write_text(STUBBORN)
    request = replace(request_for_hip, source=CROWDED, lines=lines, flags=flags)
    edited = replace(request, source=CROWDED.replace("scale<3>", "scale<5>"))
    plain = await by_parts(ladder, store, edited)
    assert (plain.status, plain.log.count(" warning: "), "own.h:" in plain.log) == (
        CompileStatus.OK,
        2,
        lines or bool(flags),
    )
    assert (" remark: " in plain.log) == bool(flags)
    if keeps_clangs:
        async with keeping(ladder, request):
            forked = await by_parts(ladder, store, edited)
        assert result_of(forked) == result_of(plain)
        assert all(os.devnull in command.arguments for command in forked.commands[:2])


@pytest.mark.parametrize(
    ("header", "changes"),
    [
        (OWN.replace("#pragma once\n", ""), {}),
        (f"#ifndef OWN\n#define OWN\n{OWN}#else\n#define TWICE\n#endif\n".replace("#pragma once\n", ""), {}),
        (OWN + "inline int own_unused() { int nobody = 1; return 2; }\n", {"flags": ("-Wall",)}),
    ],
    ids=["no guard", "more when it is read again", "warning"],
)
async def test_headers_that_cannot_be_precompiled(
    ladder: StagedCompiler,
    toolchain: Toolchain,
    store: ArtifactStore,
    request_for_hip: CompileRequest,
    header: str,
    changes: dict[str, Any],
) -> None:
    """The compile is as it is without: it succeeds, with the same messages."""
    request = replace(request_for_hip, **changes)
    (request.include_folders[0] / "own.h").write_text(header)
    assert await make_headers(ladder, request, warm=False) == [False, False]
    outcome = await by_parts(ladder, store, request)
    assert (outcome.status, used(outcome)) == (CompileStatus.OK, 0)
    assert outcome.log.count("unused variable 'nobody'") == (2 if changes else 0)


WRONG = "    int wrong = undeclared_name;\n"
EVERYWHERE, DEVICE_ONLY, HOST_ONLY = (
    WRONG,
    f"#if defined(__HIP_DEVICE_COMPILE__)\n{WRONG}#endif\n",
    f"#if !defined(__HIP_DEVICE_COMPILE__)\n{WRONG}#endif\n",
)


@pytest.mark.parametrize(
    ("mistake", "sides"),
    [(DEVICE_ONLY, {PassSide.DEVICE}), (HOST_ONLY, {PassSide.HOST}), (EVERYWHERE, {PassSide.HOST, PassSide.DEVICE})],
    ids=["device", "host", "both"],
)
async def test_a_mistake_is_reported_once(
    toolchain: Toolchain, store: ArtifactStore, request_for_hip: CompileRequest, mistake: str, sides: set[PassSide]
) -> None:
    """By the check what the host has found, while it compiles and afterwards all; once where both passes say it."""
    source = KERNEL.replace("    own::Scaled", f"{mistake}    own::Scaled")
    request = replace(request_for_hip, source=source)
    rendered = Rendered(source, mapped(source), request.symbol, "", frozenset())

    def errors(log: str) -> list[tuple[int, str]]:
        found = live_diagnostics(unit_of(source), rendered, log, lambda *_: None, header_warnings=False)
        return [(one.span.start.line, one.code) for one in found]

    builder = Builder(toolchain, store, make_ladder=lambda: StagedCompiler(toolchain, store, run_process))
    said: dict[PassSide | None, list[str]] = {}

    def on_event(event: BuildEvent) -> None:
        if isinstance(event, CompilerLine):
            said.setdefault(event.side, []).append(f"{event.line}\n")

    expected = [(source[: source.index(WRONG)].count("\n"), "clang/undeclared-identifier")]
    checked = await builder.check(request, on_event)
    assert checked is not None
    assert (checked.ok, errors(checked.log)) == ((False, expected) if PassSide.HOST in sides else (True, []))
    built = await builder.build(request, on_event=on_event)
    assert (built.ok, built.fault, errors(built.log)) == (False, None, expected)
    assert built.log.count("use of undeclared identifier") == len(sides)
    assert {side for side, lines in said.items() if errors("".join(lines))} == sides
