"""Shipped kernels, compiled by the real hipcc, on the emulator as it is built from its sources."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.bench.job import VerifyJob
from ckwatch.bench.worker_session import verify
from ckwatch.cli import main
from ckwatch.compile.toolchain.discover import discover
from ckwatch.emulation.library import build_library
from ckwatch.emulation.problems import trials_of
from ckwatch.model.verification import ProblemOutcome, VerificationOutcome
from ckwatch.workspace.loading import load_workspace

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulator")
    return anyio.run(build_library, folder, discover().clang)


def built(capsys: pytest.CaptureFixture[str], example: str, unit: str, arch: str) -> dict[str, Any]:
    assert main(["build", unit, "-C", str(ROOT / "examples" / example), "--arch", arch, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (found,) = [line for line in lines if line["event"] == "unit"]
    assert found["outcome"] == "built"
    return dict(found)


@pytest.mark.parametrize(
    ("example", "name", "arch"),
    [
        ("gemm", "gemm_f16/v3_128x128x64_intrawave", "gfx942"),
        ("gemm", "gemm_bf16_bias/v1_64x64x32_any_size", "gfx942"),
        ("gemm", "gemm_f16_split_k/v1_128x128x64_intrawave", "gfx950"),
        ("gemm", "gemm_f8_scaled/v3_128x128x128_intrawave", "gfx950"),
        ("hip", "gemm_bf16_bias_silu/128x128x16", "gfx90a"),
    ],
)
def test_a_shipped_kernel_is_right(
    library: Path, capsys: pytest.CaptureFixture[str], example: str, name: str, arch: str
) -> None:
    fact = built(capsys, example, name, arch)
    units = load_workspace(ROOT / "examples" / example).units
    unit = next(unit for unit in units if f"{unit.kernel.name}/{unit.instance.name}" == name)
    unit = type(unit)(unit.kernel, unit.instance, arch)
    trials = trials_of(unit)
    job = VerifyJob(
        arch=arch,
        symbol=fact["symbol"],
        trials=trials,
        library=str(library),
        objdump=str(discover().objdump),
    )
    artifact = Path(fact["products"]["shared-object"]).read_bytes()
    found = anyio.run(partial(verify, job, artifact, time_limit_s=600))
    assert found.outcome is VerificationOutcome.VERIFIED, found.summary
    for trial, problem in zip(trials, found.problems, strict=True):
        expected = ProblemOutcome.REFUSED if trial.refusal else ProblemOutcome.RIGHT
        assert problem.outcome is expected or trial.name.startswith("misaligned"), problem
    sampled = [problem for problem in found.problems if problem.share not in (0, 1)]
    assert all(0 < problem.share < 1 for problem in sampled)
