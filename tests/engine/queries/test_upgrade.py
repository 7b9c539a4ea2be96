"""What another toolchain would change: compilers and the emulator are stand-ins, everything else is real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import Bench, build, following
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import ToolchainError, UnknownUnitError
from ckwatch.model.verification import ProblemOutcome, Verification
from ckwatch.wire.unit_changes import UnitChange, UpgradeLine
from fakes.fake_verifications import problem_of, verification_of
from fakes.patience import PATIENCE_S


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace, and in the folder `newer` a toolchain that says no to units with the tile 2."""
    bench = Bench(tmp_path)
    newer = tmp_path / "newer"
    (newer / "bin").mkdir(parents=True)
    script = newer / "bin/hipcc"
    script.write_text((tmp_path / "hipcc").read_text().replace("*BROKEN*", '"2;"*'))
    script.chmod(0o755)
    bench.others[newer] = replace(bench.toolchain, hipcc=script, identity="compiler 2")
    settings = (bench.root / "ckwatch.toml").read_text()
    bench.write("ckwatch.toml", settings + '[verify]\nautomatic = "off"\n')
    return bench


async def upgrade(
    daemon: Daemon, bench: Bench, *patterns: str, verify: bool = True
) -> tuple[dict[str, UnitChange], list[UpgradeLine]]:
    """The change of each unit by its instance, and all lines."""
    newer = str(bench.folder / "newer")
    with anyio.fail_after(PATIENCE_S):
        async with daemon.upgrades.upgrade(MAIN, patterns or None, newer, verify=verify) as received:
            lines = [line async for line in received]
    changes = [line.change for line in lines if line.change is not None]
    return {one.unit.partition("/")[2].partition("@")[0]: one for one in changes}, lines


async def test_units_are_compared_and_their_states_are_left_alone(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: {one.phase for one in s.units.values()} == {"idle"})
        before = dict(seen.units)
        changes, lines = await upgrade(daemon, bench)
        assert seen.units == before
        assert (lines[0].event, lines[0].units, lines[-1].event) == ("start", 2, "done")
        assert {line.text for line in lines if line.event == "stage"} == {
            f"{doing} with the {which} toolchain"
            for doing in ("compiling", "verifying")
            for which in ("present", "other")
        }
        assert changes["one"].verdict == "same"
        assert changes["one"].after.verification == changes["one"].before.verification != None  # noqa: E711
        broken = changes["two"]
        assert (broken.verdict, broken.before.outcome, broken.after.outcome) == ("broken", "built", "failed")
        assert broken.reasons == ("BROKEN is no type",)
        assert [one.span.path for one in broken.after.errors] == [str(bench.root / "templates/k.hip.j2")]
        assert len(bench.runs) == 4

        again, _ = await upgrade(daemon, bench)
        assert {one.after.from_store for one in again.values()} == {True}
        await build(daemon)
        assert (len(bench.runs), len(bench.emulator.runs)) == (4, 3)


async def test_the_history_has_nothing_of_it(bench: Bench) -> None:
    async with bench.open() as daemon:
        changes, _ = await upgrade(daemon, bench, verify=False)
        assert changes["one"].after.not_verified == "it was not asked for"
        assert "built" not in {one.outcome for one in await daemon.units.runs("k/one@gfx942", 10)}
        assert bench.emulator.runs == []


async def test_a_wrong_result_is_a_verdict(bench: Bench) -> None:
    wrong = verification_of(problems=(problem_of(outcome=ProblemOutcome.WRONG, message="element 3 is 7"),))
    verifications: list[Verification] = [verification_of(), wrong]
    bench.emulator.answer = lambda _run: verifications.pop(0)
    async with bench.open() as daemon:
        changes, _ = await upgrade(daemon, bench, "k/one")
    assert (changes["one"].verdict, changes["one"].reasons) == ("wrong", (wrong.summary,))


async def test_leaving_it_ends_its_compilers(bench: Bench) -> None:
    bench.will("slow")
    async with bench.open() as daemon:
        async with daemon.upgrades.upgrade(MAIN, None, str(bench.folder / "newer"), verify=False) as lines:
            assert (await anext(aiter(lines))).event == "start"
            await bench.started(2)
        assert bench.alive == []


async def test_somebody_cancels_a_unit(bench: Bench) -> None:
    bench.will("slow")
    async with bench.open() as daemon:
        async with daemon.upgrades.upgrade(MAIN, ["k/one"], str(bench.folder / "newer"), verify=False) as lines:
            await bench.started(1)
            assert await daemon.builds.cancel(MAIN, None) == ["k/one@gfx942"]
            with anyio.fail_after(PATIENCE_S):
                (change,) = [line.change async for line in lines if line.change is not None]
        assert (change.verdict, change.reasons) == ("unknown", ("it was cancelled", "it was cancelled"))


@pytest.mark.parametrize(
    ("pattern", "to", "error"), [("nothing", "newer", UnknownUnitError), ("k", "nowhere", ToolchainError)]
)
async def test_what_cannot_be_compared_is_an_error(bench: Bench, pattern: str, to: str, error: type[Exception]) -> None:
    async with bench.open() as daemon:
        with pytest.raises(error):
            async with daemon.upgrades.upgrade(MAIN, [pattern], str(bench.folder / to), verify=False):
                pass
