"""The real hipcc and clang++ on small sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.compile.build_events import BuildOptions, CompilerLine
from ckwatch.compile.builder import Builder
from ckwatch.compile.dependencies import parse_dependency_file
from ckwatch.compile.elf import EM_AMDGPU, ElfHeader
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.shared_store import SharedStore, SharedStoreTimes
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ProcessResult, run_process
from fakes.patience import PATIENCE_S

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(900)]

KERNEL = """\
#include <hip/hip_runtime.h>
#include <cstdint>
#include <vector>
#include "own header.h"
#define PT_EXPORT __attribute__((visibility("default")))
__global__ void add(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] += a[i] * FACTOR;
}
extern "C" PT_EXPORT int k_1(const float* a, float* b, int32_t n, hipStream_t stream) {
    std::vector<int> sizes; sizes.push_back(n);
    add<<<dim3((n + 255) / 256), dim3(256), 0, stream>>>(a, b, sizes[0]);
    return 0;
}
"""

HEADER = """\
#ifdef __HIP_DEVICE_COMPILE__
#include "device only.h"
#else
#include "host only.h"
#endif
"""

HOST = """\
#include <cstdint>
extern "C" __attribute__((visibility("default"))) int k_2(const float* a, float* b, int32_t n) {
#pragma omp parallel for
    for (int i = 0; i < n; i++) b[i] += a[i];
    return 0;
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
    (folder / "own header.h").write_text(HEADER)
    (folder / "device only.h").write_text("#define FACTOR 2\n")
    (folder / "host only.h").write_text("#define FACTOR 3\n")
    return CompileRequest(KERNEL, "k_1", Language.HIP, "gfx942", include_folders=(folder,))


async def never(*_: object, **__: object) -> ProcessResult:
    raise AssertionError("no process may be started")


async def test_a_check_looks_at_both_passes_and_makes_no_code(
    toolchain: Toolchain, store: ArtifactStore, request_for_hip: CompileRequest
) -> None:
    request = replace(request_for_hip, products=frozenset())
    right = await Builder(toolchain, store).build(request)
    assert (right.ok, right.log) == (True, "")
    assert right.artifact is not None
    assert (len(right.artifact.record.commands), right.artifact.products) == (2, {})
    assert (await Builder(toolchain, store, launch=never).build(request)).artifact == right.artifact

    # A header that only the device pass reads.
    (request.include_folders[0] / "device only.h").write_text("#define FACTOR gone\n")
    wrong = await Builder(toolchain, store).build(request)
    assert not wrong.ok
    assert [message.text for message in parse_clang_log(wrong.log) if message.is_error] == [
        "use of undeclared identifier 'gone'"
    ]


async def test_hip_from_source_to_store(
    toolchain: Toolchain, store: ArtifactStore, request_for_hip: CompileRequest
) -> None:
    """One long row of events, as each compile costs seconds."""
    request = request_for_hip
    builder = Builder(toolchain, store)
    first = await builder.build(request)
    assert (first.ok, first.log) == (True, "")
    artifact = first.artifact
    assert artifact is not None
    assert artifact.record.exports == ("k_1",)
    assert artifact.code_object is not None
    assert ElfHeader.read(artifact.code_object.read_bytes()).machine == EM_AMDGPU
    assert artifact.shared_object is not None
    assert ElfHeader.read(artifact.shared_object.read_bytes()).machine == 62
    assert artifact.record.peak_memory_bytes > 50 << 20
    dependencies = artifact.product("dependencies")
    assert dependencies is not None
    read = {Path(path).name for path in parse_dependency_file(dependencies.read_text())}
    assert {"hip_runtime.h", "own header.h", "device only.h", "host only.h"} <= read

    # Nothing starts for what is known, nor for a comment.
    idle = Builder(toolchain, store, launch=never)
    assert (await idle.build(request)).artifact == artifact
    commented = replace(request, source=f"// a comment\n\n{KERNEL.replace('{', '{ /* two */ ')}")
    assert (await idle.build(commented)).artifact == artifact

    # A header that only the device pass reads.
    (request.include_folders[0] / "device only.h").write_text("#define FACTOR 4\n")
    second = await builder.build(request)
    assert (second.ok, second.from_store, second.key) == (True, False, first.key)
    assert second.artifact is not None
    assert second.artifact.code_object is not None
    assert second.artifact.code_object.read_bytes() != artifact.code_object.read_bytes()

    # The same source compiles to the same bytes, in another folder too.
    (request.include_folders[0] / "device only.h").write_text("#define FACTOR 2\n")
    again = await builder.build(request, BuildOptions(force=True))
    assert again.artifact is not None
    assert again.artifact.files == artifact.files


async def test_shared_by_workspaces_in_different_folders(toolchain: Toolchain, tmp_path: Path) -> None:
    """The real compiler's output names no place in which the other machine would not look."""
    (tmp_path / "shared").mkdir()
    results = []
    for name, launch in (("one", run_process), ("two", never)):
        workspace = tmp_path / name
        workspace.mkdir()
        (workspace / "own header.h").write_text("#define FACTOR 2\n")
        request = CompileRequest(KERNEL, "k_1", Language.HIP, "gfx942", include_folders=(workspace,))
        shared = SharedStore(str(tmp_path / "shared"), SharedStoreTimes(*[PATIENCE_S] * 6))
        with ArtifactStore(tmp_path / f"store {name}") as store:
            builder = Builder(replace(toolchain, workspace=workspace), store, launch=launch, shared=lambda: shared)  # noqa: B023
            results.append(await builder.build(request))
            await anyio.to_thread.run_sync(shared.close, PATIENCE_S)
            found = results[-1].artifact
            assert found is not None
            dependencies = found.product("dependencies")
            assert dependencies is not None
            assert str(workspace / "own header.h") in parse_dependency_file(dependencies.read_text())
    first, second = results
    assert (first.from_store, second.from_store, second.ok, second.key) == (False, True, True, first.key)


async def test_failure_is_kept(toolchain: Toolchain, store: ArtifactStore, request_for_hip: CompileRequest) -> None:
    lines: list[str] = []
    request = replace(request_for_hip, source=KERNEL.replace("push_back(n)", "push_back(undeclared)"))
    first = await Builder(toolchain, store).build(
        request, on_event=lambda event: lines.append(event.line) if isinstance(event, CompilerLine) else None
    )
    assert (first.ok, first.fault) == (False, None)
    assert lines[0].startswith("kernel.hip:11:")
    assert "error: use of undeclared identifier 'undeclared'" in lines[0]
    second = await Builder(toolchain, store, launch=never).build(request)
    assert (second.ok, second.from_store, second.log) == (False, True, first.log)


async def test_header_that_is_missing(
    toolchain: Toolchain, store: ArtifactStore, request_for_hip: CompileRequest
) -> None:
    request = replace(request_for_hip, source='#include "ck/none.hpp"\n')
    result = await Builder(toolchain, store).build(request)
    assert (result.ok, result.fault) == (False, None)
    assert "fatal error: 'ck/none.hpp' file not found" in result.log


async def test_line_markers_move_no_message(toolchain: Toolchain, store: ArtifactStore, tmp_path: Path) -> None:
    """Neither those of the text, nor those of a header."""
    (tmp_path / "generated.h").write_text('#line 70 "grammar.y"\nint b = two;\n')
    source = '#line 40 "nowhere.y"\nint a = one;\n#include "generated.h"\n# 9 "else" 3\nint c = three;\n'
    source += "#define HERE 90\n#line HERE\nint d = four;\n"
    request = CompileRequest(source, "k_2", Language.CPP, "host", include_folders=(tmp_path,))
    outcome = await Builder(toolchain, store).build(request)
    found = [(message.path, message.position) for message in parse_clang_log(outcome.log) if message.is_error]
    header = str(tmp_path / "generated.h")
    expected = [("kernel.cpp", 2), (header, 2), ("kernel.cpp", 5), ("kernel.cpp", 8)]
    assert [(path, position and position.line) for path, position in found] == expected
    assert outcome.source_text == source


async def test_unknown_symbol_fails_at_the_link(toolchain: Toolchain, store: ArtifactStore) -> None:
    source = "int elsewhere();\n" + HOST.replace("return 0", "return elsewhere()")
    request = CompileRequest(source, "k_2", Language.CPP, "host")
    result = await Builder(toolchain, store).build(request)
    assert (result.ok, result.fault) == (False, None)
    assert "elsewhere" in result.log


async def test_host(toolchain: Toolchain, store: ArtifactStore) -> None:
    request = CompileRequest(HOST, "k_2", Language.CPP, "host")
    result = await Builder(toolchain, store).build(request)
    assert (result.ok, result.log) == (True, "")
    assert result.artifact is not None
    assert result.artifact.record.exports == ("k_2",)
    assert result.artifact.code_object is None
    assert (await Builder(toolchain, store, launch=never).build(request)).from_store


async def test_compressed_device_code(
    toolchain: Toolchain, store: ArtifactStore, request_for_hip: CompileRequest
) -> None:
    request = replace(request_for_hip, flags=("--offload-compress",))
    result = await Builder(toolchain, store).build(request)
    assert result.ok
    assert result.artifact is not None
    assert result.artifact.code_object is not None
    assert ElfHeader.read(result.artifact.code_object.read_bytes()).machine == EM_AMDGPU
