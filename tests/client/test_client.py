"""Requests of each call to the daemon, and its results."""

from __future__ import annotations

import anyio
import pytest

from benches.client_bench import Bench
from ckwatch.client import Client, DaemonGoneError
from ckwatch.model.errors import CkwatchError, UnknownUnitError, UntrustedError
from ckwatch.wire.state import BuildLine
from ckwatch.wire.unit_changes import UnitOutcome, UpgradeLine, unit_change
from fakes.fake_engine import unit_of
from fakes.fake_verifications import verification_of

pytestmark = pytest.mark.usefixtures("nothing_blocks")

ONE = "gemm/m128@gfx942"


async def test_the_daemon_itself(client: Client, daemon: Bench) -> None:
    assert (await client.status()).toolchain is None
    assert str(client.root) == "/w"
    assert await client.log(7) == "a line\nund noch eine: ü\n"
    assert daemon.engine.of("log") == [(7,)]


async def test_units_and_kernels(client: Client, daemon: Bench) -> None:
    daemon.engine.change("unit/other/x@gfx90a", unit_of("other/x@gfx90a"))
    assert [unit.id for unit in await client.units()] == [ONE, "other/x@gfx90a"]
    assert [unit.id for unit in await client.units("other", "more")] == ["other/x@gfx90a"]
    assert daemon.engine.of("units") == [(None, None), (None, ["other", "more"])]
    kernels = await client.kernels()
    assert {name: [unit.instance for unit in units] for name, units in kernels.items()} == {
        "gemm": ["m128"],
        "other": ["x"],
    }


async def test_one_unit(client: Client, daemon: Bench) -> None:
    unit = (await client.units())[0]
    assert (await client.unit(ONE)).parameters == {"MPerBlock": 128}
    assert (await client.unit(unit)).unit == unit
    assert (await client.rendered(unit)).map is None
    assert (await client.rendered(ONE, with_map=True)).map == ()
    artifact = await client.artifact(unit)
    assert artifact is not None
    assert artifact.products == {"shared-object": "/s/ab/kernel.so"}
    assert len(await client.runs(unit, limit=2)) == 2
    assert daemon.engine.of("rendered") == [(None, ONE, False), (None, ONE, True)]


async def test_no_artifact(client: Client, daemon: Bench) -> None:
    daemon.engine.change(f"unit/{ONE}", unit_of(outcome="failed"))
    assert await client.artifact(ONE) is None


@pytest.mark.parametrize("name", ["gemm/a b@gfx942", "gemm/ü?x=1&y@gfx942", "k%2F/#@gfx942:xnack+", "gemm/..@host"])
async def test_names_of_any_characters_arrive(client: Client, daemon: Bench, name: str) -> None:
    daemon.engine.change(f"unit/{name}", unit_of(name))
    assert (await client.unit(name)).unit.id == name
    assert [unit.id for unit in await client.units(name.partition("/")[0])][-1] == name


@pytest.mark.parametrize("name", ["gemm", "gemm/", ""])
async def test_what_is_no_units_name(client: Client, name: str) -> None:
    with pytest.raises(UnknownUnitError, match="is not the id of a unit"):
        await client.unit(name)


async def test_an_unknown_unit(client: Client) -> None:
    with pytest.raises(UnknownUnitError, match="no unit is called `gemm/x@y`") as raised:
        await client.unit("gemm/x@y")
    assert raised.value.hint == "`ckwatch status` lists them."


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (UntrustedError("not trusted", "trust it"), UntrustedError),
        (CkwatchError("wrong"), CkwatchError),
        (RuntimeError("a bug"), CkwatchError),
    ],
)
async def test_the_daemons_errors_are_the_clients(
    client: Client, daemon: Bench, fault: Exception, kind: type[Exception]
) -> None:
    daemon.engine.fault = fault
    with pytest.raises(CkwatchError) as raised:
        await client.status()
    assert type(raised.value) is kind


async def test_what_the_daemon_refuses_is_said(client: Client) -> None:
    with pytest.raises(CkwatchError, match=r"invalid request\n  query.limit: Input should be greater"):
        await client.runs(ONE, limit=0)
    with pytest.raises(CkwatchError, match=r"invalid request\n  body.units.0: String should have at least 1 character"):
        await client.build("")


async def test_paths_are_relative_to_the_workspace(client: Client, daemon: Bench) -> None:
    await client.diagnostics("templates/../x y.j2")
    await client.diagnostics("/elsewhere/x.j2")
    assert daemon.engine.of("file") == [(None, "/w/x y.j2"), (None, "/elsewhere/x.j2")]


async def test_a_build(client: Client, daemon: Bench) -> None:
    daemon.engine.lines = [
        BuildLine(event="start", units=(ONE, "gemm/gone@gfx942")),
        BuildLine(event="heartbeat"),
        BuildLine(event="unit", id="gemm/gone@gfx942", problem="removed"),
        BuildLine(event="unit", id=ONE, unit=unit_of()),
    ]
    result = await client.build(ONE)
    assert [(unit.id, unit.ok, unit.problem) for unit in result.units] == [
        (ONE, True, None),
        ("gemm/gone@gfx942", False, "removed"),
    ]
    assert not result.ok
    assert [unit.id for unit in result.failed] == ["gemm/gone@gfx942"]
    await client.rerun()
    await client.check(ONE)
    assert daemon.engine.of("build") == [
        (None, [ONE], False, False),
        (None, None, True, False),
        (None, [ONE], False, True),
    ]


async def test_lines_of_a_build(client: Client, daemon: Bench) -> None:
    daemon.engine.lines = [BuildLine(event="start", units=(ONE,)), BuildLine(event="unit", id=ONE, unit=unit_of())]
    async with client.building(ONE) as lines:
        assert [line.event async for line in lines] == ["start", "unit", "done"]


async def test_leaving_a_build_cancels_it(client: Client, daemon: Bench) -> None:
    daemon.engine.endless = True
    daemon.engine.lines = [BuildLine(event="start", units=(ONE,))]
    async with client.building(ONE) as lines:
        assert (await anext(lines)).event == "start"
        await daemon.engine.until_building(1)
    await daemon.engine.until_building(0)


async def test_a_time_limit_on_a_line_loses_none(client: Client, daemon: Bench) -> None:
    daemon.engine.endless = True
    daemon.engine.lines = [BuildLine(event="start", units=(ONE,))]
    async with client.building(ONE) as lines:
        await anext(lines)
        for _ in range(3):
            with anyio.move_on_after(0.01) as scope:
                await anext(lines)
            assert scope.cancelled_caught


async def test_cancel(client: Client, daemon: Bench) -> None:
    assert await client.cancel() == [ONE]
    assert daemon.engine.of("cancel") == [(None, None)]


async def test_stop_waits_for_the_process(client: Client, daemon: Bench) -> None:
    async with await anyio.open_process(["sleep", "60"]) as process, anyio.create_task_group() as tasks:
        daemon.engine.process = process.pid
        tasks.start_soon(client.stop)
        await daemon.engine.until("stop")
        process.kill()
    assert daemon.engine.of("stop") == [()]


async def test_stopping_starts_no_daemon(client: Client, daemon: Bench) -> None:
    await daemon.killed()
    await client.stop()
    assert daemon.starts == 0


async def test_no_daemon(daemon: Bench) -> None:
    async with daemon.client(start=False) as client:
        await daemon.killed()
        with pytest.raises(DaemonGoneError):
            await client.status()


async def test_a_request_starts_a_daemon_that_has_gone(client: Client, daemon: Bench) -> None:
    await daemon.killed()
    await client.status()
    assert daemon.starts == 1


@pytest.mark.parametrize("limit_bytes", [1, 50, 100, 180])
async def test_a_lost_request_is_sent_again(client: Client, daemon: Bench, limit_bytes: int) -> None:
    daemon.relay.limit_bytes = limit_bytes
    assert [unit.id for unit in await client.units()] == [ONE]
    assert len(daemon.engine.of("units")) == 2


async def test_a_lost_build_is_begun_again(client: Client, daemon: Bench) -> None:
    daemon.engine.lines = [BuildLine(event="unit", id=ONE, unit=unit_of())]
    daemon.relay.limit_bytes = 120
    assert (await client.build(ONE)).ok
    assert len(daemon.engine.of("build")) == 2


@pytest.mark.parametrize("limit_bytes", [1, 120])
async def test_what_compiles_anew_is_not_sent_twice(client: Client, daemon: Bench, limit_bytes: int) -> None:
    daemon.relay.limit_bytes = limit_bytes
    with pytest.raises(DaemonGoneError):
        await client.rerun(ONE)
    assert len(daemon.engine.of("build")) == 1


async def test_a_daemon_that_stops_during_a_build(daemon: Bench) -> None:
    async with daemon.client(start=False) as client:
        daemon.engine.endless = True
        daemon.engine.lines = [BuildLine(event="start", units=(ONE,))]
        async with client.building(ONE) as lines:
            await anext(lines)
            daemon.serving.cancel()
            with pytest.raises(DaemonGoneError, match="stopped during the build"):
                await anext(lines)


async def test_a_listing(client: Client, daemon: Bench) -> None:
    found = await client.isa(ONE)
    assert (found.unit, found.kernel, found.has_lines) == (ONE, "main", True)
    found = await client.isa((await client.units())[0], "gemm<a, b>", lines=False)
    assert (found.kernel, found.has_lines) == ("gemm<a, b>", False)
    assert daemon.engine.of("isa") == [(None, ONE, None, True), (None, ONE, "gemm<a, b>", False)]


async def test_a_client_with_a_view_of_its_own_sees_that(client: Client, daemon: Bench) -> None:
    async with client.overlay("gemm.hip.j2", "text"):
        await client.isa(ONE)
        await client.analysis(ONE)
    assert daemon.engine.of("isa") == [(client.id, ONE, None, True)]
    assert daemon.engine.of("analysis") == [(client.id, ONE)]


async def test_what_is_wrong(client: Client, daemon: Bench) -> None:
    with pytest.raises(UnknownUnitError, match="no unit is called"):
        await client.isa("gemm/x@y")
    with pytest.raises(UnknownUnitError, match="is not the id of a unit"):
        await client.analysis("gemm")
    daemon.engine.fault = CkwatchError("no kernel", "another")
    with pytest.raises(CkwatchError, match="no kernel"):
        await client.isa(ONE)


async def test_a_long_listing_arrives_whole(client: Client, daemon: Bench) -> None:
    name = "gemm<" + "a" * 100_000 + ">"
    assert (await client.isa(ONE, name[:4000])).kernel == name[:4000]
    daemon.engine.listing = name
    assert (await client.isa(ONE)).text == name


async def test_a_verification(client: Client, daemon: Bench) -> None:
    (found,) = await client.verify("gemm")
    assert (found.unit, found.outcome) == (ONE, "verified")
    assert found.verification is not None
    assert found.verification == verification_of()
    async with client.verifying(force=True) as lines:
        assert [line.event async for line in lines] == ["unit", "done"]
    assert daemon.engine.of("verify") == [(None, ["gemm"], False), (None, None, True)]


async def test_an_upgrade(client: Client, daemon: Bench) -> None:
    built = UnitOutcome(outcome="built")
    daemon.engine.upgrade_lines = [UpgradeLine(event="unit", change=unit_change(ONE, built, built))]
    (change,) = await client.upgrade("gemm", to="/opt/rocm", verify=False)
    assert (change.unit, change.verdict) == (ONE, "same")
    assert daemon.engine.of("upgrade") == [(None, ["gemm"], "/opt/rocm", False)]


async def test_the_calibration(client: Client) -> None:
    assert (await client.calibration()).calibration is None


UNIT = "gemm/m128@gfx942"


async def test_words_and_templates(client: Client, daemon: Bench) -> None:
    assert (await client.vocabulary()).hooks[0].signature == "size(tensor)"
    assert [one.name for one in await client.templates()] == ["k.hip.j2"]
    assert (await client.template("k.hip.j2")).units == ("gemm/m128",)
    found = await client.template(path="templates/a b.j2")
    assert found.path == str(client.root / "templates/a b.j2")
    assert await client.readers("templates/k.hip.j2") == [UNIT]
    assert daemon.engine.of("readers") == [(None, str(client.root / "templates/k.hip.j2"))]
    many = [f"templates/{number}.j2" for number in range(1001)]
    assert await client.readers_of(many) == {path: [UNIT] for path in many}
    assert [len(asked[1]) for asked in daemon.engine.of("readers_of")] == [1000, 1]
    with pytest.raises(CkwatchError, match="there is no template"):
        await client.template("none.hip.j2")


async def test_values(client: Client, daemon: Bench) -> None:
    found = await client.values(UNIT, "Tile")
    assert [(one.value, one.accepted) for one in found] == [(128, True), (64, True), (96, False)]
    (unit,) = await client.units()
    await client.values(unit, "Tile", (1, 2), parameters={"Tile": 1, "Order": [1, 0]})
    first, second = daemon.engine.of("values")
    assert first == (None, UNIT, "Tile", None, None)
    assert second == (None, UNIT, "Tile", [1, 2], {"Tile": 1, "Order": [1, 0]})


async def test_with_unsaved_text_they_are_asked_as_this_client(client: Client, daemon: Bench) -> None:
    async with client.overlay("k.kernel.toml", "text"):
        await client.values(UNIT, "Tile")
        await client.templates()
        await client.readers("k.kernel.toml")
    assert daemon.engine.of("values") == [(client.id, UNIT, "Tile", None, None)]
    assert daemon.engine.of("templates") == [(client.id,)]
    assert daemon.engine.of("readers")[0][0] == client.id


async def test_the_result(client: Client, daemon: Bench) -> None:
    assert (await client.time_trace(ONE)).unit == ONE
    found = await client.time_trace((await client.units())[0], "out/t.json")
    assert found.path == "/w/out/t.json"
    assert daemon.engine.of("time_trace") == [(None, ONE, None), (None, ONE, "/w/out/t.json")]


async def test_what_is_wrong_time_traces(client: Client, daemon: Bench) -> None:
    with pytest.raises(UnknownUnitError, match="no unit is called `gemm/x@y`"):
        await client.time_trace("gemm/x@y")
    daemon.engine.fault_in_trace = CkwatchError("it crashed", "try again")
    with pytest.raises(CkwatchError, match="it crashed") as raised:
        await client.time_trace(ONE)
    assert raised.value.hint == "try again"


async def test_being_cancelled_gives_it_up(client: Client, daemon: Bench) -> None:
    daemon.engine.traced = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.time_trace, ONE)
        while not daemon.engine.tracing:
            await daemon.engine.changed.wait()
        tasks.cancel_scope.cancel()
    while daemon.engine.tracing:
        await daemon.engine.changed.wait()


async def test_it_is_not_compiled_twice_for_a_lost_daemon(client: Client, daemon: Bench) -> None:
    daemon.engine.traced = False
    failures: list[CkwatchError] = []

    async def ask() -> None:
        try:
            await client.time_trace(ONE)
        except DaemonGoneError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not daemon.engine.tracing:
            await daemon.engine.changed.wait()
        await daemon.killed()
    assert len(failures) == 1
    assert len(daemon.engine.of("time_trace")) == 1
