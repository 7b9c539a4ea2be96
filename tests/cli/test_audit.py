"""`ckwatch audit`: the checkout that it looks kernels up in, its output and exit status, and rows that are built."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ckwatch.bench.imports.aiter_audit import SampledRow, TableAudit
from ckwatch.bench.imports.aiter_registry import Registry
from ckwatch.cli import main
from ckwatch.cli.audit import AiterCheckout
from ckwatch.cli.audited_builds import built_rows, row_text
from ckwatch.model.diagnostics import Severity
from ckwatch.render.renderer import Renderer
from ckwatch.wire.verification import UnitVerification, VerifyLine
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.trust import trusted_folders
from helpers.aiter_checkouts import LARGE, write_checkout

Capture = pytest.CaptureFixture[str]

HEAD = "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
GOOD = f"gfx942,304,100,256,1024,torch.int8,0,0,9.5,{LARGE},1,1,0\n"
GONE = "gfx942,304,64,256,1024,torch.int8,0,0,9.5,a8w8_rowwise_gone,1,1,0\n"
SLOW = f"gfx942,304,1,256,1024,torch.int8,0,0,90,{LARGE},1,1,0\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = write_checkout(tmp_path / "checkout") / "a8w8_tuned_gemm.csv"
    path.write_text(HEAD + GOOD + GONE + SLOW)
    return path


def test_the_checkout_around_a_table(table: Path, capsys: Capture) -> None:
    assert main(["audit", str(table)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(
        "checkout/aiter/configs/a8w8_tuned_gemm.csv:3:43: error: AITER has no kernel `a8w8_rowwise_gone`"
    )
    assert printed[-3:] == [
        "1 error",
        "1 table, 3 rows: 1 audit/not-registered, 1 audit/slower",
        "audit/slower is advice; --advice shows it",
    ]
    assert main(["audit", str(table), "--advice"]) == 1
    assert "hint: M = 1 takes 90 µs, and M = 100 of line 2 9.5" in capsys.readouterr().out


def test_a_table_elsewhere(table: Path, tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "t.csv"
    other.write_text(HEAD + GOOD + GONE)
    assert main(["audit", "t.csv"]) == 0
    printed = capsys.readouterr().out
    assert "0 names of kernels were looked up, 2 were not judged: 2 no checkout of AITER" in printed
    assert "no checkout of AITER was found for some tables: --registry names one" in printed
    assert main(["audit", "t.csv", "--registry", str(tmp_path / "checkout")]) == 1
    installed = tmp_path / "site"
    installed.mkdir()
    (tmp_path / "checkout").rename(installed / "aiter_meta")  # as a wheel has it
    assert main(["audit", "t.csv", "--registry", str(installed)]) == 1


def test_json(table: Path, capsys: Capture) -> None:
    assert main(["audit", str(table), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["tables"] == [
        {
            "path": str(table), "kind": "gemm", "registry": str(table.parents[2]), "rows": 3, "judged": 3,
            "not_judged": {}, "counts": {"audit/not-registered": 1, "audit/slower": 1},
        }
    ]  # fmt: skip
    assert [(one["code"], one["severity"], one["span"]["start"]) for one in found["diagnostics"]] == [
        ("audit/not-registered", "error", {"line": 2, "column": 42}),
        ("audit/slower", "hint", {"line": 3, "column": 37}),
    ]
    assert (found["built"], found["exit_status"]) == (0, 1)


def test_many_findings_of_a_kind_are_counted(table: Path, capsys: Capture) -> None:
    table.write_text(HEAD + "".join(GONE.replace(",64,", f",{m},") for m in range(1, 41)))
    assert main(["audit", str(table)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("AITER has no kernel") == 10
    assert (
        "checkout/aiter/configs/a8w8_tuned_gemm.csv: 30 more of audit/not-registered; --json has up to 1,000" in printed
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["none.csv"], "none.csv: no such file or directory"),
        (["."], "is a directory"),
        (["t.csv", "--registry", "empty"], "empty is not a checkout of AITER: it has no csrc"),
        (["t.csv", "--part", "MI9000"], "no part is called 'MI9000'"),
        (["t.csv", "--part", "gfx942:0"], "no part is called 'gfx942:0'"),
        (["t.csv", "--sample", "3"], "--sample says how many rows to build, and none is built"),
        (["t.csv", "--seed", "3"], "--seed says which rows to build, and none is built"),
    ],
)
def test_mistakes(words: list[str], problem: str, table: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "t.csv").write_text(HEAD)
    (tmp_path / "empty").mkdir()
    assert main(["audit", *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_code_is_explained(capsys: Capture) -> None:
    assert main(["explain", "audit/peak"]) == 0
    assert "| `audit/peak` | error | the time is shorter than the part's peak allows" in capsys.readouterr().out


def sampled(table: Path, row: str = GOOD) -> Sequence[SampledRow]:
    """Return the rows of a table that can be built."""
    audit = TableAudit(sample=5)
    audit.table(str(table), (HEAD + row).encode(), Registry(AiterCheckout(table.parents[2])))
    return audit.sampled


@pytest.mark.parametrize(
    ("row", "spec", "slices"),
    [
        (GOOD, "MNKPadding", {}),
        (GOOD.replace(",100,", ",128,"), "Default", {}),
        (
            GOOD.replace(",100,", ",128,").replace(",1024,", ",4096,").replace("int8,0,0,", "int8,0,1,"),
            "Default",
            {"kBatch": 2},
        ),
    ],
)
def test_a_row_becomes_a_kernel_file(row: str, spec: str, slices: dict[str, int], table: Path, tmp_path: Path) -> None:
    (one,) = sampled(table, row)
    root = tmp_path / "made"
    (root / "kernels").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "kernels/row_1.kernel.toml").write_text(row_text(one))
    workspace = load_workspace(root)
    assert not list(workspace.errors)
    (unit,) = workspace.units
    assert unit.instance.parameters["GemmSpec"] == spec
    (shape,) = unit.kernel.shapes
    assert {name: shape.sizes[name] for name in "MNK"} == one.record.sizes
    assert shape.runtime == {"kBatch": 1, **slices}
    outcome = Renderer(tuple(workspace.template_folders)).render(unit)
    assert not [each for each in outcome.diagnostics if each.severity is Severity.ERROR]


async def test_what_a_verification_finds_stands_at_the_row(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Verifying:
        @asynccontextmanager
        async def verifying(self, shapes: Sequence[str]) -> AsyncIterator[AsyncIterator[VerifyLine]]:
            async def lines() -> AsyncIterator[VerifyLine]:
                for outcome in ("verified", "failed", "not verified"):
                    result = UnitVerification(unit="row_1/instance@gfx942", outcome=outcome, summary=f"{outcome}: so")
                    yield VerifyLine(event="unit", outcome="built", result=result)

            assert shapes == ["row"]
            yield lines()

    @asynccontextmanager
    async def connect(root: Path, **_: Any) -> AsyncIterator[Verifying]:
        seen.append(root)
        assert root in trusted_folders()
        yield Verifying()

    monkeypatch.setattr("ckwatch.cli.audited_builds.connect", connect)
    rows = sampled(table)
    found = await built_rows(rows, verify=True, around=None)
    assert [(one.severity.value, one.code, one.span) for one in found] == [
        ("error", "audit/built", rows[0].span),
        ("warning", "audit/built", rows[0].span),
    ]
    assert found[0].message == f"`{LARGE}` is not right at this shape: failed: so"
    assert seen[0] not in trusted_folders()
