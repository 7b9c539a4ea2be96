"""From a code object to its report: what the tools are asked, and what becomes of every way in which they fail."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from cases.disassemblies import FOLDER
from ckwatch.codeobject.kernel_names import is_helper
from ckwatch.codeobject.metadata import read_metadata
from ckwatch.codeobject.report import CodeObjectReport, KernelReport
from ckwatch.codeobject.tools.analyze import analyze
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import ToolchainError
from ckwatch.system.async_processes import ExitReason, ProcessResult
from helpers.code_objects import DATA, content

NAME = "gemm_f16_v3_128x128x64.gfx942"
OBJECT = DATA / f"{NAME}.hsaco"
MFMA = "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]"
BODY = f"""\
\tv_mov_b32_e32 v20, v21                                     // 000000002000: 7E280315
\t{MFMA} // 000000002004: D3CC0000 04022510
\ts_cbranch_scc1 65532                                       // 00000000200C: BF85FFFC
\ts_endpgm                                                   // 000000002010: BF810000
"""


@dataclass(frozen=True)
class Tools:
    objdump: Path = Path("/tools/llvm-objdump")
    mca: Path | None = Path("/tools/llvm-mca")
    environment: Mapping[str, str] = field(default_factory=dict)


def finished(
    stdout: str = "", stderr: str = "", status: int = 0, exit_reason: ExitReason = ExitReason.EXITED, dropped: int = 0
) -> ProcessResult:
    return ProcessResult((), exit_reason, status, stdout, stderr, dropped, 0.0, 0)


@dataclass
class Launcher:
    """Answers by the program's name. `mca` has an answer for each run, the last one for all that follow."""

    disassembly: ProcessResult
    mca: list[ProcessResult] = field(default_factory=list)
    code_object: Path = OBJECT
    sources: list[str] = field(default_factory=list)
    folders: set[Path] = field(default_factory=set)

    async def __call__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        **bounds: object,
    ) -> ProcessResult:
        await anyio.lowlevel.checkpoint()
        assert {"timeout_s", "output_limit_bytes"} <= bounds.keys()
        self.folders.add(folder)
        if arguments[0].endswith("objdump"):
            symbols = [one.symbol for one in read_metadata(self.code_object.read_bytes()).kernels]
            names = ",".join(one for one in symbols if not is_helper(one))
            assert arguments[1:] == ["-d", f"--disassemble-symbols={names}", str(self.code_object)]
            return self.disassembly
        self.sources.append((folder / arguments[-1]).read_text())
        return self.mca.pop(0) if len(self.mca) > 1 else self.mca[0]


def disassembly(body: str = BODY, name: str = NAME) -> ProcessResult:
    resources = read_metadata(content(name)).kernels
    return finished("\n".join(f"0000000000002000 <{each.symbol}>:\n{body}" for each in resources))


ANSWER = finished((FOLDER / "mfma.gfx942.mca.json").read_text())


async def report_of(launcher: Launcher, tools: Tools | None = None) -> CodeObjectReport:
    return await analyze(OBJECT, tools or Tools(), "gfx942", launcher=launcher)


async def kernel_of(launcher: Launcher, tools: Tools | None = None) -> KernelReport:
    report = await report_of(launcher, tools)
    (kernel,) = report.kernels
    return kernel


async def test_a_kernel_with_a_loop() -> None:
    launcher = Launcher(disassembly(), [ANSWER])
    report = await report_of(launcher)
    assert report.arch == "gfx942"
    assert report.notes == ()
    (kernel,) = report.kernels  # CK's helper is left out
    assert kernel.resources.name.startswith("gemm_universal")
    assert kernel.occupancy is not None
    assert kernel.occupancy.waves_per_simd == 2
    assert kernel.loop is not None
    assert kernel.loop.mix == {"mfma": 1, "valu": 1, "branch": 1}
    # 8 passes of the matrix unit, and nothing that takes longer
    assert (kernel.loop.clocks, kernel.loop.matrix_use) == (32, 1)
    assert kernel.notes == ()
    assert launcher.sources[0].count(MFMA) == 3
    (folder,) = launcher.folders
    assert not folder.exists()


async def test_without_llvm_mca() -> None:
    report = await report_of(Launcher(disassembly()), Tools(mca=None))
    assert report.notes == ("the toolchain has no llvm-mca: no cycles are predicted",)
    assert report.kernels[0].loop is not None
    assert report.kernels[0].loop.clocks is None


async def test_a_rejected_instruction_is_left_out_and_named() -> None:
    launcher = Launcher(disassembly(), [finished(stderr="loop.s:4:1: error: invalid instruction\n", status=1), ANSWER])
    kernel = await kernel_of(launcher)
    (note,) = kernel.notes
    assert note.startswith("the predicted cycles are without some: llvm-mca rejected 1 of 3 instructions")
    assert note.endswith(", such as `s_cbranch_scc1 65532` (invalid instruction)")
    assert launcher.sources[1].count("s_cbranch") == 0
    assert kernel.loop is not None
    assert kernel.loop.clocks == 32


MANY = "limits.gfx942"


def answer_for_all(count: int, wrong: int | None = None) -> ProcessResult:
    """Return llvm-mca's output for the loops of `count` kernels; that of `wrong` lacks a region."""
    document = json.loads(ANSWER.stdout)
    regions = [
        {**region, "Name": f"{region['Name']}-{number}"}
        for number in range(count)
        for region in document["CodeRegions"]
        if not (number == wrong and region["Name"] == "twice")
    ]
    return finished(json.dumps({**document, "CodeRegions": regions}))


async def report_of_many(*answers: ProcessResult) -> tuple[CodeObjectReport, Launcher]:
    launcher = Launcher(disassembly(name=MANY), list(answers), DATA / f"{MANY}.hsaco")
    return await analyze(launcher.code_object, Tools(), "gfx942", launcher=launcher), launcher


async def test_the_loops_of_all_kernels_in_one_run() -> None:
    count = len(read_metadata(content(MANY)).kernels)
    report, launcher = await report_of_many(answer_for_all(count))
    assert [kernel.loop and kernel.loop.clocks for kernel in report.kernels] == [32] * count
    (source,) = launcher.sources
    assert source.count("LLVM-MCA-BEGIN") == 2 * count
    assert f"# LLVM-MCA-END twice-{count - 1}\n" in source


@pytest.mark.parametrize(
    "refusal",
    [
        finished(stderr="loops.s:3:1: error: instruction not supported on this GPU\n", status=1),
        finished(status=-11, exit_reason=ExitReason.SIGNALLED),
        finished("{}", stderr="'gfx942' is not a recognized processor for this target (ignoring processor)"),
    ],
    ids=["rejects", "crashes", "other processor"],
)
async def test_loops_that_are_not_taken_together_are_taken_one_by_one(refusal: ProcessResult) -> None:
    count = len(read_metadata(content(MANY)).kernels)
    bad = finished(stderr="loop.s:3:1: error: instruction not supported on this GPU\n", status=1)
    report, launcher = await report_of_many(refusal, bad, ANSWER)
    assert len(launcher.sources) == 1 + count + 1
    without = [kernel for kernel in report.kernels if kernel.loop is not None and kernel.loop.clocks is None]
    assert len(without) == 1
    assert without[0].notes[-1].startswith("no cycles are predicted: llvm-mca rejected 1 of 3 instructions")


async def test_an_answer_that_lacks_a_loop() -> None:
    count = len(read_metadata(content(MANY)).kernels)
    report, _ = await report_of_many(answer_for_all(count, wrong=3))
    assert [number for number, kernel in enumerate(report.kernels) if kernel.loop and kernel.loop.clocks != 32] == [3]
    assert report.kernels[3].notes[-1].startswith("llvm-mca's answer is not as expected: KeyError('twice-3')")
    report, _ = await report_of_many(finished("{"))
    assert all(kernel.notes[-1].startswith("llvm-mca's answer is not as expected") for kernel in report.kernels)


REJECTS = finished(stderr="loop.s:2:1: error: invalid instruction\n", status=1)


@pytest.mark.parametrize(
    ("answers", "note"),
    [
        ([REJECTS], "no cycles are predicted: llvm-mca rejected 3 of 3 instructions, such as `v_mov_b32_e32 v20, v21`"),
        (
            [finished(stderr="loop.s:3:1: error: instruction not supported on this GPU\n", status=1), ANSWER],
            f"no cycles are predicted: llvm-mca rejected 1 of 3 instructions, such as `{MFMA}`",
        ),
        ([finished(stderr="error: strange\n", status=1)], "llvm-mca failed, no cycles are predicted: error: strange"),
        ([finished(status=-11, exit_reason=ExitReason.SIGNALLED)], "llvm-mca failed, no cycles are predicted: SIGSEGV"),
        (
            [finished(exit_reason=ExitReason.TIMED_OUT, status=-15)],
            "llvm-mca failed, no cycles are predicted: timed out",
        ),
        ([finished("{")], "llvm-mca's answer is not as expected"),
        (
            [finished(stderr="'gfx942' is not a recognized processor for this target (ignoring processor)", status=1)],
            "llvm-mca does not know gfx942: no cycles are predicted",
        ),
        (
            [finished(ANSWER.stdout.replace('"ResourceUsage":8', '"ResourceUsage":1'))],
            "LLVM's model of gfx942 has no latencies of matrix instructions: no cycles are predicted",
        ),
    ],
)
async def test_what_becomes_of_llvm_mcas_failures(answers: list[ProcessResult], note: str) -> None:
    kernel = await kernel_of(Launcher(disassembly(), answers))
    assert len(kernel.notes) == 1
    assert kernel.notes[0].startswith(note)
    assert kernel.loop is not None
    assert kernel.loop.mix["mfma"] == 1
    assert (kernel.loop.clocks, kernel.loop.matrix_use) == (None, None)


@pytest.mark.parametrize(
    ("answer", "notes", "of_kernel"),
    [
        (
            finished(stderr="llvm-objdump: error: bad\n", status=1),
            ("llvm-objdump failed: llvm-objdump: error: bad",),
            ("the kernel is not in the disassembly",),
        ),
        (
            finished(status=-9, exit_reason=ExitReason.SIGNALLED),
            ("llvm-objdump failed: SIGKILL",),
            ("the kernel is not in the disassembly",),
        ),
        (finished(), (), ("the kernel is not in the disassembly",)),
        (
            finished("0000000000002000 <another>:\n" + BODY, dropped=1),
            ("the disassembly is too long: its end was not analysed",),
            ("the kernel is not in the disassembly",),
        ),
        (disassembly("\t\t...\n"), (), ("no instructions in the disassembly",)),
    ],
)
async def test_what_becomes_of_llvm_objdumps_failures(
    answer: ProcessResult, notes: tuple[str, ...], of_kernel: tuple[str, ...]
) -> None:
    report = await report_of(Launcher(answer))
    assert report.notes == notes
    (kernel,) = report.kernels
    assert kernel.notes == of_kernel
    assert kernel.loop is None
    assert kernel.resources.vgprs > 0


async def test_tools_that_cannot_be_started() -> None:
    async def missing(arguments: Sequence[str], **_: object) -> ProcessResult:
        raise ToolchainError(f"cannot start {arguments[0]}: No such file or directory", "")

    report = await analyze(OBJECT, Tools(), "gfx942", launcher=missing)
    assert report.notes == ("cannot start /tools/llvm-objdump: No such file or directory",)
    assert len(report.kernels) == 1


@pytest.mark.parametrize("content", [b"", b"no code object", OBJECT.read_bytes()[:3000], b"\x7fELF" + b"\0" * 100])
async def test_damaged_code_objects(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.hsaco"
    path.write_bytes(content)
    report = await analyze(path, Tools(), "gfx942", launcher=Launcher(finished()))
    assert report.arch == "gfx942"
    assert report.kernels == ()
    assert len(report.notes) >= 1


async def test_a_code_object_that_is_gone(tmp_path: Path) -> None:
    report = await analyze(tmp_path / "gone.hsaco", Tools(), "gfx942", launcher=Launcher(finished()))
    assert report == CodeObjectReport(
        arch="gfx942", kernels=(), notes=("the code object cannot be read: No such file or directory",)
    )


async def test_nothing_is_left_of_a_cancelled_analysis() -> None:
    folders: list[Path] = []

    async def hangs(arguments: Sequence[str], *, folder: Path, **_: object) -> ProcessResult:
        folders.append(folder)
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.CancelScope() as scope:
        await analyze(OBJECT, Tools(), "gfx942", launcher=hangs)
    assert scope.cancelled_caught
    assert len(folders) == 1
    assert not folders[0].exists()


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("name", "figures"),
    [
        # FLOPs, bytes from memory and to and from LDS as in test_loops; llvm-mca: 32 MFMA of 8 passes, a pass is 4 clocks
        (NAME, (524288, 8192, 8192, 16384, 1024)),
        # the same instructions; on CDNA 2 a 32×32×8 MFMA has 16 passes: 1,024 FLOPs a clock and CU, half of CDNA 3's
        ("gemm_f16_v3_128x128x64.gfx90a", (524288, 8192, 8192, 16384, 2048)),
        ("gemm_bf16_bias_silu_64x64x32.gfx90a", (None, None, None, None, None)),
        ("gemm_bf16_bias_silu_64x64x32.gfx1201", (None, None, None, None, None)),
    ],
)
async def test_with_the_real_tools(name: str, figures: tuple[int | None, ...]) -> None:
    report = await analyze(DATA / f"{name}.hsaco", discover(), "gfx942")
    assert report.notes == ()
    assert report.arch == name.rpartition(".")[2]
    loop = report.kernels[0].loop
    assert loop is not None
    assert loop.clocks is not None
    assert loop.clocks > 0
    if figures[0] is None:
        assert loop.matrix_use is None
        return
    assert loop.matrix_use is not None
    found = (loop.flops, loop.global_load_bytes, loop.lds_write_bytes, loop.lds_read_bytes)
    assert (*found, loop.matrix_use * loop.clocks) == figures
