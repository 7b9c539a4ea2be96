"""Programs that are compiled for the emulator: when hipcc is called, and with what."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import ExitReason, ProcessResult
from ckwatch.verification.program_build import BuiltProgram, build_program, hipcc_command, is_source

TOOLCHAIN = cast(
    "Toolchain",
    SimpleNamespace(
        hipcc=Path("/rocm/bin/hipcc"),
        clang=Path("llvm/bin/clang"),
        hip_arguments=("--rocm-path=/rocm",),
        link_arguments=("-L/rocm/lib", "-Wl,--allow-shlib-undefined"),
        environment={"HIP_PLATFORM": "amd"},
        identity="1",
        unknown_flags=(),
    ),
)


class Hipcc:
    """Writes what the source holds, as text before and as program after its compile; fails at `error`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def __call__(
        self, arguments: Sequence[Any], *, environment: Mapping[str, str], **_options: Any
    ) -> ProcessResult:
        assert environment == TOOLCHAIN.environment
        return self.answer([str(word) for word in arguments])

    def answer(self, words: list[str]) -> ProcessResult:
        self.calls.append("preprocess" if "-E" in words else "compile")
        text = Path("a.hip").read_text()
        if "error" in text:
            return result(1, "/p/a.hip:1:1: error: unknown type name 'error' [Semantic Issue]\n")
        if "killed" in text:
            return result(1, "")
        Path(words[words.index("-o") + 1]).write_text(text)
        return result(0, "")


def result(status: int, stderr: str) -> ProcessResult:
    return ProcessResult((), ExitReason.EXITED, status, "", stderr, 0, 0.0, 0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build(hipcc: Hipcc, text: str, *flags: str) -> BuiltProgram:
    Path("a.hip").write_text(text)
    return asyncio.run(build_program(Path("a.hip"), "gfx942", flags, TOOLCHAIN, Path("store"), launch=hipcc))


def test_a_program_is_compiled_again_when_its_text_or_flags_change() -> None:
    hipcc = Hipcc()
    first = build(hipcc, "one")
    assert first.program is not None
    assert first.program.read_text() == "one"
    assert build(hipcc, "one") == first
    assert hipcc.calls == ["preprocess", "compile", "preprocess"]
    assert build(hipcc, "two") != first
    assert build(hipcc, "one", "-O1") != first
    assert hipcc.calls[3:] == ["preprocess", "compile"] * 2
    assert {entry.name[0] for entry in Path("store").iterdir()}.isdisjoint(".")


def test_errors_are_returned_and_what_has_none_is_raised() -> None:
    failed = build(Hipcc(), "error")
    assert failed.program is None
    assert [message.text for message in failed.messages] == ["unknown type name 'error'"]
    with pytest.raises(CkwatchError, match="hipcc failed: exited"):
        build(Hipcc(), "killed")
    assert list(Path("store").iterdir()) == []


def test_the_command_is_one_that_a_user_can_call() -> None:
    words = hipcc_command(Path("a.hip"), "gfx950", ["-O1", "-DN=1"], TOOLCHAIN, Path("a"))
    assert " ".join(words) == (
        "/rocm/bin/hipcc --rocm-path=/rocm --offload-arch=gfx950 -O3 -gline-tables-only -O1 -DN=1 a.hip "
        "-L/rocm/lib -Wl,--allow-shlib-undefined -o a"
    )
    archive = Path("llvm/lib/clang/22/lib/linux/libclang_rt.builtins-x86_64.a")
    archive.parent.mkdir(parents=True)
    archive.touch()
    words = hipcc_command(Path("a.hip"), "gfx950", [], TOOLCHAIN, Path("a"))
    assert words[-4:] == ["-rtlib=compiler-rt", "--unwindlib=libgcc", "-o", "a"], "as AMD's own hipcc links"
    assert is_source("a.hip")
    assert not is_source("hip")
