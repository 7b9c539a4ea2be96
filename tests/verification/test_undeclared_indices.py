"""Inputs that are used as indices without the kernel file saying so."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ckwatch.bench.job import VerifyJob
from ckwatch.bench.progress import Progress
from ckwatch.bench.worker_protocol import TrialVerified
from ckwatch.checks.verification_diagnostics import diagnostics_once, severity_of
from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernel_problem import Buffer, KernelArgument, KernelProblem, TensorView
from ckwatch.model.tensor_values import ContentKind, TensorValues
from ckwatch.model.text import span
from ckwatch.model.trials import Trial
from ckwatch.model.verification import FindingKind, ProblemOutcome, Verification, VerificationOutcome
from ckwatch.verification.findings import merged
from ckwatch.verification.undeclared_indices import IndexUse, Probe, declared, probe_values, spots_of, suspects, use_of
from ckwatch.verification.verify_job import verify_job
from fakes.fake_emulator import Arrays, FakeEmulator, FakeLoader
from helpers.emulator_findings import told

ROWS, COLUMNS, TOKENS = 16, 4, 6


def buffer(name: str, dtype: str, elements: int, **more: Any) -> Buffer:
    return Buffer(name=name, dtype=dtype, elements=elements, **more)


PROBLEM = KernelProblem(
    buffers=(
        buffer("Where", "i32", TOKENS),
        buffer("Flag", "i32", TOKENS),
        buffer("Table", "f32", ROWS * COLUMNS),
        buffer("Y", "f32", TOKENS * COLUMNS, output=True),
    ),
    views=(
        TensorView(buffer="Where", sizes=(TOKENS,), strides=(1,)),
        TensorView(buffer="Flag", sizes=(TOKENS,), strides=(1,)),
        TensorView(buffer="Table", sizes=(ROWS, COLUMNS), strides=(COLUMNS, 1)),
        TensorView(buffer="Y", sizes=(TOKENS, COLUMNS), strides=(COLUMNS, 1)),
    ),
    arguments=tuple(
        KernelArgument(name=name, c_type=c_type, buffer=name)
        for name, c_type in (
            ("Where", "const int32_t*"), ("Flag", "const int32_t*"), ("Table", "const float*"), ("Y", "float*"),
        )
    ),
    computed=None,
    flops=None,
    bytes_moved=0,
)  # fmt: skip


def verified(kernel: Any, problem: KernelProblem = PROBLEM, *, hint: str = "") -> TrialVerified:
    """The outcome of a kernel that calls `read(row, bytes at an address)` for what it reads of memory."""
    device = FakeEmulator()

    def launched(device: FakeEmulator, arrays: Arrays, _sizes: Any) -> int:
        device.told = []
        table = arrays["Table"]
        begin, end = table.ctypes.data, table.ctypes.data + table.nbytes

        def read(token: int, address: int) -> float:
            if begin <= address < end:
                return float(table[(address - begin) // 4])
            device.told.append(told("out-of-bounds-read", address=str(address), workgroup=[token, 0, 0], bytes=4))
            return 0.0

        where, flag = (arrays[name].view(np.int32) for name in ("Where", "Flag"))
        for token in range(TOKENS):
            for column in range(COLUMNS):
                arrays["Y"][token * COLUMNS + column] = kernel(partial(read, token), begin, token, column, where, flag)
        device.told = device.told[:1]
        device.wrote(arrays["Y"].ctypes.data, arrays["Y"].nbytes)
        return 0

    fakes: Any = {"emulator": lambda *_: device, "loader": partial(FakeLoader, device, launched)}
    trial = Trial(name="5x100", shape="T=5", problem=problem, hint=hint)
    heard: list[TrialVerified] = []
    job = VerifyJob(arch="gfx942", symbol="gather", trials=(trial,), library="/l.so", objdump="/objdump")
    progress = Progress(lambda said: heard.append(said) if isinstance(said, TrialVerified) else None)
    verify_job(job, [b""], progress, **fakes)
    return heard[0]


def gather(read: Any, begin: int, token: int, column: int, where: Any, _flag: Any) -> float:
    return float(read(begin + 4 * (int(where[token]) * COLUMNS + column)))


def test_a_right_gather_is_a_warning_at_its_input() -> None:
    found = verified(gather)
    assert found.problem.outcome is ProblemOutcome.NOT_COMPARED
    (warning,) = found.findings
    assert (warning.kind, warning.tensor) == (FindingKind.UNDECLARED_INDEX, "Where")
    assert warning.message == (
        "the kernel uses the values of Where as indices (rows of Table), which the kernel file does not say: write "
        '`index = "rows of Table"` at its [[operation.input]]'
    )
    assert severity_of(warning) is Severity.WARNING
    right = replace(found.problem, outcome=ProblemOutcome.RIGHT)
    verification = Verification(device="emulated:gfx942", problems=(right,), findings=merged(found.findings))
    assert (verification.outcome, verification.warnings) == (VerificationOutcome.VERIFIED, (warning,))


def test_what_is_declared_is_not_looked_at() -> None:
    where, *others = PROBLEM.buffers
    values = TensorValues(kind=ContentKind.INDEX, numbers=(0, ROWS))
    said = replace(PROBLEM, buffers=(replace(where, values=values), *others))
    assert verified(gather, said).findings == ()
    values = TensorValues(kind=ContentKind.INDEX, numbers=(0, ROWS + 1))
    said = replace(PROBLEM, buffers=(replace(where, values=values), *others))
    assert [one.kind for one in verified(gather, said).findings] == [FindingKind.OUT_OF_BOUNDS_READ]


def test_a_mistake_that_an_input_only_switches_on_stays_one() -> None:
    def gated(read: Any, begin: int, token: int, column: int, _where: Any, flag: Any) -> float:
        return float(read(begin + 4 * ROWS * COLUMNS + 4 * column)) if flag[token] > 1 else 0.0

    found = verified(gated)
    assert [one.kind for one in found.findings] == [FindingKind.OUT_OF_BOUNDS_READ]


def test_a_length_is_no_index() -> None:
    def summed(read: Any, begin: int, token: int, column: int, where: Any, _flag: Any) -> float:
        first = begin + 4 * ROWS * COLUMNS
        return float(sum(read(first + 4 * at) for at in range(min(int(where[token]), 8))))

    found = verified(summed)
    assert [one.kind for one in found.findings] == [FindingKind.OUT_OF_BOUNDS_READ]


def test_a_mistake_beside_an_undeclared_index_stays_one() -> None:
    def beyond(read: Any, begin: int, token: int, column: int, where: Any, _flag: Any) -> float:
        return float(read(begin + 4 * ((int(where[token]) + ROWS - 1) * COLUMNS + column)))

    found = verified(beyond)
    assert FindingKind.OUT_OF_BOUNDS_READ in {one.kind for one in found.findings}


def test_which_inputs_may_be_meant() -> None:
    assert suspects(PROBLEM) == ["Where", "Flag"]
    uses = [IndexUse("Where", "Table", 0, "rows of Table")]
    assert suspects(declared(PROBLEM, uses)) == ["Flag"]
    assert declared(PROBLEM, uses).buffer("Where").values == TensorValues(kind=ContentKind.INDEX, numbers=(0, ROWS))
    assert probe_values(PROBLEM, "Where") == [(17, 18), (65, 66)]
    narrow = replace(PROBLEM, buffers=(replace(PROBLEM.buffers[0], dtype="u8"), *PROBLEM.buffers[1:]))
    assert probe_values(narrow, "Where") == [(17, 18), (65, 66)]


def test_without_an_address_nothing_is_said() -> None:
    assert use_of(PROBLEM, "Where", set(), Probe(1, (), ()), Probe(2, (), ())) is None
    assert spots_of(()) == set()


def test_a_finding_on_a_derived_shape_says_what_to_do() -> None:
    def beyond(read: Any, begin: int, _token: int, _column: int, _where: Any, _flag: Any) -> float:
        return float(read(begin + 4 * ROWS * COLUMNS))

    (finding,) = verified(beyond, hint="say so under [operation.limits]").findings
    assert finding.hint == "say so under [operation.limits]"
    found = Verification(device="emulated:gfx942", problems=(), findings=(finding,))
    (shown,) = diagnostics_once(found, "k/a@gfx942", span("/k.toml", 0, 0, 0, 1))
    assert "say so under [operation.limits]" in [one.message for one in shown.related]
