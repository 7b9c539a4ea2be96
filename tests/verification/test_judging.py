"""Kernels that are to take another's place: those that cheat are refused with their reason, fast ones that do their
work are not."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError
from ckwatch.model.judgements import JudgedAs, Judgement, SpeedBasis, SpeedRow
from ckwatch.model.kernels import OutputComparison, SizeLimits, Unit, units_of
from ckwatch.model.trials import Contents
from ckwatch.model.verification import FindingKind, ProblemOutcome, Verification, VerificationDepth, VerifiedProblem
from ckwatch.verification.host_code import host_findings, listed_findings, may_bypass_libraries
from ckwatch.verification.judging import Party, estimated_row, judged, judged_trials, subject_of, with_speed
from ckwatch.verification.problems import drawn_trials
from ckwatch.workspace.loading import load_workspace
from fakes.fake_verifications import finding_of, verification_of
from helpers.hip_compiles import compiled
from helpers.kept_builds import identity, kept
from helpers.units import place
from helpers.units import unit as gemm_unit
from judged_kernels.operations import write_operations

SOURCES = Path(__file__).parents[1] / "judged_kernels"
FUNCTION = re.compile(r"^(?:RELU|ONTO_ROWS|GEMM)\((\w+)\)", re.MULTILINE)
REFUSED = re.compile(r"^// refused: (.+)$(?:(?!^// refused)[\s\S])*?^(?:RELU|ONTO_ROWS|GEMM)\((\w+)\)", re.MULTILINE)
CHEATS = [(name, reason) for reason, name in REFUSED.findall((SOURCES / "cheats.hip").read_text())]
HONEST = FUNCTION.findall((SOURCES / "honest.hip").read_text())
REFERENCES = {"relu": "relu_plain", "sum": "sum_kahan", "softmax": "softmax_three_passes", "gemm": "gemm_plain"} | {
    "add": "add_in_place",
    "clamp": "clamp_plain",
}
SEED = 7
CANDIDATE, REFERENCE = Party(unit="k/fast@gfx942", place=place(3)), Party(unit="k/first@gfx942", place=place(9))


@pytest.fixture(scope="session")
def found(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Verification]:
    """What the emulator finds of each kernel on what a judge draws."""
    toolchain, root = discover(), tmp_path_factory.mktemp("operations")
    write_operations(root)
    verifications: dict[str, Verification] = {}
    for source, names in (("honest", HONEST), ("cheats", [name for name, _ in CHEATS])):
        header = (SOURCES / "operations.h").read_text()
        text = (SOURCES / f"{source}.hip").read_text().replace('#include "operations.h"', header)
        built = compiled(text, toolchain, "--offload-arch=gfx942", "-O3", "-shared", "-fPIC")
        script = Path(__file__).parent / "judged_functions.py"
        command = [sys.executable, script, library, toolchain.objdump, built, root, str(SEED), *names]
        ran = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=500)
        assert ran.returncode == 0, ran.stderr
        verifications |= TypeAdapter(dict[str, Verification]).validate_json(ran.stdout)
    return verifications


def judgement(found: Mapping[str, Verification], name: str) -> Judgement:
    return judged(CANDIDATE, REFERENCE, SEED, found[name], found[REFERENCES[name.partition("_")[0]]])


def test_there_are_kernels_enough() -> None:
    assert (len(CHEATS), len(HONEST)) == (40, 27)
    assert set(REFERENCES.values()) <= set(HONEST)


@pytest.mark.toolchain
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "reason"), CHEATS, ids=[name for name, _ in CHEATS])
def test_what_cheats_is_refused_with_its_reason(found: Mapping[str, Verification], name: str, reason: str) -> None:
    result = judgement(found, name)
    assert result.verdict is JudgedAs.REFUSED
    assert any(reason in f"{one.message}\n{one.detail}" for one in result.reasons), [
        one.message for one in result.reasons
    ]


@pytest.mark.toolchain
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", HONEST)
def test_what_does_its_work_is_right(found: Mapping[str, Verification], name: str) -> None:
    result = judgement(found, name)
    assert result.verdict is JudgedAs.ACCEPTED, [one.message for one in result.reasons]
    assert result.right >= 20


USES = {
    1: "reads the environment: getenv",
    2: "reads or writes files: fopen",
    3: "starts programs: system",
    4: "looks for other code: dlopen",
    5: "opens connections: socket",
    6: "starts threads: pthread_create",
    7: "reads a clock or sleeps: clock_gettime",
    8: "reads a clock or sleeps: usleep",
    9: "",
    10: "takes the place of HIP's functions: hipEventElapsedTime",
    11: "reads a clock by itself: rdtsc",
    12: "makes system calls by itself: syscall",
    13: "reads the environment: ",
}


@pytest.mark.toolchain
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.skipif(what in (11, 12) and platform.machine() != "x86_64", reason="x86"))
        for what in USES
    ],
)
def test_what_host_code_must_not_do(what: int, tmp_path: Path) -> None:
    clang, source = str(discover().clang), SOURCES / "host_calls.c"
    flags = ["-shared", "-fPIC", "-O1", f"-DWHAT={what}"]

    def make(target: Path) -> None:
        subprocess.run([clang, *flags, "-x", "c", str(source), "-lm", "-o", str(target)], check=True)

    built = kept("host-code", (*identity(clang), *flags, source.read_text()), make).read_bytes()
    found = [*host_findings(built)]
    if may_bypass_libraries(built):
        (file := tmp_path / "host.so").write_bytes(built)
        command = [str(discover().objdump), "--disassemble", "--no-show-raw-insn", str(file)]
        found += listed_findings(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    said = f"the host's code {USES[what]}"  # of `environ` a linker names aliases, too
    assert len(found) == bool(USES[what]), found
    assert all(one.message == said or (what == 13 and one.message.startswith(said)) for one in found), found


def test_damaged_host_code_says_nothing() -> None:
    assert host_findings(b"\x7fELF\x02\x01" + bytes(20)) == ()


def unit(root: Path, name: str = "relu") -> Unit:
    write_operations(root)
    workspace = load_workspace(root)
    return units_of(next(one for one in workspace.kernels if one.name == name), ("gfx942",))[0]


def renamed(one: Unit, name: str = "fast", **parameters: Any) -> Unit:
    return replace(one, instance=replace(one.instance, name=name, parameters={**one.instance.parameters, **parameters}))


def test_what_is_drawn_follows_from_the_seed(tmp_path: Path) -> None:
    one = unit(tmp_path)
    trials = drawn_trials(one, 1, VerificationDepth.ESSENTIAL)
    assert trials == drawn_trials(one, 1, VerificationDepth.ESSENTIAL)
    shapes = {trial.shape for trial in trials if trial.name.startswith("drawn")}
    assert len(shapes) == 9
    others = {trial.shape for trial in drawn_trials(one, 2, VerificationDepth.ESSENTIAL)}
    assert not shapes <= others
    seeds = [trial.seed for trial in trials if not trial.again]
    assert None not in seeds
    assert len(set(seeds)) == len(seeds) - 3  # other inputs, at both addresses; the first ones changed a little, twice
    assert {"shape timed", "shape large", "ragged"} <= {trial.name for trial in trials}
    assert {trial.contents for trial in trials} == set(Contents) - {
        *(Contents.LARGEST, Contents.SIGNED_SCALES, Contents.NON_FINITE)  # NaN is a mistake of this reference
    }


def test_products_of_matrices_are_drawn_in_the_steps_that_they_support() -> None:
    drawn = [one for one in drawn_trials(gemm_unit("t.hip.j2"), 3) if one.name.startswith("drawn")]
    assert len(drawn) == 8
    assert len({one.shape for one in drawn}) == 8
    first, shuffled, *_ = drawn_trials(gemm_unit("t.hip.j2"), 3)
    assert (first.memory, shuffled.memory, first.problem) == ("same", "same", shuffled.problem)


def test_the_reference_says_what_is_right(tmp_path: Path) -> None:
    reference = unit(tmp_path)
    lax = {"Y": OutputComparison(rtol=1.0)}
    operation = replace(
        reference.kernel.operation, comparisons=lax, reference=None, limits={"M": SizeLimits(greatest="1")}
    )
    candidate = renamed(replace(reference, kernel=replace(reference.kernel, operation=operation, shapes=())))
    subject = subject_of(candidate, reference)
    assert subject.kernel.operation == reference.kernel.operation
    assert subject.kernel.shapes == reference.kernel.shapes
    assert subject.instance.name == "fast"
    trials = judged_trials((candidate, reference), reference, 1)
    assert {one.name for one in trials[reference.id]} < {one.name for one in trials[candidate.id]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one, "cannot be judged against itself"),
        (lambda one: replace(renamed(one), arch="gfx950"), "are compiled for different archs"),
        (
            lambda one: renamed(
                replace(one, kernel=replace(one.kernel, operation=replace(one.kernel.operation, size_arguments=("M",))))
            ),
            "are not the same operation: `size_arguments` is different",
        ),
    ],
)
def test_other_operations_are_not_judged(tmp_path: Path, change: Any, said: str) -> None:
    reference = unit(tmp_path)
    with pytest.raises(CkwatchError, match=re.escape(said)):
        subject_of(change(reference), reference)


def problem(name: str, outcome: ProblemOutcome = ProblemOutcome.RIGHT, **fields: Any) -> VerifiedProblem:
    return VerifiedProblem(name=name, shape="M=1", outcome=outcome, **fields)


RIGHT = tuple(problem(f"drawn {number}", error=0.02) for number in range(4))


def codes(*found: VerifiedProblem, by: tuple[VerifiedProblem, ...] = RIGHT, **more: Any) -> list[str]:
    result = judged(CANDIDATE, REFERENCE, SEED, verification_of(problems=found, **more), verification_of(problems=by))
    return [f"{result.verdict.value}", *(one.code for one in result.reasons)]


def test_verdicts_without_a_kernel() -> None:
    assert codes(*RIGHT) == ["accepted"]
    rough = [replace(one, error=0.6) for one in RIGHT]
    assert codes(*rough) == ["refused", "judge/tolerance"]
    assert codes(*rough, by=tuple(replace(one, error=0.3) for one in RIGHT)) == ["accepted"]
    cut = [replace(one, drift=-0.4) for one in RIGHT]
    assert codes(*cut) == ["refused", "judge/drift"]
    assert codes(*cut, by=tuple(replace(one, drift=-0.3) for one in RIGHT)) == ["accepted"]
    own = problem("shape s", ProblemOutcome.REFUSED, message="no")
    assert codes(*RIGHT, own) == ["accepted"]
    assert codes(*RIGHT, own, by=(*RIGHT, problem("shape s"))) == ["refused", "judge/refuses-shape"]
    assert codes(problem("x", ProblemOutcome.NOT_VERIFIED)) == ["not judged", "judge/not-verified"]
    wrong = problem("x", ProblemOutcome.WRONG, message="it is wrong")
    assert codes(wrong) == ["refused", "verify/wrong-result"]
    assert codes(*RIGHT, by=(wrong,)) == ["not judged", "judge/reference"]


def test_what_is_undefined_counts_where_the_reference_is_right_on_it() -> None:
    shifted = problem("drawn 9, values far from zero")
    wrong = replace(shifted, outcome=ProblemOutcome.WRONG, message="Y is NaN")
    assert codes(*RIGHT, wrong, by=(*RIGHT, shifted)) == ["refused", "verify/wrong-result"]
    assert codes(*RIGHT, wrong, by=(*RIGHT, wrong)) == ["accepted"]
    assert codes(*RIGHT, shifted, by=(*RIGHT, wrong)) == ["accepted"]


def test_what_the_reference_does_too_is_no_reason() -> None:
    reads = replace(finding_of(), kind=FindingKind.CLOCK_READ, message="reads a clock")
    ours, theirs = (verification_of(one, problems=RIGHT) for one in (reads, replace(reads, message="sleeps")))
    assert judged(CANDIDATE, REFERENCE, SEED, ours, ours).verdict is JudgedAs.ACCEPTED
    result = judged(CANDIDATE, REFERENCE, SEED, ours, theirs)
    assert [one.code for one in result.reasons] == ["verify/clock-read"]


def test_timings_that_are_unsure_say_nothing() -> None:
    right = judged(CANDIDATE, REFERENCE, SEED, verification_of(problems=RIGHT), verification_of(problems=RIGHT))
    rows = [SpeedRow(shape=f"s{at}", verdict=one, ratio=0.6) for at, one in enumerate(("SAME", "UNSURE", "FAST"))]
    verdicts = [with_speed(right, CANDIDATE, SpeedBasis.TIMINGS, "cpu", rows[:most]).verdict for most in (1, 2, 3)]
    assert verdicts == [JudgedAs.REFUSED, JudgedAs.NOT_JUDGED, JudgedAs.ACCEPTED]


@pytest.mark.parametrize(
    ("ratios", "verdict", "code"),
    [
        ([0.8, 1.0], JudgedAs.ACCEPTED, ""),
        ([1.0, 1.01], JudgedAs.REFUSED, "judge/not-faster"),
        ([0.5, 1.2], JudgedAs.REFUSED, "judge/slower"),
        ([], JudgedAs.NOT_JUDGED, "judge/speed"),
    ],
)
def test_faster_at_least_once_and_never_slower(ratios: list[float], verdict: JudgedAs, code: str) -> None:
    right = judged(CANDIDATE, REFERENCE, SEED, verification_of(problems=RIGHT), verification_of(problems=RIGHT))
    rows: list[SpeedRow] = [estimated_row(f"s{at}", ratio, 1.0) for at, ratio in enumerate(ratios)]
    result = with_speed(right, CANDIDATE, SpeedBasis.PROFILE, "gfx942", rows, "there is no shape")
    assert (result.verdict, [one.code for one in result.reasons]) == (verdict, [code] if code else [])
    assert not rows or verdict is JudgedAs.ACCEPTED or "not by a timing" in result.reasons[0].message
