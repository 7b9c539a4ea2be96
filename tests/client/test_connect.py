"""The beginning and the end of a client, with a daemon in the same process."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import ckwatch
from benches.client_bench import ClientEngine
from ckwatch.client import DaemonGoneError, connect
from ckwatch.client.client import _identity
from ckwatch.model.errors import CkwatchError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ckwatch.toml").touch()
    (tmp_path / "deep").mkdir()
    return tmp_path


class Engines:
    """Opens one engine; `log` says what became of it."""

    def __init__(self) -> None:
        self.engine = ClientEngine()
        self.log: list[str] = []

    @asynccontextmanager
    async def open(self, root: Path) -> AsyncIterator[ClientEngine]:
        """The engine."""
        self.log.append(f"opened {root.name}")
        try:
            yield self.engine
        finally:
            await anyio.lowlevel.checkpoint()
            self.log.append("closed")


def test_the_package_offers_it() -> None:
    assert ckwatch.connect is connect
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        getattr(ckwatch, "conect")  # noqa: B009  # for the type checker there is none


def _folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("ckwatch-*"))


async def test_a_private_daemon(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ckw") as own:  # other tests have theirs beside it; short, for a socket
        monkeypatch.setattr(tempfile, "tempdir", own)
        await _private(root)


async def _private(root: Path) -> None:
    engines = Engines()
    before = _folders()
    async with connect(root / "deep", private=True, open_engine=engines.open) as client:
        assert [unit.id for unit in await client.units()] == ["gemm/m128@gfx942"]
        (folder,) = _folders() - before
        assert folder.stat().st_mode & 0o777 == 0o700
    assert engines.log == [f"opened {root.name}", "closed"]
    assert _folders() == before


async def test_a_private_daemon_that_was_stopped(root: Path) -> None:
    engines = Engines()
    async with connect(root, private=True, open_engine=engines.open) as client:
        await client.stop()
        with pytest.raises(DaemonGoneError, match="private daemon was stopped"):
            await client.units()
        await client.stop()
    assert engines.log[-1] == "closed"


async def test_an_engine_that_does_not_open(root: Path) -> None:
    @asynccontextmanager
    async def broken(_root: Path) -> AsyncIterator[ClientEngine]:
        if root:
            raise CkwatchError("the reason")
        yield ClientEngine()

    with pytest.raises(CkwatchError, match="the reason"):
        async with connect(root, private=True, open_engine=broken):
            pytest.fail("it was let in")


async def test_what_the_body_raises_passes(root: Path) -> None:
    engines = Engines()

    async def fail() -> None:
        async with (
            connect(root, private=True, open_engine=engines.open) as client,
            client.overlay("x", "text"),
            client.events() as events,
        ):
            await anext(events)
            raise KeyError("of the body")

    with pytest.raises(KeyError, match="of the body"):
        await fail()
    assert engines.engine.of("overlay")[-1][1:] == ("/w/x", None)
    assert engines.log[-1] == "closed"


async def test_a_name_for_the_log(root: Path) -> None:
    async with connect(root, private=True, open_engine=Engines().open, client_name="my ü script!") as client:
        assert client.id.startswith("my-script--")


@pytest.mark.parametrize("name", [None, "", "lsp", "x" * 100, "\n/ü"])
async def test_identities_are_accepted_and_unlike(root: Path, name: str | None) -> None:
    engines = Engines()
    async with connect(root, private=True, open_engine=engines.open, client_name=name) as client:
        await client.focus(everything=True)
    assert [asked[0] for asked in engines.engine.of("focus")] == [client.id]
    assert _identity(name) != _identity(name)


async def test_paths_by_another_name_of_the_workspace(root: Path, tmp_path: Path) -> None:
    engines = Engines()
    async with connect(root, private=True, open_engine=engines.open) as client:
        # the engine says that the workspace is /w
        await client.diagnostics(root / "deep/x.j2")
    assert engines.engine.of("file") == [(None, "/w/deep/x.j2")]
