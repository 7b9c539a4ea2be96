"""Daemons of several machines with one shared store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benches.daemon_bench import Bench, build, following


def share(bench: Bench, location: Path | str | None) -> None:
    shared = "" if location is None else f"shared = {json.dumps(str(location))}\n"
    bench.write(
        "ckwatch.toml", f'[store]\nfolder = {json.dumps(str(bench.store))}\n{shared}[daemon]\nbuild = "edited"\n'
    )


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def benches(tmp_path: Path) -> tuple[Bench, Bench]:
    """Two machines, with the workspace in another folder each."""
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name)
        roots = {**bench.toolchain.roots, "workspace": bench.root}
        bench.toolchain = replace(bench.toolchain, roots=roots)
        found.append(bench)
    return found[0], found[1]


def entries(shared: Path) -> int:
    return len([*shared.rglob("*.zip")])


async def test_a_unit_that_others_have_built_is_built(benches: tuple[Bench, Bench], shared: Path) -> None:
    first, second = benches
    for bench in benches:
        share(bench, shared)
    async with first.open() as daemon:
        await build(daemon)
    assert entries(shared) == 2, "the end waits for what is added"
    async with second.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: [unit.outcome for unit in s.units.values()] == ["built"] * 2)
        assert {unit.from_store for unit in seen.units.values()} == {True}
        assert "shared-store" not in seen.workspace.warnings
    assert (sorted(first.runs), second.runs) == (["1", "2"], [])


async def test_one_that_cannot_be_used_is_a_warning(benches: tuple[Bench, Bench], tmp_path: Path) -> None:
    bench, _ = benches
    share(bench, tmp_path / "none")
    async with bench.open() as daemon, following(daemon) as seen:
        assert {line.unit.outcome for line in (await build(daemon)).values() if line.unit} == {"built"}
        await seen.until(lambda s: "is not an existing folder" in s.workspace.warnings.get("shared-store", ""))
        share(bench, None)
        await seen.until(lambda s: "shared-store" not in s.workspace.warnings)


async def test_the_setting_may_change(benches: tuple[Bench, Bench], shared: Path, trusted: Path) -> None:
    bench, _ = benches
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        share(bench, trusted / "none")
        await seen.until(lambda s: "shared-store" in s.workspace.warnings)
        share(bench, shared)
        await seen.until(lambda s: "shared-store" not in s.workspace.warnings)
        await build(daemon, force=True)
    assert entries(shared) == 2
