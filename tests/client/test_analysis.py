"""A client asks what code objects tell."""

from __future__ import annotations

import pytest

from ckwatch.client import Client
from ckwatch.errors import CkwatchError, UnknownUnitError
from client_bench import Bench

pytestmark = pytest.mark.usefixtures("nothing_blocks")

ONE = "gemm/m128@gfx942"


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
    with pytest.raises(UnknownUnitError, match="is no unit"):
        await client.analysis("gemm")
    daemon.engine.fault = CkwatchError("no kernel", "another")
    with pytest.raises(CkwatchError, match="no kernel"):
        await client.isa(ONE)


async def test_a_long_listing_arrives_whole(client: Client, daemon: Bench) -> None:
    name = "gemm<" + "a" * 100_000 + ">"
    assert (await client.isa(ONE, name[:4000])).kernel == name[:4000]
    daemon.engine.listing = name
    assert (await client.isa(ONE)).text == name


async def test_the_calibration(client: Client) -> None:
    assert (await client.calibration()).calibration is None
