"""`--json`: every command prints what `ckwatch schema` and docs/json.md say, and every type there is printed by one."""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from benches.daemon_bench import KERNEL
from benches.timing_client import TimingClient, connecting_to, knowing, numbered
from benches.timing_records import failed, record
from cases.ck4inductor_fields import GEMM, install_list
from ckwatch.bench.report import Devices as FoundDevices
from ckwatch.cli import main
from ckwatch.cli.completion import names
from ckwatch.cli.json_output import DIAGNOSTIC_LINE, OUTPUT
from ckwatch.cli.parser import make_parser
from ckwatch.cli.schema import command_schema, full_schema
from ckwatch.cli.self_test.kernels import BuiltKernels
from ckwatch.engine.queries.ranking import rank_units
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.model import self_test as names_of_assumptions
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.self_test import AssumptionTrial, TrialOutcome
from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Device, Devices
from ckwatch.wire.unit_changes import UnitOutcome, unit_change
from ckwatch.wire.verification import VerifyLine
from ckwatch.workspace.trust import trust
from cli.test_inspect import UNIT_INSPECTING
from cli.test_profile import SamplingClient
from codeobject.test_profile import figures, product_profile, profile_with
from engine.code_workspace import CodeBench
from fakes.fake_verifications import finding_of, unit_verification, verification_of
from fakes.tuning_stand_in import TunedWorkspace, workspace
from helpers.git_repositories import git
from helpers.kernel_reports import kernel, report
from helpers.own_command import own_command
from helpers.static_diagnostics import EXAMPLES

PROFILE = Path(__file__).parents[1] / "data" / "profiles" / "pc_sampling_host_trap.csv"
TRITON = Path(__file__).parents[1] / "data/triton"
PAGE = Path(__file__).parents[2] / "docs/json.md"
A, B = "gemm/a@gfx942", "gemm/b@gfx942"
EXPORTABLE = 'int tile = {{ Tile }};\nextern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { return 0; }\n'
Capture = pytest.CaptureFixture[str]


class Reader:
    """Reads what commands print, and holds it to their schemas.

    `seen`: the types that lines were of; `dependencies`: what `main` hands to the commands."""

    def __init__(self, capsys: Capture) -> None:
        self._capsys = capsys
        self.seen: set[str] = set()
        self.dependencies: dict[str, Any] = {}

    def run(self, command: str, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """The lines of a command that ends with this status."""
        self._capsys.readouterr()
        given = [*arguments] if "--timings" in arguments else [*arguments, "--json"]
        assert main([*command.split(), *given], **self.dependencies) == status, self._capsys.readouterr()
        printed = self._capsys.readouterr().out
        texts = [printed] if "--timings" in arguments else printed.splitlines()
        return [self.read(command, text) for text in texts]

    def read(self, command: str, text: str) -> dict[str, Any]:
        """A line of a command."""
        line: dict[str, Any] = json.loads(text)
        found = types_of(command, line)
        assert found, f"{command} printed what its schema does not have: {text}"
        self.seen |= found
        return line


def types_of(command: str, line: Any) -> set[str]:
    """The names of the types that a line of a command may be of."""
    schema = command_schema(command)
    jsonschema_rs.meta.validate(schema)
    refs = [one["$ref"] for one in schema["anyOf"]]
    one_type = {key: value for key, value in schema.items() if key != "anyOf"}
    return {
        ref.rpartition("/")[2]
        for ref in refs
        if jsonschema_rs.Draft202012Validator(one_type | {"$ref": ref}).is_valid(line)
    }


@pytest.fixture
def reader(capsys: Capture) -> Reader:
    return Reader(capsys)


@pytest.fixture
def bench(tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> CodeBench:
    """A workspace whose compiler is a script that leaves real code objects."""
    made = CodeBench(tmp_path / "bench")
    shape = '\n[[shape]]\nname = "small"\nM = 64\nN = 64\nK = 64\n'
    made.write("k.kernel.toml", KERNEL + shape)

    reader.dependencies["connected"] = made.connected
    monkeypatch.chdir(made.root)
    return made


def commands(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that does something, by its words."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield path, parser
    for action in below:
        for name, sub in action.choices.items():
            yield from commands(sub, f"{path} {name}".strip())


def test_every_command_with_json_has_a_schema_and_a_row() -> None:
    with_json = [name for name, parser in commands(make_parser()) if "--json" in parser._option_string_actions]
    assert [*OUTPUT] == with_json
    rows = re.findall(r"^\| `([a-z0-9 ]+)` \|(.*?)\|", PAGE.read_text(), re.MULTILINE)
    assert {name: re.findall(r"`(\w+)`", types) for name, types in rows} == {
        name: [one.__name__ for one in types] for name, types in OUTPUT.items()
    }


def test_examples_of_the_page_are_as_the_schema_says() -> None:
    sections = re.findall(
        r"^## `ckwatch ([a-z0-9 ]+?)(?: --json)?`\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    seen = set()
    for command, text in sections:
        for block in re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            found = types_of(command, json.loads(block))
            assert found, (command, block)
            seen |= {(command, name) for name in found}
    assert {command for command, _ in seen} == {*OUTPUT}


def test_units(
    bench: CodeBench, reader: Reader, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.run("check")
    reader.run("build", "--out", str(tmp_path / "out"))
    for command, *arguments in (
        ["list"],
        ["render", "k/one"],
        ["explain", "k/one"],
        ["explain", "rule/m-per-block"],
        ["inspect", "k/one"],
        ["inspect", "k/one", "--isa", "--no-lines"],
        ["inspect", "--calibration"],
        ["inspect", str(TRITON / "matmul_kernel.hsaco")],
        ["rank", str(TRITON)],
        ["rank", "k", "--shape", "small"],
    ):
        reader.run(command, *arguments)
    bench.write("templates/k.hip.j2", EXPORTABLE)
    reader.run("export", "k/one", "--out", str(tmp_path))

    reader.dependencies["connected"] = knowing(
        rank_units([record("k/one@gfx942")], {"k/one@gfx942": "a1"}, {}), bench.connected
    )
    reader.run("export", "k", "--autotune", "--out", str(tmp_path))
    bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", "Tile ="))
    assert "diagnostic" in {line["event"] for line in reader.run("check", status=1)}
    bench.write("k.kernel.toml", KERNEL)
    bench.write("templates/k.hip.j2", "{{ Tyle }}")
    assert reader.run("render", "k/one", status=1)[0]["text"] is None
    reader.run("explain", "k/one", "--time", status=1)
    assert reader.seen == {
        *("BuildStarted", "BuiltUnit", "FileWritten", "BuildSummary", "UnitList", "RenderedUnit", "ExplainedUnit"),
        "ExplainedCode",
        *("InspectedUnit", "UnitListing", "CalibrationReport", "RankedPredictions", "ExportedModule", "DiagnosticLine"),
        *("AutotunedModule", "InspectedFile", "RankedFiles"),
    }


def test_timings(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TimingClient(tmp_path, A, B)
    reader.dependencies["connected"] = connecting_to(client)
    monkeypatch.chdir(tmp_path)
    good = record(A, [100.0] * 20, problem=None)
    (timing,) = record_to_wire(good, "a1")
    client.records = numbered([good, failed(A)])
    client.ranked = rank_units([good], {A: "a1", B: None}, {B: "it does not compile"})
    client.compared = [Compared(shape="small", cache="cold", ours=A, theirs="library", timing=timing, why_not="none")]
    client.known = [Baseline(name="main", set_at=1e9, units=2, timings=1)]
    client.found = Devices(devices=(Device(name="hip:7", description="test device", arch="gfx942"),), host="here")
    client.lines = [
        BenchLine(event="start", shapes=4),
        BenchLine(event="began", unit=A, shape="small"),
        BenchLine(event="stage", unit=A, shape="small", text="warming up"),
        BenchLine(event="timing", unit=A, shape="small", timing=timing),
        BenchLine(event="skipped", unit=B, shape="small", text="no device"),
        BenchLine(event="skipped", unit=B, shapes=2, text="no device"),
    ]
    reader.run("bench", status=2)
    for command, *arguments in (
        ["bench", "--devices"],
        ["history", A],
        ["compare", A, "library"],
        ["best", "gemm"],
        ["baseline set", "main"],
        ["baseline list"],
        ["baseline remove", "main"],
        ["export", "--timings", "json"],
        ["export", "--timings", "json", "--samples"],
    ):
        reader.run(command, *arguments)
    assert reader.seen == {
        *("BenchStarted", "BenchStage", "BenchTiming", "BenchSkipped", "BenchSummary", "DeviceList", "UnitTimings"),
        *("ComparedTimings", "RankedTimings", "BaselineSet", "BaselineList", "BaselineRemoved", "TimingExport"),
    }


def test_dispatchers(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES / "gemm", tmp_path / "w")
    monkeypatch.chdir(tmp_path / "w")
    reader.dependencies["connected"] = connecting_to(TimingClient(tmp_path / "w"))
    rows = [f"{m},{n},4096,{m}" for m in (1, 16, 128, 1024, 4096) for n in (1024, 8192)]
    Path("log.csv").write_text("\n".join(["M,N,K,count", *rows]))
    (found,) = reader.run("shapes import", "log.csv", "--top", "3", "--toml", "shapes.toml")
    assert found["shapes"][0] == {"sizes": {"M": 4096, "N": 1024, "K": 4096}, "count": 4096}
    assert len(tomllib.loads(Path("shapes.toml").read_text())["shape"]) == 3
    (found,) = reader.run("dispatch", "gemm_f16", "--shapes", "log.csv", "--out", "d.py", "--hipblaslt", "d.csv")
    assert {*found["choices"].values()} == {*found["instances"]}
    assert found["unseen"]["shapes"] == 10
    assert found["paths"] == [str(Path(name).absolute()) for name in ("d.py", "d.csv")]
    first = next(csv.DictReader(Path("d.csv").read_text().splitlines()))
    assert [first[name] for name in ("transA", "transB", "m", "n", "k")] == ["T", "N", "1024", "4096", "4096"]
    assert reader.seen == {"LoggedShapes", "WrittenDispatcher"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemm_f16", "--part", "MI9"], "no part of gfx942 is called 'MI9'"),
        (["gemm_f16", "--arch", "gfx1"], "'gemm_f16' is not compiled for gfx1"),
        (["gemm_f16", "--by", "measured"], "'gemm_f16' has no times to choose by"),
        (["gemm_f16", "--shapes", "none.csv"], "none.csv cannot be read"),
        (["gemm_f16", "--shapes", "batched.csv"], "none of the logged shapes is one of 'gemm_f16'"),
        (["gemm_f16", "--out", "d.txt"], "does not end in .hpp"),
        (["gemm_f16", "--aiter", "d.csv"], "AITER has no name for"),
    ],
)
def test_dispatchers_of_mistakes(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shutil.copytree(EXAMPLES / "gemm", tmp_path / "w")
    monkeypatch.chdir(tmp_path / "w")
    Path("batched.csv").write_text("B,M,N,K\n2,3,4,5\n")
    assert main(["dispatch", *arguments], connected=connecting_to(TimingClient(tmp_path / "w"))) == 2
    assert message in capsys.readouterr().err


def test_profiles(reader: Reader) -> None:
    column = figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
    client = SamplingClient(product_profile(), profile_with(figures(), column))
    reader.dependencies["connected"] = client.connected
    (found,) = reader.run("profile", UNIT_INSPECTING)
    assert [hint["kind"] for hint in found["hints"]] == ["lds-conflict"]
    (found,) = reader.run("profile", UNIT_INSPECTING, "--device", "cuda:0")
    assert found["lines"][0]["executed"] == 4096
    assert reader.seen == {"ProfiledUnit", "UnitProfiledOnDevice"}


def test_self_test(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceFacts(name="cpu", description="test processor", arch="host")
    trial = AssumptionTrial(
        assumption=names_of_assumptions.EVENT_CLOCK,
        outcome=TrialOutcome.PASSED,
        found="it runs",
        figures={"ratio": 1.0},
    )

    async def find(*_: Any, **_more: Any) -> FoundDevices:
        return FoundDevices(devices=(device,))

    async def build(*_: Any) -> BuiltKernels:
        return BuiltKernels(skipped=[trial])

    async def run(*_: Any) -> None:
        return None

    reader.dependencies |= {"find_devices": find, "build_kernels": build, "run_self_test": run}
    monkeypatch.chdir(tmp_path)
    _, line, summary = reader.run("bench", "--self-test")
    assert line["trial"]["figures"] == {"ratio": 1.0}
    assert (summary["passed"], summary["exit_status"]) == (1, 0)
    assert reader.seen == {"SelfTestStarted", "SelfTestTrial", "SelfTestSummary"}


def test_verifications(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TimingClient(tmp_path, A, B)
    reader.dependencies["connected"] = connecting_to(client)
    monkeypatch.chdir(tmp_path)
    client.verified = (
        VerifyLine(event="began", unit=A),
        VerifyLine(event="unit", unit=A, outcome="built", result=unit_verification(verification_of(finding_of()), A)),
    )
    reader.run("verify", status=1)
    reader.run("verify", str(TRITON / "add_kernel.hsaco"), status=2)
    assert reader.seen == {"StartingDescription", "VerifyStarted", "VerifyStage", "VerifiedUnit", "VerifySummary"}


def test_judgements(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TimingClient(tmp_path, A, B)
    reader.dependencies["connected"] = connecting_to(client)
    monkeypatch.chdir(tmp_path)
    found = verification_of(finding_of())
    client.verified = (
        VerifyLine(event="stage", unit=A, text="verifying ragged"),
        VerifyLine(event="unit", unit=A, outcome="built", result=unit_verification(found, A)),
        VerifyLine(event="unit", unit=B, outcome="built", result=unit_verification(verification_of(), B)),
    )
    *_, verdict = reader.run("judge", A, "--against", B, "--seed", "5", status=1)
    assert client.asked[-1] == ("verify", (A, B), B, 5)
    assert (verdict["verdict"], verdict["reasons"][0]["code"]) == ("refused", "verify/out-of-bounds-read")
    assert reader.seen == {"JudgeStarted", "JudgeStage", "JudgedKernel"}


def test_upgrades(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TimingClient(tmp_path, A, B)
    reader.dependencies["connected"] = connecting_to(client)
    monkeypatch.chdir(tmp_path)
    built = UnitOutcome(outcome="built", report=report(kernel()), verification=verification_of())
    client.changes = [unit_change(B, built, built), unit_change(A, built, UnitOutcome(outcome="failed", problem="no"))]
    *_, summary = reader.run("upgrade", "--to", "newer", status=1)
    assert client.asked[-1] == ("upgrade", (), str(tmp_path / "newer"), True)
    assert summary["verdicts"] == {"broken": 1, "same": 1}
    assert reader.seen == {"UpgradeStarted", "UpgradeStage", "UpgradedUnit", "UpgradeSummary"}


def test_what_a_change_affects(small: Path, reader: Reader) -> None:
    trust(small)
    git(small, "init", "--quiet")
    (report,) = reader.run("ci", "-C", str(small), "--no-build")
    assert report["summary"]["verdicts"] == {"new": 1}
    assert reader.seen == {"ComparedWithBase"}


def test_the_daemon_and_the_environment(
    daemons: Path, small: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(small)
    monkeypatch.chdir(small)
    assert reader.run("status", status=3)[0]["running"] is False
    reader.run("cancel")
    with own_command("watch", "--json", "-C", str(small), stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        reader.read("watch", watching.stdout.readline())
        reader.read("watch", watching.stdout.readline())
        assert reader.run("status")[0]["clients"] >= 1
        reader.run("cancel")
        watching.send_signal(signal.SIGTERM)
    reader.run("templates list")
    reader.run("store size")
    reader.run("store gc")
    # there may be a compiler or not
    monkeypatch.setenv("PATH", "/nonexistent")
    reader.run("doctor", status=2)
    shutil.rmtree(small)
    reader.run("status", "-C", str(small))
    assert main(["stop", "-C", str(small)]) == 0
    assert reader.seen == {
        *("NoDaemon", "CancelledUnits", "Change", "RunningDaemon", "TemplateList", "StoreSize", "StoreCleaned"),
        *("CheckedEnvironment", "OrphanedDaemon"),
    }


def test_imports(small: Path, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    install_list(GEMM, GEMM)
    reader.run("import ck4inductor", "gemm")
    (tmp_path / "own.py").write_text('T = "{{ kernel_definition }}"\n')
    reader.run("import inductor", str(tmp_path / "own.py"))
    (tmp_path / "scale.hip").write_text("__global__ void scale(float* y, int size) { if (size) y[0] = 2; }\n")
    reader.run("import hip", str(tmp_path / "scale.hip"), "--out", str(tmp_path / "scale"))
    assert reader.seen == {"ImportedInstances", "ImportedTemplate", "ImportedKernels"}


def test_audited_tables(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("gfx,cu_num,M,N,K,us,kernelName\ngfx942,304,1,2,3,-1,native\n")
    reader.run("audit", "t.csv", status=1)
    assert reader.seen == {"AuditedTables"}


def test_imported_timings(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TimingClient(tmp_path, A)
    reader.dependencies["connected"] = connecting_to(made)
    monkeypatch.delenv("CKWATCH_NO_DAEMON", raising=False)
    reader.run("import profile", str(PROFILE))
    reader.run("import timings", "t.csv")
    reader.run("import timings", "--list")
    reader.run("import timings", "--remove", "t.csv")
    assert reader.seen == {"ImportedProfiles", "ImportedTimingFiles", "ImportedTimingsList", "ImportedTimingsRemoved"}


def test_tuning(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.dependencies["connected"] = TunedWorkspace(workspace(tmp_path)).connected
    monkeypatch.chdir(tmp_path)
    reader.run("tune", "slow", "--measurements", "4")
    assert reader.seen == {"TuneStarted", "TuneStep", "TuneSummary"}


def test_the_farm(small: Path, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With workers it is printed in tests/cli/test_farm.py."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(small)
    (small / "ckwatch.toml").write_text('[farm]\ncluster = "local"\n')
    assert reader.run("farm status", status=1)[0]["up"] is False
    assert reader.seen == {"FarmListing"}


def test_every_type_is_printed_by_a_test() -> None:
    """The sets that the tests above end with."""
    text = Path(__file__).read_text()
    every = {one.__name__ for types in OUTPUT.values() for one in types} | {DIAGNOSTIC_LINE.__name__}
    assert {name for name in every if f'"{name}"' not in text} == set()


def test_one_document_has_all(capsys: Capture) -> None:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == full_schema()
    jsonschema_rs.meta.validate(schema)
    assert {*OUTPUT} <= {*schema["$defs"]}
    line = {"schema": 1, "running": False, "cancelled": []}
    cancel = jsonschema_rs.Draft202012Validator(schema | {"$ref": "#/$defs/cancel"})
    assert cancel.is_valid(line)
    assert not cancel.is_valid(line | {"cancelled": None})


def test_the_schema_of_one_command(capsys: Capture) -> None:
    assert main(["schema", "baseline", "set"]) == 0
    assert json.loads(capsys.readouterr().out) == command_schema("baseline set")
    for words, hint in (
        (["biuld"], "did you mean 'build'?"),
        (["baseline"], "there are: baseline set, baseline list, baseline remove"),
        (["zzz"], "there are: check, list"),
    ):
        assert main(["schema", *words]) == 2
        assert f"help: {hint}" in capsys.readouterr().err


def test_a_shell_completes_the_commands() -> None:
    complete = names("commands")
    assert "build" in complete(argparse.Namespace(words=[]))
    assert [*complete(argparse.Namespace(words=["store"]))] == ["size", "gc"]
