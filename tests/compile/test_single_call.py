"""One compile, with a compiler that is a shell script."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.build_events import BuildEvent, BuildOptions, CompilerLine
from ckwatch.compile.builder import Builder
from ckwatch.compile.flags import CU_FLAGS
from ckwatch.compile.request import CompileFault, CompileOutcome, CompileRequest, CompileStatus
from ckwatch.compile.single_call import check_commands, compile_command, compile_source, link_command
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import HeaderLibrary
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.targets import Language
from fakes.fake_compiler import COMPILES, DEVICE_CODE, REQUEST, SHARED_OBJECT, Script, request_with
from fakes.patience import PATIENCE_S


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work ü"
    path.mkdir()
    return path


def said(lines: list[str], event: BuildEvent) -> None:
    if isinstance(event, CompilerLine):
        lines.append(event.line)


async def compiled(script: Script, folder: Path, text: str = COMPILES) -> CompileOutcome:
    return await compile_source(REQUEST, script(text), folder=folder)


async def test_products(script: Script, folder: Path) -> None:
    lines: list[str] = []
    outcome = await compile_source(REQUEST, script(), folder=folder, on_event=lambda event: said(lines, event))
    assert (outcome.status, outcome.fault) == (CompileStatus.OK, None)
    assert outcome.files[ProductKind.CODE_OBJECT].read_bytes() == DEVICE_CODE
    assert outcome.files[ProductKind.CODE_OBJECT].name == "kernel.gfx942.hsaco"
    assert set(outcome.files) == set(ProductKind) - {ProductKind.RUNNER, ProductKind.LINE_TABLES}
    assert outcome.exports == ("k_1", "std")
    assert [Path(header).name for header in outcome.headers] == ["a b.h"]
    assert outcome.files[ProductKind.DEPENDENCIES].read_text().startswith("kernel.so: \\\n  /")
    assert lines == ["kernel.hip:1:2: warning: said in kernel.hip"]
    assert outcome.log == "kernel.hip:1:2: warning: said in kernel.hip\n"
    assert [command.exit_status for command in outcome.commands] == [0, 0]
    assert (folder / "exports.map").read_text() == "{ global: k_1; local: *; };\n"


def test_a_check_is_a_call_per_pass_without_code(script: Script) -> None:
    request = request_with(products=frozenset())
    for command, side in zip(check_commands(request, script()), ("host", "device"), strict=True):
        assert {f"--cuda-{side}-only", "-fsyntax-only", "--offload-arch=gfx942"} <= {*command}
        assert not {"-c", "-o"} & {*command}
    ((*_, source),) = check_commands(replace(request, language=Language.CPP), script())
    assert source == "kernel.cpp"


async def test_a_check_ends_with_the_first_pass_that_fails(script: Script, folder: Path) -> None:
    text = 'echo "{folder}/a.h" >> "$CC_PRINT_HEADERS_FILE"; echo "kernel.hip:1:2: error: no" >&2; exit 1'
    outcome = await compile_source(request_with(products=frozenset()), script(text), folder=folder)
    assert (outcome.status, outcome.fault, len(outcome.commands)) == (CompileStatus.FAILED, None, 1)
    assert [Path(header).name for header in outcome.headers] == ["a.h"]


async def test_commands_name_no_temporary_folder(script: Script, folder: Path) -> None:
    outcome = await compiled(script, folder)
    for command in outcome.commands:
        assert not [argument for argument in command.arguments if str(folder) in argument]


async def test_fixits_name_no_temporary_folder(script: Script, folder: Path) -> None:
    escaped = str(folder).replace("ü", r"\303\274")
    text = f"echo 'kernel.hip:1:1: error: a' >&2; printf '%s\\n' 'fix-it:\"{escaped}/kernel.hip\":{{1:1-1:1}}:\"b\"' >&2; exit 1"
    outcome = await compiled(script, folder, text)
    assert 'fix-it:"kernel.hip":{1:1-1:1}:"b"\n' in outcome.log


async def test_environment(script: Script, folder: Path) -> None:
    outcome = await compiled(script, folder, "env >&2; exit 1")
    for line in ("LC_ALL=C.UTF-8", "SOURCE_DATE_EPOCH=0", "TMPDIR=temporary"):
        assert f"{line}\n" in outcome.log


async def test_host_source(script: Script, folder: Path) -> None:
    request = replace(REQUEST, language=Language.CPP, arch="host")
    outcome = await compile_source(request, script(), folder=folder)
    assert outcome.status is CompileStatus.OK
    assert ProductKind.CODE_OBJECT not in outcome.files
    compiling, linking = (command.arguments for command in outcome.commands)
    assert "-fopenmp" in compiling
    assert "-fopenmp" in linking
    assert "kernel.cpp" in compiling


async def test_symbol_that_is_not_exported(script: Script, folder: Path) -> None:
    outcome = await compile_source(request_with(symbol="hidden"), script(), folder=folder)
    assert outcome.status is CompileStatus.FAILED
    assert "ld: error: the source defines no exported function 'hidden'" in outcome.log


ERROR = "echo \"$PWD/kernel.hip:3:1: error: use of undeclared identifier 'x'\" >&2; "
CRASH = "PLEASE submit a bug report to nowhere and include the crash backtrace"


@pytest.mark.parametrize(
    ("text", "status", "fault", "message"),
    [
        (f"{ERROR} exit 1", CompileStatus.FAILED, None, ""),
        ("echo 'kernel.hip:3:1: error: no std::bad_alloc: memory exhausted' >&2; exit 1", CompileStatus.FAILED, None, ""),
        ("echo 'kernel.hip:3:1: error: a' >&2; echo '   12 | // Cannot allocate memory' >&2; exit 1", CompileStatus.FAILED, None, ""),
        ("kill -KILL $$", CompileStatus.TRANSIENT, CompileFault.KILLED, "hipcc was killed (SIGKILL)"),
        ("kill -TERM $$", CompileStatus.TRANSIENT, CompileFault.KILLED, "hipcc was killed (SIGTERM)"),
        ("exit 137", CompileStatus.TRANSIENT, CompileFault.KILLED, "hipcc was killed (SIGKILL)"),
        ("kill -SEGV $$", CompileStatus.TRANSIENT, CompileFault.CRASHED, "hipcc crashed (SIGSEGV)"),
        ("exit 139", CompileStatus.TRANSIENT, CompileFault.CRASHED, "hipcc crashed (SIGSEGV)"),
        (f"echo '{CRASH}' >&2; exit 1", CompileStatus.TRANSIENT, CompileFault.CRASHED, "hipcc crashed"),
        (
            "echo 'clang++: error: unable to execute command: Killed' >&2; exit 254",
            CompileStatus.TRANSIENT,
            CompileFault.KILLED,
            "hipcc was killed (SIGKILL)",
        ),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", CompileStatus.TRANSIENT, CompileFault.OUT_OF_MEMORY, "hipcc ran out of memory"),
        (
            "echo 'error: unable to open output file: No space left on device' >&2; exit 1",
            CompileStatus.TRANSIENT,
            CompileFault.NO_SPACE,
            "hipcc found no space left",
        ),
        ("exit 5", CompileStatus.TRANSIENT, CompileFault.HOST, "hipcc ended with status 5 and without a word"),
        ("echo 'no licence' >&2; exit 5", CompileStatus.TRANSIENT, CompileFault.HOST, "hipcc ended with status 5: no licence"),
        ("for last; do :; done; echo no object > \"$last\"", CompileStatus.TRANSIENT, CompileFault.HOST, "the compiler left a damaged object: the file is not an ELF-64 file"),
        ("exit 0", CompileStatus.TRANSIENT, CompileFault.HOST, "cannot write in"),
    ],
)  # fmt: skip
async def test_who_is_at_fault(
    script: Script, folder: Path, text: str, status: CompileStatus, fault: CompileFault | None, message: str
) -> None:
    outcome = await compiled(script, folder, text)
    assert (outcome.status, outcome.fault) == (status, fault)
    assert outcome.message.startswith(message)


async def test_echoed_command_is_left_out(script: Script, folder: Path) -> None:
    lines: list[str] = []
    toolchain = script("echo 'kernel.hip:1:1: error: a' >&2; echo 'failed to execute:clang++ -c' >&2; exit 1")
    outcome = await compile_source(REQUEST, toolchain, folder=folder, on_event=lambda event: said(lines, event))
    assert (outcome.log, lines) == ("kernel.hip:1:1: error: a\n", ["kernel.hip:1:1: error: a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("while :; do :; done", "hipcc was ended after 0.3 s of processor time: `timeout_s = 0.3` of [compile] in ckwatch.toml"),
        ("sleep 1000", "hipcc used no processor for 0.4 s and was ended: `stalled_s = 0.4` of [compile] in ckwatch.toml"),
    ],
)  # fmt: skip
async def test_limits(script: Script, folder: Path, text: str, message: str) -> None:
    request = request_with(timeout_s=0.3, stalled_s=0.4)
    with anyio.fail_after(PATIENCE_S):
        outcome = await compile_source(request, script(text), folder=folder)
    assert (outcome.status, outcome.fault) == (CompileStatus.TRANSIENT, CompileFault.TIMED_OUT)
    assert outcome.message == message


async def test_missing_headers(script: Script, folder: Path) -> None:
    text = "echo \"kernel.hip:1:1: fatal error: 'ck/no.hpp' file not found\" >&2; exit 1"
    outcome = await compiled(script, folder, text)
    assert (outcome.status, outcome.missing) == (CompileStatus.FAILED, ("ck/no.hpp",))


async def test_missing_compiler(script: Script, folder: Path) -> None:
    toolchain = replace(script(), hipcc=Path("no-such-hipcc-here"))
    with pytest.raises(ToolchainError, match="cannot start no-such-hipcc-here"):
        await compile_source(REQUEST, toolchain, folder=folder)


async def test_what_cannot_be_compiled(script: Script, folder: Path) -> None:
    with pytest.raises(CkwatchError):
        await compile_source(request_with(products=frozenset({ProductKind.RUNNER})), script("exit 9"), folder=folder)


async def test_only_what_was_asked_for(script: Script, folder: Path) -> None:
    request = request_with(products=frozenset({ProductKind.SHARED_OBJECT}))
    outcome = await compile_source(request, script(), folder=folder)
    assert set(outcome.files) == {ProductKind.SHARED_OBJECT}


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
        ('kernel.cu(3): error: identifier "x" is undefined', CompileStatus.FAILED, None, ()),
        ("kernel.cu:1:10: fatal error: no/x.h: No such file or directory", CompileStatus.FAILED, None, ("no/x.h",)),
        (
            "ptxas error   : Entry function 'k' uses too much shared data (0x1 bytes, 0x0 max)",
            CompileStatus.FAILED,
            None,
            (),
        ),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", CompileStatus.TRANSIENT, CompileFault.KILLED, ()),
        (
            "nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)",
            CompileStatus.TRANSIENT,
            CompileFault.CRASHED,
            (),
        ),
        ("ptxas fatal   : Memory allocation failure", CompileStatus.TRANSIENT, CompileFault.OUT_OF_MEMORY, ()),
        ("gcc: something else", CompileStatus.TRANSIENT, CompileFault.HOST, ()),
    ],
)
async def test_a_mistake_or_a_fault_of_the_host(
    script: Script,
    store: ArtifactStore,
    said: str,
    status: CompileStatus,
    fault: CompileFault | None,
    missing: tuple[str, ...],
) -> None:
    built = await Builder(nvcc_of(script, f"cat >&2 <<'END'\n{said}\nEND\nexit 2"), store).build(CU)
    assert built.outcome is not None
    assert (built.outcome.status, built.outcome.fault, built.outcome.missing) == (status, fault, missing)


async def test_a_function_that_is_not_exported(script: Script, store: ArtifactStore) -> None:
    built = await Builder(nvcc_of(script), store).build(replace(CU, symbol="k_2"))
    assert not built.ok
    assert "defines no exported function 'k_2'" in built.log


async def test_beside_hipcc(script: Script, store: ArtifactStore) -> None:
    nvcc = nvcc_of(script)
    builder = Builder(script(NVCC), store, find_nvcc=lambda _env: nvcc)
    built = await builder.build(CU)
    assert built.ok, built.log
    assert (await builder.find(CU)) is not None
    assert built.key == await builder.key(CU) != await builder.key(replace(CU, arch="sm_80"))
    assert builder.compiled == 1


async def test_without_nvcc_others_are_built(script: Script, store: ArtifactStore) -> None:
    def nothing(_env: object) -> NvccToolchain:
        raise ToolchainError("no CUDA compiler found", "Install it.")

    builder = Builder(script(), store, find_nvcc=nothing)
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
        nvcc_of(script), arguments=("-ccbin", "/g++"), cutlass=HeaderLibrary(Path("/cutlass/include"), "4.2.0", "here")
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
    again = await builder.build(request, BuildOptions(force=True))
    assert again.artifact is not None
    assert (again.artifact.folder / "kernel.so").read_bytes() == (tmp_path / "first/kernel.so").read_bytes()


@pytest.mark.toolchain
async def test_real_nvcc_on_a_mistake(real_nvcc: NvccToolchain, store: ArtifactStore) -> None:
    lines: list[str] = []
    built = await Builder(real_nvcc, store).build(
        replace(CU, source=KERNEL.replace("p[threadIdx.x]", "q[0]")),
        on_event=lambda event: lines.append(event.line) if isinstance(event, CompilerLine) else None,
    )
    assert not built.ok
    assert built.fault is None
    assert 'kernel.cu(1): error: identifier "q" is undefined' in built.log
    assert any('identifier "q" is undefined' in line for line in lines)
