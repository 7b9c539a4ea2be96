"""Code objects with line tables by the real compiler: the same code, with lines, and kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.codeobject.metadata import read_metadata
from ckwatch.codeobject.source_lines import same_instructions
from ckwatch.codeobject.tools.llvm_tools import disassemble, source_lines_of
from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.builder import Builder
from ckwatch.compile.line_tables import compile_with_lines, find_lined_code
from ckwatch.compile.request import CompileRequest, CompileStatus
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import run_process

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(600)]

HIP = """\
#include <hip/hip_runtime.h>
#include "own.h"
__global__ void add(const float* a, float* b) {
    b[threadIdx.x] += scaled(a[threadIdx.x]);
}
extern "C" __attribute__((visibility("default"))) int k_1(const float* a, float* b, hipStream_t stream) {
    add<<<dim3(1), dim3(256), 0, stream>>>(a, b);
    return 0;
}
"""
OWN = "#pragma once\n__device__ inline float scaled(float x) {\n    return x * x + 3;\n}\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ArtifactStore]:
    with ArtifactStore(tmp_path / "store") as store:
        yield store


@pytest.fixture
def request_(tmp_path: Path) -> CompileRequest:
    (tmp_path / "own.h").write_text(OWN)
    return CompileRequest(HIP, "k_1", Language.HIP, "gfx942", include_folders=(tmp_path,))


async def places(code_object: Path, toolchain: Toolchain, symbol: str) -> set[tuple[str, int]]:
    found = await source_lines_of(code_object, toolchain, await disassemble(code_object, toolchain, symbol))
    return {(Path(frame.path).name, frame.line) for chain in found.values() for frame in chain}


async def test_the_same_code_with_lines_either_way(
    toolchain: Toolchain, store: ArtifactStore, request_: CompileRequest, tmp_path: Path
) -> None:
    ladder = StagedCompiler(toolchain, store, run_process)
    builder = Builder(toolchain, store, make_ladder=lambda: ladder)
    beside = await builder.build(replace(request_, lines=True))
    assert beside.artifact is not None
    tables = beside.artifact.product("line-tables")
    assert tables is not None
    with_tables = tables.read_bytes()
    found = {kind: beside.artifact.files[name] for kind, name in beside.artifact.products.items()}
    built = await builder.build(request_, BuildOptions(force=True))
    assert built.artifact is not None
    assert {kind: built.artifact.files[name] for kind, name in built.artifact.products.items()} == {
        kind: file for kind, file in found.items() if kind != "line-tables"
    }, "all else is the same, byte by byte"
    plain = built.artifact.product("code-object")
    assert plain is not None
    (kernel,) = read_metadata(plain.read_bytes()).kernels
    without = await disassemble(plain, toolchain, kernel.symbol)
    assert without.instructions
    assert await places(plain, toolchain, kernel.symbol) == set()
    tables = tmp_path / "tables"
    tables.write_bytes(with_tables)
    assert {("kernel.hip", 4), ("own.h", 3)} <= await places(tables, toolchain, kernel.symbol)
    assert find_lined_code(request_, toolchain, store) is None
    for name, taken_apart in (("passes", ladder), ("one call", None)):
        folder = tmp_path / name
        folder.mkdir()
        lined = await compile_with_lines(request_, toolchain, store, taken_apart, folder)
        assert lined.failure is None
        assert lined.code_object is not None
        assert lined.code_object == find_lined_code(request_, toolchain, store)
        assert same_instructions(await disassemble(lined.code_object, toolchain, kernel.symbol), without)
        assert {("kernel.hip", 4), ("own.h", 3)} <= await places(lined.code_object, toolchain, kernel.symbol)
    # Of another header it is another.
    (tmp_path / "own.h").write_text(OWN.replace("3;", "4;"))
    assert find_lined_code(request_, toolchain, store) is None


async def test_a_source_that_does_not_compile(
    toolchain: Toolchain, store: ArtifactStore, tmp_path: Path, request_: CompileRequest
) -> None:
    (tmp_path / "own.h").write_text("#error no\n")
    for name, ladder in (("passes", StagedCompiler(toolchain, store, run_process)), ("one call", None)):
        folder = tmp_path / name
        folder.mkdir()
        lined = await compile_with_lines(request_, toolchain, store, ladder, folder)
        assert lined.code_object is None
        assert lined.failure is not None
        assert (lined.failure.status, lined.failure.fault) == (CompileStatus.FAILED, None)
    assert find_lined_code(request_, toolchain, store) is None
