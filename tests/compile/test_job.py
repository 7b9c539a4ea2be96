"""One compile, with a compiler that is a shell script."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.job import compile_source
from ckwatch.compile.request import CompileOutcome, Fault, ProductKind, Status
from ckwatch.errors import CkwatchError, ToolchainError
from ckwatch.model.language import Language
from fake_compiler import COMPILES, DEVICE_CODE, REQUEST, Script, request_with
from patience import PATIENCE_S


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work ü"
    path.mkdir()
    return path


async def compiled(script: Script, folder: Path, text: str = COMPILES) -> CompileOutcome:
    return await compile_source(REQUEST, script(text), folder=folder)


async def test_products(script: Script, folder: Path) -> None:
    lines: list[str] = []
    outcome = await compile_source(REQUEST, script(), folder=folder, on_line=lines.append)
    assert (outcome.status, outcome.fault) == (Status.OK, None)
    assert outcome.files[ProductKind.CODE_OBJECT].read_bytes() == DEVICE_CODE
    assert outcome.files[ProductKind.CODE_OBJECT].name == "kernel.gfx942.hsaco"
    assert set(outcome.files) == set(ProductKind) - {ProductKind.RUNNER}
    assert outcome.exports == ("k_1", "std")
    assert [Path(header).name for header in outcome.headers] == ["a b.h"]
    assert outcome.files[ProductKind.DEPENDENCIES].read_text().startswith("kernel.so: \\\n  /")
    assert lines == ["kernel.hip:1:2: warning: said in kernel.hip"]
    assert outcome.log == "kernel.hip:1:2: warning: said in kernel.hip\n"
    assert [command.exit_status for command in outcome.commands] == [0, 0]
    assert (folder / "exports.map").read_text() == "{ global: k_1; local: *; };\n"


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
    assert "CPATH" not in outcome.log
    for line in ("LC_ALL=C.UTF-8", "SOURCE_DATE_EPOCH=0", "TMPDIR=temporary"):
        assert f"{line}\n" in outcome.log


async def test_host_source(script: Script, folder: Path) -> None:
    request = replace(REQUEST, language=Language.CPP, arch="host")
    outcome = await compile_source(request, script(), folder=folder)
    assert outcome.status is Status.OK
    assert ProductKind.CODE_OBJECT not in outcome.files
    compiling, linking = (command.arguments for command in outcome.commands)
    assert "-fopenmp" in compiling
    assert "-fopenmp" in linking
    assert "kernel.cpp" in compiling


async def test_symbol_that_is_not_exported(script: Script, folder: Path) -> None:
    outcome = await compile_source(request_with(symbol="hidden"), script(), folder=folder)
    assert outcome.status is Status.FAILED
    assert "ld: error: the source defines no exported function 'hidden'" in outcome.log


ERROR = "echo \"$PWD/kernel.hip:3:1: error: use of undeclared identifier 'x'\" >&2; "
CRASH = "PLEASE submit a bug report to nowhere and include the crash backtrace"


@pytest.mark.parametrize(
    ("text", "status", "fault", "message"),
    [
        (f"{ERROR} exit 1", Status.FAILED, None, ""),
        ("echo 'kernel.hip:3:1: error: no std::bad_alloc: memory exhausted' >&2; exit 1", Status.FAILED, None, ""),
        ("echo 'kernel.hip:3:1: error: a' >&2; echo '   12 | // Cannot allocate memory' >&2; exit 1", Status.FAILED, None, ""),
        ("kill -KILL $$", Status.TRANSIENT, Fault.KILLED, "hipcc was killed (SIGKILL)"),
        ("kill -TERM $$", Status.TRANSIENT, Fault.KILLED, "hipcc was killed (SIGTERM)"),
        ("exit 137", Status.TRANSIENT, Fault.KILLED, "hipcc was killed (SIGKILL)"),
        ("kill -SEGV $$", Status.TRANSIENT, Fault.CRASHED, "hipcc crashed (SIGSEGV)"),
        ("exit 139", Status.TRANSIENT, Fault.CRASHED, "hipcc crashed (SIGSEGV)"),
        (f"echo '{CRASH}' >&2; exit 1", Status.TRANSIENT, Fault.CRASHED, "hipcc crashed"),
        (
            "echo 'clang++: error: unable to execute command: Killed' >&2; exit 254",
            Status.TRANSIENT,
            Fault.KILLED,
            "hipcc was killed (SIGKILL)",
        ),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", Status.TRANSIENT, Fault.OUT_OF_MEMORY, "hipcc ran out of memory"),
        (
            "echo 'error: unable to open output file: No space left on device' >&2; exit 1",
            Status.TRANSIENT,
            Fault.NO_SPACE,
            "hipcc found no space left",
        ),
        ("exit 5", Status.TRANSIENT, Fault.HOST, "hipcc ended with status 5 and without a word"),
        ("echo 'no licence' >&2; exit 5", Status.TRANSIENT, Fault.HOST, "hipcc ended with status 5: no licence"),
        ("for last; do :; done; echo no object > \"$last\"", Status.TRANSIENT, Fault.HOST, "the compiler left a damaged object: no ELF-64 file"),
        ("exit 0", Status.TRANSIENT, Fault.HOST, "cannot write in"),
    ],
)  # fmt: skip
async def test_who_is_at_fault(
    script: Script, folder: Path, text: str, status: Status, fault: Fault | None, message: str
) -> None:
    outcome = await compiled(script, folder, text)
    assert (outcome.status, outcome.fault) == (status, fault)
    assert outcome.message.startswith(message)


async def test_echoed_command_is_left_out(script: Script, folder: Path) -> None:
    lines: list[str] = []
    toolchain = script("echo 'kernel.hip:1:1: error: a' >&2; echo 'failed to execute:clang++ -c' >&2; exit 1")
    outcome = await compile_source(REQUEST, toolchain, folder=folder, on_line=lines.append)
    assert (outcome.log, lines) == ("kernel.hip:1:1: error: a\n", ["kernel.hip:1:1: error: a"])


async def test_timeout(script: Script, folder: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        outcome = await compile_source(request_with(timeout_s=0.3), script("sleep 1000"), folder=folder)
    assert (outcome.status, outcome.fault) == (Status.TRANSIENT, Fault.TIMED_OUT)
    assert re.fullmatch(r"hipcc was ended after \d+ s", outcome.message)


async def test_missing_headers(script: Script, folder: Path) -> None:
    text = "echo \"kernel.hip:1:1: fatal error: 'ck/no.hpp' file not found\" >&2; exit 1"
    outcome = await compiled(script, folder, text)
    assert (outcome.status, outcome.missing) == (Status.FAILED, ("ck/no.hpp",))


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
