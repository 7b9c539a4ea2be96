"""Verification in the daemon: the emulator is a stand-in, everything else is real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import KERNEL, MACROS, Bench, build, following
from ckwatch.bench.job import VerifyJob
from ckwatch.core.events import MAIN, AutoBuild
from ckwatch.engine.answers import Daemon
from ckwatch.engine.handlers.verify import VERIFICATIONS, EmulatorRun
from ckwatch.model.emulated_archs import EMULATED_ARCHS
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
from ckwatch.model.verification import FindingKind, ProblemOutcome, Verification, VerificationDepth
from ckwatch.wire.verification import VerifyLine
from fakes.fake_verifications import finding_of, problem_of, verification_of
from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel

SUMMARY = "✓ verified (emulated gfx942)"
OFF = '[verify]\nautomatic = "off"\n'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def with_settings(bench: Bench, settings: str) -> None:
    bench.write("ckwatch.toml", (bench.root / "ckwatch.toml").read_text() + settings)


async def verify(daemon: Daemon, *patterns: str, shapes: tuple[str, ...] = (), force: bool = False) -> list[VerifyLine]:
    """The lines of a verification, stages left out."""
    with anyio.fail_after(PATIENCE_S):
        async with daemon.verifications.verify(patterns or None, shapes=shapes, force=force) as lines:
            return [line async for line in lines if line.event not in ("start", "stage")]


def results(lines: list[VerifyLine]) -> dict[str, tuple[str, str, bool]]:
    """Outcome, summary, and whether it was known, by the instance."""
    return {
        (line.unit or "").partition("/")[2].partition("@")[0]: (line.result.outcome, line.result.summary, line.known)
        for line in lines
        if line.result is not None
    }


def race(_run: EmulatorRun) -> Verification:
    return verification_of(finding_of(kind=FindingKind.LDS_RACE, message="reads what wave 3 writes"))


async def test_units_are_built_and_verified(bench: Bench) -> None:
    with_settings(bench, OFF)
    async with bench.open() as daemon, following(daemon) as seen:
        lines = await verify(daemon)
        assert results(lines) == dict.fromkeys(("one", "two"), ("verified", SUMMARY, False))
        assert [line.event for line in lines].count("began") == 2
        assert lines[-1].event == "done"
        await seen.until(lambda s: s.units["one"].verification is not None and not s.units["one"].verifying)
        brief = seen.units["one"].verification
        assert brief is not None
        assert (brief.standing, brief.outcome, brief.summary, brief.findings) == ("fresh", "verified", SUMMARY, 0)
        assert brief.problems > 3
    run = bench.emulator.runs[0]
    assert (run.arch, run.checked, run.nice) == ("gfx942", True, 0)
    assert "exact" in {trial.name for trial in run.trials}
    assert run.artifact.startswith(b"\x7fELF")


async def test_what_is_known_is_not_executed_again_by_the_next_daemon_either(bench: Bench) -> None:
    with_settings(bench, OFF)
    for known in (False, True):
        async with bench.open() as daemon:
            assert results(await verify(daemon, "k/one")) == {"one": ("verified", SUMMARY, known)}
            assert results(await verify(daemon, "k/one")) == {"one": ("verified", SUMMARY, True)}
    assert len(bench.emulator.runs) == 1
    async with bench.open() as daemon:
        assert results(await verify(daemon, "k/one", force=True)) == {"one": ("verified", SUMMARY, False)}
    assert len(bench.emulator.runs) == 2


async def test_what_is_known_is_told_without_executing_anything(bench: Bench) -> None:
    with_settings(bench, OFF)
    async with bench.open() as daemon:
        told = await daemon.units.verification(MAIN, "k/one@gfx942")
        assert (told.outcome, told.summary, told.verification) == ("not verified", "it was not built", None)
        await build(daemon, "k/one")
        told = await daemon.units.verification(MAIN, "k/one@gfx942")
        assert (told.outcome, told.summary) == ("not verified", "it was not verified yet")
        assert bench.emulator.runs == []
        lines = await verify(daemon, "k/one")
        (known,) = (line.result for line in lines if line.result is not None)
        assert await daemon.units.verification(MAIN, "k/one@gfx942") == known
    async with bench.open() as daemon:
        await build(daemon, "k/one")
        assert await daemon.units.verification(MAIN, "k/one@gfx942") == known
        bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {"one": {"Tile": 7}}))
        await build(daemon, "k/one")
        assert (await daemon.units.verification(MAIN, "k/one@gfx942")).summary == "it was not verified yet"
    assert len(bench.emulator.runs) == 1


async def test_other_settings_and_other_shapes_are_verified_anew(bench: Bench) -> None:
    with_settings(bench, OFF)
    async with bench.open() as daemon:
        await verify(daemon, "k/one")
    with_settings(bench, "checks = false\n")
    async with bench.open() as daemon:
        await verify(daemon, "k/one")
    assert [run.checked for run in bench.emulator.runs] == [True, False]
    shapes = {"own": {"M": 96, "N": 64, "K": 64}}
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {"one": {"Tile": 1}}, shapes=shapes))
    async with bench.open() as daemon:
        await verify(daemon, "k/one")
    assert "own" in {trial.name for trial in bench.emulator.runs[-1].trials}
    assert len(bench.runs) == 1, "the artifact is the same"


async def test_a_damaged_result_is_made_again(bench: Bench) -> None:
    with_settings(bench, OFF)
    async with bench.open() as daemon:
        await verify(daemon, "k/one")
    (kept,) = bench.store.rglob("verification.json")
    kept.write_bytes(kept.read_bytes().replace(b'"right"', b'"wrong"'))
    async with bench.open() as daemon:
        assert results(await verify(daemon, "k/one")) == {"one": ("verified", SUMMARY, False)}


async def test_an_edit_is_verified_by_itself(bench: Bench) -> None:
    with_settings(bench, '[verify]\nautomatic = "looked-at"\n')
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        assert bench.emulator.runs == []
        bench.write("templates/macros.j2", "int more;\n")
        await seen.until(lambda s: all(s.units[name].verification is not None for name in ("one", "two")))
    assert {run.nice for run in bench.emulator.runs} == {10}


async def test_a_request_is_thorough_and_serves_what_is_verified_by_itself(bench: Bench) -> None:
    with_settings(bench, '[verify]\nautomatic = "looked-at"\n')
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        bench.write("templates/macros.j2", "int more;\n")
        await seen.until(lambda s: all(s.units[name].verification is not None for name in ("one", "two")))
        assert results(await verify(daemon, "k/one")) == {"one": ("verified", SUMMARY, False)}
        essential, thorough = len(bench.emulator.runs[0].trials), len(bench.emulator.runs[-1].trials)
        assert 5 < essential < 30 <= thorough
        bench.write("templates/macros.j2", "int more;  \n\n")
        await verify(daemon, "k/one")
        assert len(bench.emulator.runs) == 3
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        await daemon.requests.focus("editor", ["k/one"], [], everything=False, unsaved=AutoBuild.NONE)
        await seen.until(lambda s: s.units["one"].verification is not None)
    assert len(bench.emulator.runs) == 3


CUSTOM = """template = "k.hip.j2"

[operation]
kind = "custom"
sizes = ["M"]
input = [{ name = "X", dtype = "f16", sizes = ["64"] }]
output = [{ name = "Y", dtype = "f16", sizes = ["64"] }]

[[shape]]
M = 64

[[instance]]
name = "one"
Tile = 1
"""
"""All its problems are essential."""


async def test_where_all_problems_are_essential_what_was_verified_by_itself_is_thorough(bench: Bench) -> None:
    with_settings(bench, '[verify]\nautomatic = "looked-at"\n')
    bench.write("k.kernel.toml", CUSTOM)
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        bench.write("templates/macros.j2", "int more;\n")
        await seen.until(lambda s: s.units["one"].verification is not None)
        assert results(await verify(daemon)) == {"one": ("verified", SUMMARY, True)}
    (kept,) = bench.store.rglob("verification.json")
    key = json.loads(kept.read_bytes().partition(b"\n")[0])["key"]
    found = VERIFICATIONS.value(kept.read_bytes(), key=key)
    assert found is not None
    kept.write_bytes(VERIFICATIONS.content(replace(found, depth=VerificationDepth.ESSENTIAL), key=key))
    async with bench.open() as daemon:
        assert results(await verify(daemon)) == {"one": ("verified", SUMMARY, True)}
    assert len(bench.emulator.runs) == 1


async def test_a_change_of_the_reference_is_verified_by_itself_and_compiles_nothing(bench: Bench) -> None:
    with_settings(bench, '[verify]\nautomatic = "looked-at"\n')
    bench.write("helper.py", "def f(X):\n    return X\n")
    path = bench.write("reference.py", "from helper import f\n")
    bench.write("k.kernel.toml", CUSTOM.replace('sizes = ["M"]\n', 'sizes = ["M"]\nreference = "reference.py:f"\n', 1))
    unknown = problem_of(outcome=ProblemOutcome.NOT_COMPARED, message="the reference is wrong")
    mistake = ReferenceMistake(kind=MistakeKind.NAN, message="Y[0] is NaN", path=path, line=1)
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        compiles = len(bench.runs)
        bench.emulator.answer = lambda _run: verification_of(problems=(unknown,), reference_mistakes=(mistake,))
        bench.write("helper.py", "def f(X):\n    return X / 0\n")
        await seen.until(lambda s: path in s.files and [d.code for d in s.files[path].diagnostics] == ["reference/nan"])
        bench.emulator.answer = lambda _run: verification_of()
        bench.write("helper.py", "def f(X):\n    return 2 * X\n")
        await seen.until(lambda s: not s.files[path].diagnostics)
        bench.write("reference.py", "from helper import f(\n")
        await seen.until(lambda s: [d.code for d in s.files[path].diagnostics] == ["reference/syntax"])
    references = [run.reference for run in bench.emulator.runs]
    texts = [one.modules[-1].text for one in references[:2] if one is not None]
    assert texts == ["def f(X):\n    return X / 0\n", "def f(X):\n    return 2 * X\n"]
    assert len(bench.runs) == compiles


async def test_two_units_with_one_artifact_and_other_shapes_are_placed_without_another_execution(bench: Bench) -> None:
    with_settings(bench, OFF)
    bench.emulator.answer = race
    for name, size in (("k", 64), ("other", 96)):
        shapes = {"own": {"M": size, "N": 64, "K": 64}}
        bench.write(f"{name}.kernel.toml", gemm_kernel("k.hip.j2", {"one": {"Tile": 1}}, shapes=shapes))
    async with bench.open() as daemon:
        lines = await verify(daemon)
        assert [line.result.outcome for line in lines if line.result] == ["failed", "failed"]
        units = daemon.loop.state.main.units.values()
        assert len({unit.built.artifact for unit in units if unit.built}) == 1
    assert len(bench.emulator.runs) == 2


async def test_single_shapes_are_executed_and_not_kept(bench: Bench) -> None:
    with_settings(bench, OFF)
    async with bench.open() as daemon, following(daemon) as seen:
        wrong = problem_of("exact", outcome=ProblemOutcome.WRONG, message="37 of 99 elements are wrong")
        bench.emulator.answer = lambda _run: verification_of(problems=(wrong,))
        (line,) = [line for line in await verify(daemon, "k/one", shapes=("exact", "M=3,N=5,K=7")) if line.result]
        assert line.result is not None
        assert (line.result.outcome, line.result.unit, line.known) == ("failed", "k/one@gfx942", False)
        assert [trial.name for trial in bench.emulator.runs[0].trials] == ["exact", "M=3,N=5,K=7"]
        assert seen.units["one"].verification is None
        assert not list(bench.store.rglob("verification.json"))
        with pytest.raises(CkwatchError, match="none of these units is verified on a shape 'exakt'"):
            await verify(daemon, "k/one", shapes=("exakt",))
        bench.emulator.fault = CkwatchError("there is no C compiler")
        assert results(await verify(daemon, "k/one", shapes=("exact",)))["one"][:2] == (
            "not verified", "there is no C compiler"
        )  # fmt: skip


async def test_by_default_where_there_is_no_such_gpu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckwatch.compile.toolchain import devices

    gpu = devices.DetectedDevice("hip:0", "AMD gfx942", "gfx942")
    every = set(EMULATED_ARCHS)
    for there, archs in (((), every), ((gpu,), every - {"gfx942"})):
        monkeypatch.setattr(devices, "amd_devices", lambda there=there: there)
        async with bench.open() as daemon:
            await build(daemon)
            assert daemon.loop.state.verification.archs == archs


async def test_findings_are_diagnostics_until_the_next_artifact(bench: Bench) -> None:
    with_settings(bench, OFF)
    bench.emulator.answer = race
    kernel = str(bench.root / "k.kernel.toml")
    async with bench.open() as daemon, following(daemon) as seen:
        (line,) = [line for line in await verify(daemon, "k/one") if line.result]
        assert line.result is not None
        assert line.result.outcome == "failed"
        await seen.until(lambda s: s.units["one"].errors == 1)
        (found,) = seen.files[kernel].diagnostics
        assert (found.source, found.code, found.severity) == ("verify", "verify/lds-race", "error")
        assert found.message == "emulated gfx942, ragged: reads what wave 3 writes"
        assert found.span == seen.units["one"].place
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", "Tile = 3"))
        await seen.until(lambda s: s.units["one"].errors == 0 and s.units["one"].fresh)
        await seen.until(lambda s: kernel not in s.files or not s.files[kernel].diagnostics)
        brief = seen.units["one"].verification
        assert brief is not None
        assert brief.standing == "stale"


async def test_a_wrong_result_is_shown_at_the_instance(bench: Bench) -> None:
    with_settings(bench, OFF)
    wrong = problem_of("ragged", outcome=ProblemOutcome.WRONG, message="37 of 99 elements are wrong")
    bench.emulator.answer = lambda _run: verification_of(problems=(problem_of(), wrong))
    async with bench.open() as daemon, following(daemon) as seen:
        outcome, summary, _ = results(await verify(daemon, "k/one"))["one"]
        assert (outcome, summary) == ("failed", "✗ ragged: 37 of 99 elements are wrong (emulated gfx942)")
        await seen.until(lambda s: s.units["one"].errors == 1)


async def test_what_does_not_build_or_cannot_be_emulated_says_so(bench: Bench) -> None:
    with_settings(bench, OFF)
    kernel = gemm_kernel("k.hip.j2", {"one": {"Tile": 1}})
    bench.write("k.kernel.toml", 'archs = ["gfx1030"]\n' + kernel)
    async with bench.open() as daemon:
        (found,) = results(await verify(daemon)).values()
        assert found == (
            "not verified",
            "gfx1030 is not emulated; gfx90a, gfx942, gfx950, gfx1100, gfx1201 and gfx1250 are, and archs with their instructions",
            False,
        )
        bench.write("templates/macros.j2", "BROKEN\n")
        lines = await verify(daemon)
        assert results(lines) == {"one": ("not verified", "it was not built", False)}
        assert lines[0].outcome == "failed"
        with pytest.raises(UnknownUnitError):
            await verify(daemon, "nothing")
    assert bench.emulator.runs == []


async def test_without_an_emulator_nothing_is_shown_but_on_demand(bench: Bench) -> None:
    bench.emulator.fault = CkwatchError("there is no C compiler to build the emulator with", "install clang or gcc")
    with_settings(bench, '[verify]\nautomatic = "looked-at"\n')
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        bench.write("templates/macros.j2", "int more;\n")
        await seen.until(lambda s: all("no C compiler" in unit.unverified for unit in s.units.values()))
        assert {unit.verification for unit in seen.units.values()} == {None}
        assert not any(file.diagnostics for file in seen.files.values())
        assert results(await verify(daemon, "k/one"))["one"][0] == "not verified"


async def test_what_a_worker_left_out_is_tried_again_on_request(bench: Bench) -> None:
    with_settings(bench, OFF)
    lost = problem_of(outcome=ProblemOutcome.NOT_VERIFIED, message="the worker was killed by SIGKILL", share=0.0)
    bench.emulator.answer = lambda _run: verification_of(problems=(lost,))
    async with bench.open() as daemon:
        assert results(await verify(daemon, "k/one"))["one"][0] == "not verified"
        bench.emulator.answer = bench.emulator.right
        assert results(await verify(daemon, "k/one"))["one"] == ("verified", SUMMARY, False)
    assert len(bench.emulator.runs) == 2


async def test_leaving_ends_the_emulator(bench: Bench) -> None:
    with_settings(bench, OFF)
    bench.emulator.gate = anyio.Event()
    async with bench.open() as daemon, following(daemon) as seen:
        with anyio.fail_after(PATIENCE_S):
            async with daemon.verifications.verify(("k/one",)) as lines:
                async for line in lines:
                    if line.event == "began":
                        break
        await seen.until(lambda s: "one" in s.units and not s.units["one"].verifying and not s.workspace.busy)
        assert bench.emulator.running == 0


async def test_cancel_ends_it_too(bench: Bench) -> None:
    with_settings(bench, OFF)
    bench.emulator.gate = anyio.Event()
    async with bench.open() as daemon:
        with anyio.fail_after(PATIENCE_S):
            async with daemon.verifications.verify(("k/one",)) as lines:
                async for line in lines:
                    if line.event == "began":
                        assert await daemon.builds.cancel(MAIN, ["k/one"]) == ["k/one@gfx942"]
                    elif line.event == "unit":
                        assert line.text == "it was edited or cancelled meanwhile"


def test_a_kept_verification_is_that_of_its_key() -> None:
    found = verification_of(finding_of())
    content = VERIFICATIONS.content(found, key="a")
    assert VERIFICATIONS.value(content, key="a") == found
    assert VERIFICATIONS.value(content, key="b") is None
    assert VERIFICATIONS.value(content[:-1], key="a") is None
    assert VERIFICATIONS.value(b"", key="a") is None
    assert "seconds" not in json.dumps(json.loads(content.partition(b"\n")[2]))
    assert not [name for name in VerifyJob.__dataclass_fields__ if name.endswith("_us")]
    assert MACROS


async def test_units_are_judged_on_what_is_drawn_by_what_one_of_them_says(bench: Bench) -> None:
    with_settings(bench, OFF + "checks = false\n")

    async def judged(daemon: Daemon, *patterns: str, **how: object) -> list[VerifyLine]:
        async with daemon.verifications.verify(patterns, **how) as lines:  # type: ignore[arg-type]
            return [line async for line in lines if line.result is not None]

    shapes = {"own": {"M": 96, "N": 64, "K": 64}}
    bench.write("other.kernel.toml", gemm_kernel("k.hip.j2", {"one": {"Tile": 1}}, shapes=shapes))
    async with bench.open() as daemon, following(daemon) as seen:
        lines = await judged(daemon, "k/one", "other/one", against="other/one@gfx942", seed=5)
        assert {line.unit for line in lines} == {"k/one@gfx942", "other/one@gfx942"}
        runs = bench.emulator.runs
        assert all(run.checked and trial.seed is not None for run in runs for trial in run.trials)
        assert all("shape own" in {trial.name for trial in run.trials} for run in runs)
        assert seen.units["one"].verification is None
        with pytest.raises(CkwatchError, match="is not among the units that are verified"):
            await judged(daemon, "k/one", against="other/one@gfx942")
        with pytest.raises(CkwatchError, match="a judge draws shapes by itself"):
            await judged(daemon, "k/one", "k/two", against="k/two@gfx942", shapes=("exact",))
