"""Benchmarks in the daemon: real workers on this machine's processor, a real history, a C compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import build, following
from ckwatch.core.events import MAIN
from ckwatch.engine.handlers.compile_facts import ArtifactFiles
from ckwatch.model.causes import ARTIFACT_LOST
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.system.processes import is_running
from ckwatch.wire.benchmarks import BenchLine
from ckwatch.wire.rows import timing_row
from engine.timed_workspace import KERNEL, SETTINGS, TEMPLATE, Timed, lines_of
from fakes.patience import PATIENCE_S
from references.naive_kernels import BATCHED_GEMM, CONVOLUTION, naive_files

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

UNIT = "k/one@host"


@pytest.fixture
def timed(tmp_path: Path) -> Timed:
    return Timed(tmp_path)


def summary(lines: list[BenchLine]) -> list[tuple[str, str | None, str]]:
    """Event, shape, and message of each line."""
    return [(line.event, line.shape, (line.timing.failure or "") if line.timing else line.text) for line in lines]


async def test_units_are_built_and_timed(timed: Timed) -> None:
    async with timed.open() as daemon, following(daemon) as seen:
        lines = await lines_of(daemon)
        assert summary(lines) == [("timing", "small", ""), ("timing", "odd", ""), ("done", None, "")]
        timing = lines[0].timing
        assert timing is not None
        assert timing.verified
        assert (timing.device, timing.cache, timing.standing) == ("cpu", "hot", "fresh")
        assert timing.minimum_us <= timing.median_us
        assert timing.samples > 0
        await seen.until(lambda s: len(s.units["one"].timings) == 2)
        assert {row.standing for row in seen.units["one"].timings} == {"fresh"}
        (detail,) = await daemon.benchmarks.timing(timing.id)
        assert len(detail.times_us) == timing.samples


async def test_sizes_that_the_kernel_file_does_not_have_are_timed_and_found_again(timed: Timed) -> None:
    async with timed.open() as daemon, following(daemon) as seen:
        lines = await lines_of(daemon, shapes=["K=9,M=6,N=5", "M=8,N=16,K=4"])
        assert summary(lines) == [("timing", "small", ""), ("timing", "M=6,N=5,K=9", ""), ("done", None, "")]
        timing = lines[1].timing
        assert timing is not None
        assert {name: timing.sizes[name] for name in "MNK"} == {"M": 6, "N": 5, "K": 9}
        assert [row.shape for row in await daemon.benchmarks.best("k", "N=5 K=9 M=6")] == ["M=6,N=5,K=9"]
        assert [row.id for row in await daemon.benchmarks.timings(UNIT, "M=6,K=9,N=5", 10)] == [timing.id]
        await seen.until(lambda s: len(s.units["one"].timings) == 2)
        for ask in (
            lambda: daemon.benchmarks.best("k", "M=6,N=5"),
            lambda: daemon.benchmarks.timings(UNIT, "M=6,N=5", 1),
        ):
            with pytest.raises(CkwatchError, match="'M=6,N=5' does not say K"):
                await ask()
        with pytest.raises(CkwatchError, match="'Q=5' is not a size of k"):
            await lines_of(daemon, shapes=["M=6,Q=5,K=9"])
    async with timed.open() as daemon:
        await build(daemon)
        assert [row.rank for row in await daemon.benchmarks.best("k", "M=6,N=5,K=9")] == [1]


async def test_what_is_known_is_not_measured_again(timed: Timed) -> None:
    async with timed.open() as daemon:
        measured = [line for line in await lines_of(daemon) if line.timing]
        first = [line.timing.id for line in measured if line.timing]
        known = [line for line in await lines_of(daemon) if line.timing]
        assert first == [line.timing.id for line in known if line.timing]
        assert [{line.known for line in lines} for lines in (measured, known)] == [{False}, {True}]
        forced = [line.timing.id for line in await lines_of(daemon, force=True, shapes=["odd"]) if line.timing]
        assert len(forced) == 1
        assert forced[0] not in first


async def test_the_next_daemon_knows_the_timings(timed: Timed) -> None:
    async with timed.open() as daemon:
        before = [line.timing.id for line in await lines_of(daemon) if line.timing]
    async with timed.open() as daemon, following(daemon) as seen:
        await build(daemon)
        await seen.until(lambda s: "one" in s.units and s.units["one"].fresh)
        rows = seen.units["one"].timings
        assert ([row.id for row in rows], {row.standing for row in rows}) == (before, {"fresh"})
        (brief,) = await daemon.snapshots.unit_rows(MAIN, [UNIT, "gone"])
        assert (brief.timings, brief.untimed) == (tuple(map(timing_row, rows)), False)


async def test_an_edit_times_by_itself_and_the_old_timing_is_stale_meanwhile(timed: Timed) -> None:
    async with timed.open() as daemon, following(daemon) as seen:
        await lines_of(daemon)
        before = {row.id for row in seen.units["one"].timings}
        timed.write("templates/k.cpp.j2", TEMPLATE.replace("float sum = 0;", "float sum = 0.0f + 0 * K;"))
        await seen.until(lambda s: {row.standing for row in s.units["one"].timings} >= {"stale"})
        await seen.until(
            lambda s: len(s.units["one"].timings) == 2 and {row.standing for row in s.units["one"].timings} == {"fresh"}
        )
        assert before.isdisjoint({row.id for row in seen.units["one"].timings} if len(timed.runs) > 1 else set())


async def test_batches_and_convolutions_are_verified_and_timed(timed: Timed) -> None:
    (timed.root / "k.kernel.toml").unlink()
    for name, text in naive_files(batched=BATCHED_GEMM, convolution=CONVOLUTION).items():
        timed.write(name, text)
    flops = {"batched": 2 * 3 * 20 * 17 * 33, "convolution": 2 * (2 * 8 * 6) * 8 * (3 * 3 * 2)}
    async with timed.open() as daemon:
        timings = [line.timing for line in await lines_of(daemon) if line.timing]
        assert {timing.kernel: (timing.failure, timing.verified) for timing in timings} == dict.fromkeys(
            flops, (None, True)
        )
        for timing in timings:
            assert timing.tflops is not None
            assert timing.tflops * timing.median_us * 1e6 == pytest.approx(flops[timing.kernel])
        for name, (right, wrong) in {
            "batched_gemm": ("W[b * ", "W[0 * "),
            "convolution": ("- LeftPads_0;", "- RightPads_0;"),
        }.items():
            text = (timed.root / f"templates/{name}.cpp.j2").read_text()
            timed.write(f"templates/{name}.cpp.j2", text.replace(right, wrong))
        timings = [line.timing for line in await lines_of(daemon) if line.timing]
        assert {timing.kernel: timing.failure for timing in timings} == dict.fromkeys(flops, "wrong result")


def damaged(path: Path) -> bytes:
    """Change one byte of a file; what it held before."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return content


@pytest.mark.parametrize("seen_in_stamps", [True, False])
@pytest.mark.parametrize("product", ["shared-object", "object"])
async def test_a_damaged_artifact_is_never_timed(
    timed: Timed, product: str, seen_in_stamps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte of what a worker would load, whether or not the file's times show it: it is built again and timed."""
    if not seen_in_stamps:
        monkeypatch.setattr(ArtifactFiles, "untouched", lambda _: True)
    async with timed.open() as daemon, following(daemon) as seen:
        await build(daemon)
        await seen.until(lambda s: "one" in s.units and s.units["one"].fresh)
        path = Path(seen.units["one"].products[product])
        content = damaged(path)
        assert summary(await lines_of(daemon, shapes=["small"]))[0] == ("timing", "small", "")
        assert damaged(path) == content
        assert len(timed.runs) == 2
        assert any(cause.what == ARTIFACT_LOST for cause in seen.units["one"].cause)


async def test_a_wrong_result_is_an_error_at_the_instance_and_no_timing(timed: Timed) -> None:
    path = timed.write("k.kernel.toml", KERNEL.replace("Factor = 1", "Factor = 2"))
    async with timed.open() as daemon, following(daemon) as seen:
        lines = await lines_of(daemon, shapes=["small"])
        assert summary(lines) == [("timing", "small", "wrong result"), ("done", None, "")]
        await seen.until(lambda s: path in s.files and any(d.source == "benchmark" for d in s.files[path].diagnostics))
        (error,) = [found for found in seen.files[path].diagnostics if found.source == "benchmark"]
        assert (error.severity, error.code) == ("error", "benchmark/wrong")
        assert error.message.startswith("shape small on cpu: ")
        assert seen.units["one"].outcome == "built"
        timed.write("k.kernel.toml", KERNEL)
        await seen.until(lambda s: not s.files[path].diagnostics and s.units["one"].fresh)


async def test_a_result_that_is_wrong_at_the_edges_of_other_shapes_is_an_error(timed: Timed) -> None:
    timed.write("templates/k.cpp.j2", TEMPLATE.replace("return 0;\n}", "if (M % 2) Y[M - 1] = 0;\n    return 0;\n}"))
    async with timed.open() as daemon:
        lines = await lines_of(daemon, shapes=["small"])
        assert summary(lines) == [("timing", "small", "wrong result"), ("done", None, "")]
        (error,) = (await daemon.units.unit(MAIN, UNIT)).diagnostics
        assert "on a ragged shape: M=389, N=277, K=323, LDA=323" in error.message


async def test_a_kernel_that_takes_the_worker_down_leaves_the_daemon_alive(timed: Timed) -> None:
    timed.write("k.kernel.toml", KERNEL + "Fault = 1\n")
    async with timed.open() as daemon:
        lines = await lines_of(daemon, shapes=["small"])
        assert summary(lines) == [("timing", "small", "crashed"), ("done", None, "")]
        (detail,) = (await daemon.units.unit(MAIN, UNIT)).diagnostics
        assert "SIGABRT" in detail.message
        assert "the kernel's last words" in detail.detail
        assert (await daemon.statuses.status()).unit_count == 1


async def test_a_worker_that_hangs_and_ignores_signals_ends_with_the_daemon(timed: Timed, tmp_path: Path) -> None:
    mark = tmp_path / "hangs"
    hang = (
        f'{{ signal(SIGTERM, SIG_IGN); FILE* mark = fopen("{mark}", "w"); fprintf(mark, "%d.", (int)getpid()); fclose(mark); '
        "for (;;) pause(); }"
    )
    text = TEMPLATE.replace("    const int fault", f"    {hang}\n    const int fault")
    timed.write("templates/k.cpp.j2", f"#include <signal.h>\n#include <unistd.h>\n{text}")

    with anyio.fail_after(PATIENCE_S):
        async with timed.open() as daemon, anyio.create_task_group() as tasks:
            tasks.start_soon(lines_of, daemon)
            while not (mark.exists() and mark.read_text().endswith(".")):  # noqa: ASYNC110  # another process says so
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    worker = int(mark.read_text().rstrip("."))
    assert not is_running(worker)


async def test_a_shape_that_the_instance_does_not_support(timed: Timed) -> None:
    timed.write("k.kernel.toml", KERNEL + "Fault = 2\n")
    async with timed.open() as daemon:
        assert summary(await lines_of(daemon, shapes=["odd"]))[0] == ("timing", "odd", "not supported")
        ranked = await daemon.benchmarks.best("k", "odd")
        assert [(row.rank, row.unit) for row in ranked] == [(None, UNIT)]


async def test_comparisons_and_baselines(timed: Timed) -> None:
    async with timed.open() as daemon:
        with pytest.raises(CkwatchError, match="timed"):
            await daemon.benchmarks.set_baseline("first", None)
        await lines_of(daemon)
        assert await daemon.benchmarks.set_baseline("first", ["k"]) == [UNIT]
        assert [(one.name, one.units) for one in await daemon.benchmarks.baselines()] == [("first", 1)]
        found = await daemon.benchmarks.compare("k/one", "baseline:first", "small")
        assert [row.comparison for row in found] == [None], "a timing is not compared with itself"
        await lines_of(daemon, shapes=["small"], force=True)
        found = await daemon.benchmarks.compare("k/one", "baseline:first", "small")
        assert [(row.shape, row.comparison is not None) for row in found] == [("small", True)]
        assert await daemon.benchmarks.remove_baseline("first") == 1
        with pytest.raises(CkwatchError, match="no baseline 'first'"):
            await daemon.benchmarks.remove_baseline("first")


async def test_mistakes_are_reported_at_once(timed: Timed) -> None:
    async with timed.open() as daemon:
        with pytest.raises(UnknownUnitError):
            await lines_of(daemon, "nothing")
        with pytest.raises(CkwatchError, match="none of these units has a shape 'huge'") as raised:
            await lines_of(daemon, shapes=["huge"])
        assert raised.value.hint == "there are small, odd"
        with pytest.raises(UnknownUnitError):
            await daemon.benchmarks.best("nothing", None)
        with pytest.raises(CkwatchError, match="no measurement 99"):
            await daemon.benchmarks.timing(99)


async def test_units_that_do_not_compile_are_skipped(timed: Timed) -> None:
    timed.write("templates/k.cpp.j2", "this is no C\n")
    async with timed.open() as daemon:
        assert summary(await lines_of(daemon)) == [("skipped", None, "it was not built"), ("done", None, "")]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ('worker = ["/there/is/none"]\n', "/there/is/none"),
        ('launcher = ["false"]\n', "false"),
        ('worker = ["echo", "welcome"]\n', "welcome"),
    ],
)
async def test_a_worker_that_does_not_start_is_reported_and_is_no_error_of_the_kernel(
    tmp_path: Path, settings: str, says: str
) -> None:
    timed = Timed(tmp_path, SETTINGS + settings)
    async with timed.open() as daemon:
        lines = await lines_of(daemon, shapes=["small"])
        assert [line.event for line in lines] == ["skipped", "done"]
        assert says in lines[0].text
        assert (await daemon.units.unit(MAIN, UNIT)).diagnostics == ()


async def test_hip_units_on_a_machine_without_a_driver(tmp_path: Path) -> None:
    from benches.daemon_bench import KERNEL as HIP_KERNEL
    from benches.daemon_bench import Bench

    bench = Bench(tmp_path)
    bench.write("k.kernel.toml", HIP_KERNEL + '[[shape]]\nname = "a"\nM = 8\nN = 8\nK = 8\n')
    async with bench.open() as daemon:
        lines = await lines_of(daemon, "k/one")
        assert [line.event for line in lines] == ["skipped", "done"]
        assert lines[0].text.startswith("no hip device")
