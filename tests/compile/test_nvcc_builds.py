"""Sources of CUDA beside those of HIP: who compiles them, and what is said where nobody can."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.compile.builder import Builder
from ckwatch.compile.flags import CU_FLAGS
from ckwatch.compile.nvcc_job import compile_command, link_command
from ckwatch.compile.request import CompileRequest, Fault, ProductKind, Status
from ckwatch.errors import ToolchainError
from ckwatch.model.language import Language
from ckwatch.store import ArtifactStore
from ckwatch.toolchain.model import Headers
from ckwatch.toolchain.nvcc import NvccToolchain, find_nvcc
from fake_compiler import REQUEST, SHARED_OBJECT, Script, request_with

CU = CompileRequest("int k_1() { return 1; }\n", "k_1", Language.CU, "sm_90a")

NVCC = """\
for last; do :; done
case "$*" in
*-shared*) cp "{folder}/so" "$last" ;;
*) echo 'kernel.cu(1): warning #177-D: variable "x" was declared but never referenced' >&2
   echo "kernel.o : kernel.cu $(echo "{folder}/bin/../a b.h" | sed 's/ /\\\\ /g')" > kernel.d
   echo device > temporary/kernel.cubin
   cp "{folder}/o" "$last" ;;
esac
"""


def nvcc_of(script: Script, text: str = NVCC) -> NvccToolchain:
    fake = script(text)
    return NvccToolchain(
        source="here",
        nvcc=fake.hipcc,
        clangxx=Path("g++"),
        version="13.0.88",
        host_version="g++ 12",
        cutlass=None,
        identity="nvcc 1",
        environment={"PATH": "/usr/bin:/bin"},
    )


async def test_an_object_a_shared_object_and_the_device_s_code(script: Script, store: ArtifactStore) -> None:
    built = await Builder(nvcc_of(script), store).build(CU)
    assert built.ok, built.log
    assert built.artifact is not None
    assert set(built.artifact.products) == {
        *(ProductKind.OBJECT, ProductKind.SHARED_OBJECT, ProductKind.CODE_OBJECT, ProductKind.DEPENDENCIES)
    }
    assert built.artifact.products["code-object"] == "kernel.sm_90a.cubin"
    assert (built.artifact.folder / "kernel.so").read_bytes() == SHARED_OBJECT
    assert built.log.startswith("kernel.cu(1): warning #177-D")
    found = await Builder(nvcc_of(script, "exit 9"), store).find(CU)
    assert found is not None
    assert found.from_store


async def test_a_header_that_was_read_and_changes(script: Script, store: ArtifactStore) -> None:
    builder = Builder(nvcc_of(script), store)
    await builder.build(CU)
    header = next(Path(script().hipcc).parent.glob("*.h"))
    script(NVCC)
    header.write_text("int changed;")
    assert await builder.find(CU) is None


@pytest.mark.parametrize(
    ("said", "status", "fault", "missing"),
    [
        ('kernel.cu(3): error: identifier "x" is undefined', Status.FAILED, None, ()),
        ("kernel.cu:1:10: fatal error: no/x.h: No such file or directory", Status.FAILED, None, ("no/x.h",)),
        ("ptxas error   : Entry function 'k' uses too much shared data (0x1 bytes, 0x0 max)", Status.FAILED, None, ()),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", Status.TRANSIENT, Fault.KILLED, ()),
        (
            "nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)",
            Status.TRANSIENT,
            Fault.CRASHED,
            (),
        ),
        ("ptxas fatal   : Memory allocation failure", Status.TRANSIENT, Fault.OUT_OF_MEMORY, ()),
        ("gcc: something else", Status.TRANSIENT, Fault.HOST, ()),
    ],
)
async def test_a_mistake_or_a_fault_of_the_host(
    script: Script, store: ArtifactStore, said: str, status: Status, fault: Fault | None, missing: tuple[str, ...]
) -> None:
    built = await Builder(nvcc_of(script, f"cat >&2 <<'END'\n{said}\nEND\nexit 2"), store).build(CU)
    assert built.outcome is not None
    assert (built.outcome.status, built.outcome.fault, built.outcome.missing) == (status, fault, missing)


async def test_a_function_that_is_not_exported(script: Script, store: ArtifactStore) -> None:
    built = await Builder(nvcc_of(script), store).build(replace(CU, symbol="k_2"))
    assert not built.ok
    assert "defines no exported function 'k_2'" in built.log


async def test_beside_hipcc(script: Script, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = nvcc_of(script)
    monkeypatch.setattr("ckwatch.toolchain.nvcc.find_nvcc", lambda _env: nvcc)
    builder = Builder(script(NVCC), store)
    built = await builder.build(CU)
    assert built.ok, built.log
    assert (await builder.find(CU)) is not None
    assert built.key == await builder.key(CU) != await builder.key(replace(CU, arch="sm_80"))
    assert builder.compiled == 1


async def test_without_nvcc_others_are_built(
    script: Script, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_env: object) -> NvccToolchain:
        raise ToolchainError("no CUDA compiler found", "Install it.")

    monkeypatch.setattr("ckwatch.toolchain.nvcc.find_nvcc", nothing)
    builder = Builder(script(), store)
    with pytest.raises(ToolchainError, match="no CUDA compiler found"):
        await builder.build(CU)
    assert (await builder.build(REQUEST)).ok


async def test_without_hipcc_others_are_built(script: Script, store: ArtifactStore) -> None:
    builder = Builder(nvcc_of(script), store)
    with pytest.raises(ToolchainError, match=r"no compiler for \*\.hip\.j2 templates"):
        await builder.build(REQUEST)
    assert (await builder.build(CU)).ok


def test_commands(script: Script) -> None:
    toolchain = replace(
        nvcc_of(script), arguments=("-ccbin", "/g++"), cutlass=Headers(Path("/cutlass/include"), "4.2.0", "here")
    )
    request = request_with(
        language=Language.CU, arch="sm_100f", flags=("-lineinfo", "-Wl,-z,now", "-lm"), defines=("A",)
    )
    command = compile_command(request, toolchain)
    assert command[1:3] == ["-ccbin", "/g++"]
    assert command[3 : 3 + len(CU_FLAGS)] == [*CU_FLAGS]
    for part in ("-gencode=arch=compute_100f,code=sm_100f", "-lineinfo", "-DA"):
        assert part in command
    assert command[-4:] == ["-c", "kernel.cu", "-o", "kernel.o"]
    assert command[command.index("-isystem") + 1] == "/cutlass/include"
    linked = link_command(request, toolchain)
    assert linked[-4:] == ["-Xlinker=-z,now", "-lm", "-o", "kernel.so"]


@pytest.fixture
def real_nvcc() -> NvccToolchain:
    try:
        return find_nvcc()
    except ToolchainError:
        pytest.skip("no nvcc here")


KERNEL = """\
__global__ void twice(float* p) { p[threadIdx.x] *= 2; }
__attribute__((visibility("default"))) int seen_by_nobody() { return 1; }
extern "C" __attribute__((visibility("default"))) int k_1(float* p, cudaStream_t stream) {
    twice<<<1, 32, 0, stream>>>(p);
    return cudaGetLastError();
}
"""


@pytest.mark.toolchain
async def test_real_nvcc(real_nvcc: NvccToolchain, store: ArtifactStore, tmp_path: Path) -> None:
    request = replace(CU, source=KERNEL)
    builder = Builder(real_nvcc, store)
    built = await builder.build(request)
    assert built.ok, built.log
    assert built.artifact is not None
    assert built.artifact.record.exports == ("k_1",)
    code = built.artifact.folder / built.artifact.products["code-object"]
    assert code.read_bytes()[:4] == b"\x7fELF"
    headers = (built.artifact.folder / "kernel.d").read_text()
    assert "/cuda_runtime.h" in headers
    assert "/../" not in headers
    shutil.copytree(built.artifact.folder, tmp_path / "first")
    again = await builder.build(request, force=True)
    assert again.artifact is not None
    assert (again.artifact.folder / "kernel.so").read_bytes() == (tmp_path / "first/kernel.so").read_bytes()


@pytest.mark.toolchain
async def test_real_nvcc_on_a_mistake(real_nvcc: NvccToolchain, store: ArtifactStore) -> None:
    lines: list[str] = []
    built = await Builder(real_nvcc, store).build(
        replace(CU, source=KERNEL.replace("p[threadIdx.x]", "q[0]")), on_said=lambda _side, line: lines.append(line)
    )
    assert not built.ok
    assert built.fault is None
    assert 'kernel.cu(1): error: identifier "q" is undefined' in built.log
    assert any('identifier "q" is undefined' in line for line in lines)
