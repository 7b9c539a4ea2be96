"""Can a difference of 2 % be told on the host's processor? The OpenMP GEMM of `examples/cpp`, each trial in a worker.

Twenty times each, both in turns: a variant that waits 2 % of the kernel's time after it must be called SLOW, another
build of the same source SAME, in at least 19 of 20. The reference is what the intervals of two measurements taken apart
would have said of the same samples.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import anyio

from benchmarks.choosing import alone
from benchmarks.cuda_kernels import delayed_request, delayed_symbol
from benchmarks.reporting import Row
from ckwatch.bench.job import Contestant, Job, Precision
from ckwatch.bench.report import BenchmarkReport
from ckwatch.bench.stats.comparison import SpeedVerdict, compare, compare_interleaved
from ckwatch.bench.stats.summary import summarize
from ckwatch.bench.worker_session import WorkerStart
from ckwatch.bench.worker_session import measure as measure_in_worker
from ckwatch.compile.builder import Builder
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Shape, Unit
from ckwatch.model.roofline import CacheState
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace

MEASURED_CODE = ("daemon/ckwatch/bench",)

EXAMPLE = Path(__file__).parents[1] / "examples/cpp"
UNIT = "gemm_f32/6x16@host"
SIZE = 192
TRIALS, ENOUGH = 20, 19
SLOWER = 0.02
DELAY = "CKWATCH_DELAY_NS"

_DELAYED = """
#include <cstdlib>
#include <time.h>

namespace {{
long long now_ns() {{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}}
}}  // namespace

extern "C" PT_EXPORT int {symbol}_delayed({declarations}) {{
    const int status = {symbol}({names});
    if (status != 0 || workspace_size != nullptr) return status;
    const char* delay_ns = std::getenv("{variable}");
    const long long end = now_ns() + (delay_ns == nullptr ? 0 : std::atoll(delay_ns));
    while (now_ns() < end) {{}}
    return 0;
}}
"""


async def built(request: CompileRequest, folder: Path) -> bytes:
    """A shared object, from a store of its own."""
    with ArtifactStore(folder) as store:
        result = await Builder(discover(), store).build(request)
    if result.artifact is None or result.artifact.shared_object is None:
        raise CkwatchError(f"{UNIT} does not compile", result.log[-2000:])
    return result.artifact.shared_object.read_bytes()


def job_of(unit: Unit, contestants: tuple[Contestant, ...], cache: CacheState) -> Job:
    """The measurement of a GEMM that is small enough for a shared machine."""
    known = unit.kernel.shapes[0]
    sizes = {name: SIZE if name in ("M", "N", "K") or value else 0 for name, value in known.sizes.items()}
    problem = problem_of(unit.kernel.operation, Shape("trial", sizes, known.runtime, known.span), "host")
    precision = Precision(budget_s=4.0, relative_error=0.002)
    return Job(
        device="cpu", kind="cpu", arch="host", problem=problem, contestants=contestants, caches=(cache,),
        precision=precision, lease_wait_s=600,
    )  # fmt: skip


async def report_of(job: Job, artifacts: list[bytes], delay_ns: int = 0) -> BenchmarkReport:
    """Measure what a worker measures."""
    start = WorkerStart(environment={**os.environ, DELAY: str(delay_ns)})
    outcome = await measure_in_worker(job, artifacts, start, time_limit_s=120)
    if not isinstance(outcome, BenchmarkReport):
        raise CkwatchError(f"{outcome.kind}: {outcome.message}", outcome.detail)
    return outcome


async def compared() -> list[Row]:
    """Rows: how often each was called what it is."""
    workspace = load_workspace(EXAMPLE)
    unit = next(unit for unit in workspace.units if unit.id == UNIT)
    rendered = Renderer(workspace.template_folders).render(unit).rendered
    if rendered is None:
        raise CkwatchError(f"{UNIT} does not render")
    request = compile_request(workspace, unit, rendered)
    rows = []
    with tempfile.TemporaryDirectory(prefix="ckwatch-benchmark-") as folder:
        base = await built(request, Path(folder) / "base")
        again = await built(request, Path(folder) / "again")
        slower = await built(delayed_request(request, _DELAYED, DELAY), Path(folder) / "delayed")
        first = Contestant(name="base", artifact=0, symbol=request.symbol)
        for cache in (CacheState.HOT, CacheState.COLD):
            alone_report = await report_of(job_of(unit, (first,), cache), [base])
            median_us = summarize(alone_report.measured[0].samples[0].times_us).median_us
            print(f"{cache}: the kernel takes {median_us:.1f} us", flush=True)
            for name, other, symbol, wanted in (
                (
                    "a variant that is 2 % slower is called SLOW",
                    slower,
                    delayed_symbol(request.symbol),
                    SpeedVerdict.SLOW,
                ),
                ("two builds of one source are called SAME", again, request.symbol, SpeedVerdict.SAME),
            ):
                other_one = Contestant(name="other", artifact=1, symbol=symbol)
                found, apart, ratios = [], [], []
                for _ in range(TRIALS):
                    report = await report_of(
                        job_of(unit, (other_one, first), cache),
                        [base, other],
                        round(1e3 * SLOWER * median_us),
                    )
                    ours, theirs = (one.samples[0] for one in report.measured)
                    told = compare_interleaved(ours.times_us, theirs.times_us, min(ours.blocks, theirs.blocks))
                    found.append(told.verdict)
                    ratios.append(told.ratio)
                    apart.append(compare(summarize(ours.times_us), summarize(theirs.times_us)).verdict)
                right = sum(verdict is wanted for verdict in found)
                print(
                    f"{cache}: {name}: {right} of {TRIALS}, ratios {min(ratios):.4f} to {max(ratios):.4f}", flush=True
                )
                rows.append(
                    Row(
                        f"CPU, {cache} cache: {name}",
                        right,
                        sum(verdict is wanted for verdict in apart),
                        "the same samples by their intervals",
                        "trials",
                        right / TRIALS,
                        "at least 19 of 20",
                        right >= ENOUGH,
                        TRIALS,
                    )
                )
    return rows


def measure() -> list[Row]:
    """Four rows."""
    return anyio.run(compared)


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
