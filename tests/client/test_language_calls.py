"""What a client asks of the language, and in whose view."""

from __future__ import annotations

import pytest

from ckwatch.client import Client
from ckwatch.errors import CkwatchError
from ckwatch.wire.language import ValuesRequest
from client_bench import Bench

UNIT = "gemm/m128@gfx942"


async def test_words_and_templates(client: Client, daemon: Bench) -> None:
    assert (await client.vocabulary()).hooks[0].signature == "size(tensor)"
    assert [one.name for one in await client.templates()] == ["k.hip.j2"]
    assert (await client.template("k.hip.j2")).units == ("gemm/m128",)
    found = await client.template(path="templates/a b.j2")
    assert found.path == str(client.root / "templates/a b.j2")
    assert await client.readers("templates/k.hip.j2") == [UNIT]
    assert daemon.engine.of("readers") == [(None, str(client.root / "templates/k.hip.j2"))]
    with pytest.raises(CkwatchError, match="there is no template"):
        await client.template("none.hip.j2")


async def test_values(client: Client, daemon: Bench) -> None:
    found = await client.values(UNIT, "Tile")
    assert [(one.value, one.accepted) for one in found] == [(128, True), (64, True), (96, False)]
    (unit,) = await client.units()
    await client.values(unit, "Tile", (1, 2), parameters={"Tile": 1, "Order": [1, 0]})
    first, second = daemon.engine.of("values")
    assert first == (ValuesRequest(unit=UNIT, parameter="Tile"),)
    expected = ValuesRequest(unit=UNIT, parameter="Tile", values=[1, 2], parameters={"Tile": 1, "Order": [1, 0]})
    assert second == (expected,)


async def test_with_unsaved_text_they_are_asked_as_this_client(client: Client, daemon: Bench) -> None:
    async with client.overlay("k.kernel.toml", "text"):
        await client.values(UNIT, "Tile")
        await client.templates()
        await client.readers("k.kernel.toml")
    assert daemon.engine.of("values") == [(ValuesRequest(unit=UNIT, parameter="Tile", client=client.id),)]
    assert daemon.engine.of("templates") == [(client.id,)]
    assert daemon.engine.of("readers")[0][0] == client.id
