"""Faults that a measurement finds in kernels, on the real CPU in this process and on a fake device."""

from __future__ import annotations

import hashlib
import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches.bench_kernels import M, N, gemm_problem, job, shared_object
from cases.reference_case import called_reference
from ckwatch.bench.event_noise import PAIRS
from ckwatch.bench.guarded_memory import GUARD_BYTES
from ckwatch.bench.job import Contestant, Job
from ckwatch.bench.report import BenchmarkReport, DeviceReading, FailureKind
from ckwatch.bench.run_job import FLUSH_FACTOR, UNKNOWN_CACHE_BYTES, Measurement
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceEvent, DeviceRuntime
from ckwatch.model.kernel_problem import KernelArgument
from ckwatch.model.roofline import CacheState
from ckwatch.model.tensor_values import ContentKind, TensorValues
from fakes.fake_runtime import FACTS, FakeRuntime


@pytest.fixture
def on_cpu(processor_runtime: DeviceRuntime) -> DeviceRuntime:
    """The real CPU."""
    return processor_runtime


class Told:
    """A measurement's outcome, and where it was when it failed."""

    def __init__(self, runtime: DeviceRuntime, asked: Job, *artifacts: bytes) -> None:
        self.stages: list[tuple[str, str]] = []
        self.report: BenchmarkReport | None = None
        self.failure: BenchmarkError | None = None
        try:
            self.report = Measurement(runtime, asked, lambda stage, name: self.stages.append((stage, name))).report(
                artifacts
            )
        except BenchmarkError as failure:
            self.failure = failure

    @property
    def where(self) -> tuple[str, str]:
        return self.stages[-1]


def failed(runtime: DeviceRuntime, asked: Job, *artifacts: bytes) -> tuple[BenchmarkError, tuple[str, str]]:
    told = Told(runtime, asked, *artifacts)
    assert told.failure is not None, told.report
    return told.failure, told.where


def succeeded(runtime: DeviceRuntime, asked: Job, *artifacts: bytes) -> BenchmarkReport:
    told = Told(runtime, asked, *artifacts)
    assert told.report is not None, told.failure
    return told.report


BEHIND = "Y[(M - 1) * LDC + N + 5] = 1.0f;"
WRONG = [
    pytest.param({"after": BEHIND}, FailureKind.OUT_OF_BOUNDS, "wrote behind Y", id="behind the output"),
    pytest.param({"after": "Y[-3] = 1.0f;"}, FailureKind.OUT_OF_BOUNDS, "wrote before Y", id="before the output"),
    pytest.param({"after": "Y[N] = 1.0f;"}, FailureKind.OUT_OF_BOUNDS, "Y", id="in a gap"),
    pytest.param(
        {"after": "((float*)X)[-1] = 1.0f;"}, FailureKind.OUT_OF_BOUNDS, "wrote before X", id="before an input"
    ),
    pytest.param(
        {"after": "workspace[64] = 1;", "workspace": "64"},
        FailureKind.OUT_OF_BOUNDS,
        "wrote behind its workspace",
        id="behind the workspace",
    ),
    pytest.param(
        {"after": "if (runs > 8) ((float*)X)[0] = 0.0f;"},
        FailureKind.OUT_OF_BOUNDS,
        "to its input X",
        id="an input, late",
    ),
    pytest.param(
        {"after": "if (runs > 8) " + BEHIND}, FailureKind.OUT_OF_BOUNDS, "wrote behind Y", id="behind it, late"
    ),
    pytest.param({"after": "Y[LDC + 2] *= 1.01f;"}, FailureKind.WRONG, "before timing", id="wrong"),
    pytest.param(
        {"after": "if (runs > 8) Y[LDC + 2] *= 1.01f;"},
        FailureKind.NONDETERMINISTIC,
        "after timing",
        id="wrong after a while",
    ),
    pytest.param(
        {"after": "if (M) return 0; Y[0] = 0;", "before": "return 0;"}, FailureKind.UNWRITTEN, "Y", id="nothing done"
    ),
    pytest.param(
        {"before": "float old = Y[LDC + 2];", "after": "Y[LDC + 2] = old;"},
        FailureKind.UNWRITTEN,
        "Y",
        id="one left out",
    ),
    pytest.param({"after": "Y[LDC + 2] = -NAN; Y[LDC + 2] = NAN;"}, FailureKind.WRONG, "NaN", id="NaN computed"),
    pytest.param(
        {"after": "Y[LDC + 2] += X[-1];"}, FailureKind.WRONG, "1 of 480 elements of Y are NaN", id="read before"
    ),
    pytest.param(
        {"after": "if (runs % 2) Y[3] *= 1.0000005f;"},
        FailureKind.NONDETERMINISTIC,
        "another result when the kernel runs again",
        id="every second run",
    ),
]


@pytest.mark.parametrize(("places", "kind", "told"), WRONG)
def test_wrong_results(on_cpu: DeviceRuntime, places: dict[str, str], kind: FailureKind, told: str) -> None:
    found, where = failed(on_cpu, job("ours"), shared_object(**places))
    assert found.kind is kind, found
    assert told in found.message
    assert where[1] == "ours"


REFERENCES = [
    ("return X @ W", None, ""),
    ("return X @ W * 1.01", FailureKind.WRONG, "480 of 480 elements of Y are wrong (before timing"),
    ("return X", FailureKind.REFERENCE, "reference.py:2: Y has the shape (24, 32); it must be (24, 20)"),
]


@pytest.mark.parametrize(("body", "kind", "told"), REFERENCES)
def test_a_users_reference(
    on_cpu: DeviceRuntime, tmp_path: Path, body: str, kind: FailureKind | None, told: str
) -> None:
    text = f"def f(X, W):\n    {body}\n"
    problem, reference = called_reference(gemm_problem(), tmp_path / "reference.py", text)
    asked = job("ours", problem=problem, reference=reference)
    if kind is None:
        verification = succeeded(on_cpu, asked, shared_object()).measured[0].verification
        assert verification is not None
        assert (verification.reference, verification.compared) == ("reference.py:f, every element", 480)
        return
    found, _ = failed(on_cpu, asked, shared_object())
    assert found.kind is kind
    assert told in found.message
    mistake = found.mistake
    assert (mistake and (mistake.path, mistake.line)) == (
        (str(tmp_path / "reference.py"), 2) if kind is FailureKind.REFERENCE else None
    )


RAGGED = (gemm_problem(27, 21, 33), gemm_problem(26, 22, 34), gemm_problem(28, 20, 36))


def test_edges_are_verified_on_a_ragged_shape(on_cpu: DeviceRuntime) -> None:
    whole_tiles = shared_object(after="if (M % 4) Y[(M - 1) * LDC] = 0;")
    succeeded(on_cpu, job("ours"), whole_tiles)
    found, _ = failed(on_cpu, job("ours", ragged=RAGGED), whole_tiles)
    assert found.kind is FailureKind.WRONG
    assert found.message.endswith("on a ragged shape: M=27, N=21, K=33, LDA=33, LDB=21, LDC=25, kBatch=1")
    assert "-23" in found.hint


@pytest.mark.parametrize("refuses", ["M % 2", "M % 4"])
def test_a_ragged_shape_that_is_refused_gives_way_to_the_next(on_cpu: DeviceRuntime, refuses: str) -> None:
    wrong_later = shared_object(check=f"if ({refuses}) return -23;", after="if (M == 28) Y[0] = 3;")
    if refuses == "M % 4":
        found, _ = failed(on_cpu, job("ours", ragged=RAGGED), wrong_later)
        assert "M=28" in found.message
    else:
        assert not any("ragged" in note for note in succeeded(on_cpu, job("ours", ragged=RAGGED), wrong_later).notes)


def test_that_all_ragged_shapes_are_refused_is_noted(on_cpu: DeviceRuntime) -> None:
    found = succeeded(on_cpu, job("ours", ragged=RAGGED), shared_object(check="if (M != 24) return -23;"))
    assert "ours refuses ragged shapes: it was verified on whole tiles alone" in found.notes


def test_what_is_written_out_of_bounds_is_told_to_the_byte(on_cpu: DeviceRuntime) -> None:
    found, _ = failed(on_cpu, job("ours"), shared_object(after="memset(&Y[(M - 1) * LDC + N + 5], 1, 7);"))
    assert "of the 4096 bytes behind it at least 7 were written, the nearest of them byte 21 behind it" in found.detail


REFUSALS = [
    ("return -23;", FailureKind.REFUSED, "does not support this shape: gemm returned -23 when it was asked"),
    ("if (workspace_size == NULL) return -23;", FailureKind.REFUSED, "does not support this shape: gemm returned -23"),
    ("return 7;", FailureKind.ERROR_CODE, "gemm returned 7 when it was asked for its workspace"),
    ("if (workspace_size == NULL && runs == 8) return 98;", FailureKind.ERROR_CODE, "gemm returned 98"),
]


@pytest.mark.parametrize(("check", "kind", "told"), REFUSALS)
def test_error_codes_come_with_the_arguments(on_cpu: DeviceRuntime, check: str, kind: FailureKind, told: str) -> None:
    found, where = failed(on_cpu, job("ours"), shared_object(check=check))
    assert found.kind is kind
    assert told in found.message
    for line in ("int32_t M = 24", "int32_t kBatch = 1", "const float* X = ", "(768 elements of f32)"):
        assert line in found.detail
    assert where[1] == "ours"


ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9


@pytest.mark.parametrize(
    ("artifact", "kind", "told"),
    [
        pytest.param(b"", FailureKind.UNLOADABLE, "not a shared object", id="empty"),
        pytest.param(ELF + b"\3\0\xb7\0" + b"\0" * 44, FailureKind.WRONG_ARCH, "AArch64", id="another processor"),
        pytest.param(ELF + b"\3\0\x3e\0" + b"\0" * 44, FailureKind.UNLOADABLE, "cannot be loaded", id="cut off"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the rows are told from x86-64")
def test_artifacts_that_cannot_be_loaded(on_cpu: DeviceRuntime, artifact: bytes, kind: FailureKind, told: str) -> None:
    found, where = failed(on_cpu, job("ours"), artifact)
    assert found.kind is kind
    assert told in found.message
    assert where == ("loading the artifact", "ours")


def test_an_undefined_symbol(on_cpu: DeviceRuntime) -> None:
    found, _ = failed(on_cpu, job("ours"), shared_object(declarations="void nowhere(void);", before="nowhere();"))
    assert found.kind is FailureKind.UNLOADABLE
    assert "undefined symbol: nowhere" in found.detail


def test_a_function_that_is_not_exported(on_cpu: DeviceRuntime) -> None:
    asked = replace(job("ours"), contestants=(Contestant(name="ours", artifact=0, symbol="other"),))
    found, _ = failed(on_cpu, asked, shared_object())
    assert (found.kind, found.message) == (FailureKind.UNLOADABLE, "the artifact does not export other")


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        (KernelArgument(name="M", c_type="int32_t", value=2**31), "argument M = 2147483648 does not fit int32_t"),
        (KernelArgument(name="M", c_type="uint8_t", value=-1), "argument M = -1 does not fit uint8_t"),
        (KernelArgument(name="M", c_type="int32_t", value=1.5), "argument M = 1.5 does not fit int32_t"),
        (KernelArgument(name="M", c_type="float", value=None), "argument M = None does not fit float"),
        (
            KernelArgument(name="M", c_type="half", value=1),
            "argument M has the C type `half`, which cannot be called from here",
        ),
    ],
)
def test_values_that_their_types_do_not_hold(on_cpu: DeviceRuntime, argument: KernelArgument, told: str) -> None:
    problem = gemm_problem()
    arguments = tuple(argument if one.name == "M" else one for one in problem.arguments)
    found, _ = failed(on_cpu, job("ours", problem=replace(problem, arguments=arguments)), shared_object())
    assert (found.kind, found.message) == (FailureKind.REFUSED, told)


def test_buffers_that_no_argument_takes_are_poison_too(on_cpu: DeviceRuntime) -> None:
    """A custom operation: what it computes is not known, but that it writes its output and nothing else is looked at."""
    problem = replace(gemm_problem(), computed=None, flops=None)
    report = succeeded(on_cpu, job("ours", problem=problem), shared_object())
    assert report.measured[0].verification is None
    failure, _ = failed(on_cpu, job("ours", problem=problem), shared_object(before="return 0;"))
    assert failure.kind is FailureKind.UNWRITTEN
    failure, _ = failed(on_cpu, job("ours", problem=problem), shared_object(after="Y[N] = 1.0f;"))
    assert failure.kind is FailureKind.OUT_OF_BOUNDS


@pytest.mark.parametrize("dtype", ["f16", "i32"])
def test_no_library_for_this_problem(on_cpu: DeviceRuntime, dtype: str) -> None:
    asked = job(library=True, problem=gemm_problem(dtype=dtype))
    failure, where = failed(on_cpu, replace(asked, contestants=asked.contestants[-1:]))
    assert (failure.kind, failure.message) == (FailureKind.REFUSED, "cpu has no library for this problem")
    assert where == ("asking for the vendor's library", "library")


def test_the_library_alone(on_cpu: DeviceRuntime) -> None:
    asked = job(library=True)
    report = succeeded(on_cpu, replace(asked, contestants=asked.contestants[-1:]))
    assert [measured.contestant for measured in report.measured] == ["library"]


def test_each_contestant_has_the_processors_that_its_threads_need(on_cpu: DeviceRuntime) -> None:
    """A runtime that binds the calling thread (OpenMP's does) does not bind the others."""
    binds = "cpu_set_t one; CPU_ZERO(&one); CPU_SET(sched_getcpu(), &one); sched_setaffinity(0, sizeof one, &one);"
    needs_all = "if (count() < all) return 9;"
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    include = "#include <sched.h>"
    counts = """
        static int all;
        static int count(void) { cpu_set_t mine; sched_getaffinity(0, sizeof mine, &mine); return CPU_COUNT(&mine); }
        __attribute__((constructor)) static void look(void) { all = count(); }
    """
    artifacts = (
        shared_object(before=binds, declarations=include),
        shared_object(before=needs_all, declarations=include + counts),
    )
    succeeded(on_cpu, job("binds", "needs all"), *artifacts)


# On a fake device: what the CPU cannot show.


def fake(**changes: Any) -> FakeRuntime:
    return FakeRuntime(**changes)


def test_contestants_share_buffers_and_the_report_has_all(on_cpu: DeviceRuntime) -> None:
    runtime = fake(clock_mhz=lambda: 2000.0)
    asked = job("a", "b", caches=(CacheState.COLD, CacheState.HOT), seeds=(5, 6, 7))
    report = succeeded(runtime, asked, shared_object(workspace="64"), shared_object())
    assert report.device == FACTS
    assert (
        report.readings == (DeviceReading(clock_mhz=2000.0),) * 4
    )  # before, after the warm-up of each state, at the end
    assert report.versions["fake"] == "1"
    assert [(one.contestant, one.workspace_bytes) for one in report.measured] == [("a", 64), ("b", 0)]
    for one in report.measured:
        assert [samples.cache for samples in one.samples] == [CacheState.COLD, CacheState.HOT]
        assert [set(samples.times_us) for samples in one.samples] == [{20.0}, {10.0}]
        assert one.verification is not None
        assert one.verification.seeds == (5, 6, 7)
    flushes = {size for size in runtime.fills if size == FLUSH_FACTOR * FACTS.last_level_cache_bytes}
    assert flushes


def test_a_cache_of_unknown_size_is_taken_to_be_large() -> None:
    runtime = fake(facts=replace(FACTS, last_level_cache_bytes=0))
    report = succeeded(runtime, job("ours", caches=(CacheState.COLD,)), shared_object())
    assert max(runtime.fills) >= FLUSH_FACTOR * UNKNOWN_CACHE_BYTES
    assert report.notes[0] == "the last-level cache is not known: 256 MiB are assumed"


def test_memory_is_looked_at_before_it_is_taken() -> None:
    runtime = fake(free_bytes=200_000)
    failure, _ = failed(runtime, job("ours", caches=(CacheState.COLD,)), shared_object(workspace="100000"))
    assert failure.kind is FailureKind.NO_MEMORY
    needed = 3072 + 2560 + 4 * (23 * 24 + 20) + 100_000 + 2 * 65536 + 5 * 2 * GUARD_BYTES
    assert failure.message == f"{needed / 1e6:.2f} MB of memory are needed and 0.20 MB are free on fake:0"
    assert "workspace of ours: 100000 bytes\n" in failure.detail
    assert "flushing caches: 131072 bytes\n" in failure.detail
    assert runtime.log == []


@pytest.mark.parametrize(("time_us", "possible"), [(0.9, False), (1.05, True)])
def test_a_time_below_the_roofline_is_no_timing(time_us: float, possible: bool) -> None:
    """The operands of this problem need 1 us at 5.3 TB/s."""
    facts = replace(FACTS, name="hip:0", description="AMD Instinct MI300X", arch="gfx942", compute_units=304)
    problem = replace(gemm_problem(), bytes_moved=5_300_000)
    runtime = fake(facts=facts, cost_us=lambda _cold: time_us)
    told = Told(runtime, job("ours", problem=problem, caches=(CacheState.COLD,)), shared_object())
    if possible:
        assert told.report is not None
        return
    assert told.failure is not None
    assert told.failure.kind is FailureKind.IMPOSSIBLE
    assert "a median of 0.9 us (cold cache) is below what the device can do, 1 us by its memory" in told.failure.message
    assert told.where == ("looking at the times", "ours")


def test_discarded_samples_are_noted() -> None:
    """The second block of the timing is the first one that counts."""
    stage = ""
    timed = 0

    def at(name: str, _: str) -> None:
        nonlocal stage
        stage = name

    def clock() -> float:
        nonlocal timed
        timed += stage.startswith("timing")
        return 1000.0 if timed == 2 else 2000.0

    report = Measurement(fake(clock_mhz=clock), job("ours"), at).report([shared_object()])
    (samples,) = report.measured[0].samples
    assert samples.discarded > 0
    note = f"ours, hot: {samples.discarded} samples were discarded, taken below 75% of the warm-up's clock"
    assert note in report.notes


def test_what_slows_the_device_down_is_noted() -> None:
    class Throttled(FakeRuntime):
        def reading(self) -> DeviceReading:
            reasons = ("power",) if self.log.count("reading") % 2 else ("heat", "power")
            return replace(super().reading(), throttled_by=reasons)

    report = succeeded(Throttled(), job("ours"), shared_object())
    assert [re.sub(r"\d+", "N", note) for note in report.notes if note.startswith("slowed")] == [
        "slowed down by heat during N of N blocks of launches",
        "slowed down by power during N of N blocks of launches",
    ]


def test_a_fault_of_the_device_is_the_contestants() -> None:
    class Faulty(FakeRuntime):
        def wait(self, event: DeviceEvent) -> None:
            super().wait(event)
            if self.log.count("end") > 20 + 2 * PAIRS:
                raise BenchmarkError(FailureKind.FAULT, "hipErrorIllegalAddress")

    failure, where = failed(Faulty(), job("ours"), shared_object())
    assert failure.kind is FailureKind.FAULT
    assert where[1] == "ours"


def test_instruction_caches_cannot_be_flushed_everywhere() -> None:
    failure, _ = failed(FakeRuntime(), job("ours", flush_instructions=True), shared_object())
    assert failure.kind is FailureKind.BROKEN
    assert failure.message == "instruction caches cannot be flushed: there are none for fake devices"
    assert "instruction_cache" in failure.hint


def test_the_report_has_the_noise_floor_and_what_slowed_the_device_down() -> None:
    found = Measurement(FakeRuntime(), job("ours"), lambda _stage, _name: None).report([shared_object()])
    assert found.noise_floor is not None
    assert found.noise_floor.us == max(found.noise_floor.resolution_us, found.noise_floor.jitter_us)
    assert found.slowed == {}
    assert not found.flushed_instructions


FIRST = TensorValues(kind=ContentKind.CONSTANT, numbers=(3,))


def with_in_out_y(values: TensorValues) -> Job:
    """A job of an unknown computation that reads Y, which holds these values."""
    asked = job("ours")
    x, w, y = asked.problem.buffers
    changed = replace(asked.problem, computed=None, buffers=(x, w, replace(y, in_out=True, values=values)))
    return replace(asked, problem=changed)


def test_in_out_tensors_hold_their_first_content_before_each_launch(on_cpu: DeviceRuntime) -> None:
    reads = {"before": "float old = Y[LDC + 1];", "after": "if (old != 3.0f) return 7; Y[LDC + 1] = old + X[3];"}
    succeeded(on_cpu, with_in_out_y(FIRST), shared_object(**reads))
    adds = {"before": "float old = Y[LDC + 1];", "after": "Y[LDC + 1] = old + runs;"}
    found, _ = failed(on_cpu, with_in_out_y(FIRST), shared_object(**adds))
    assert found.kind is FailureKind.NONDETERMINISTIC
    leaves = {"before": "float old = Y[LDC + 1];", "after": "Y[LDC + 1] = old;"}
    succeeded(on_cpu, with_in_out_y(FIRST), shared_object(**leaves))


def test_a_content_from_a_file_goes_along_with_the_job(on_cpu: DeviceRuntime) -> None:
    content = io.BytesIO()
    np.save(content, np.full((M, N), 5.0))
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    asked = with_in_out_y(TensorValues(kind=ContentKind.FILE, digest=digest))
    reads = {"before": "float old = Y[LDC + 1];", "after": "if (old != 5.0f) return 7;"}
    succeeded(on_cpu, asked, shared_object(**reads), content.getvalue())
