"""Units with other toolchains in the daemon: compilers are shell scripts, everything else is real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import pytest

from benches.daemon_bench import Bench, build, following
from benches.old_toolchain import NEW_API, with_old_toolchain
from ckwatch.compile.toolchain.model import Toolchain, ToolchainChoice
from ckwatch.core.events import MAIN, OtherToolchain, ToolchainPolicy, ViewOverrides
from ckwatch.engine.answers import Daemon
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.wire.figures_text import toolchain_words
from ckwatch.wire.state import BuildLine
from fakes.patience import PATIENCE_S


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace that is checked with an old ROCm, too."""
    return with_old_toolchain(Bench(tmp_path))


def calls(bench: Bench) -> list[str]:
    """The kind of each call of the old compiler."""
    path = bench.folder / "calls"
    kinds = {"-shared": "link", "host-only": "host", "device-only": "device"}
    lines = path.read_text().splitlines() if path.exists() else []
    return [next((kind for word, kind in kinds.items() if word in line), "compile") for line in lines]


async def build_with(daemon: Daemon, *toolchains: str, check: bool = False, force: bool = False) -> list[BuildLine]:
    """The units' lines in order."""
    with anyio.fail_after(PATIENCE_S):
        async with daemon.toolchain_builds.build(
            MAIN, None, force=force, check_only=check, toolchains=toolchains
        ) as lines:
            found = [line async for line in lines if line.event == "unit"]
    return sorted(found, key=lambda line: line.id or "")


def outcomes(lines: Sequence[BuildLine]) -> list[dict[str, str | None]]:
    return [{one.name: one.outcome for one in line.toolchains} for line in lines]


async def test_an_error_of_an_old_toolchain_appears_in_the_editor_with_its_name(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        path = bench.write("templates/k.hip.j2", NEW_API)
        message = "only with ../old: no member named 'SINCE'"
        await seen.until(
            lambda now: path in now.files and message in [one.message for one in now.files[path].diagnostics]
        )
        await seen.until(lambda now: all(unit.toolchains[0].fresh for unit in now.units.values()))
        unit = seen.units["one"]
        assert (unit.outcome, unit.errors) == ("built", 1)
        assert [(one.name, one.outcome, one.errors) for one in unit.toolchains] == [("../old", "failed", 1)]
        words = toolchain_words((one.name, one.outcome, one.working) for one in unit.toolchains)
        assert words == "fails with ../old"
        assert (await daemon.statuses.status()).other_toolchains == {"../old": {"failed": 2}}
        assert not (await build(daemon))["one"].diagnostics
    assert set(calls(bench)) == {"host", "device"}


async def test_all_toolchains_report_each_unit_once(bench: Bench) -> None:
    bench.write("templates/k.hip.j2", NEW_API)
    async with bench.open() as daemon:
        lines = await build_with(daemon, "all", check=True)
        assert outcomes(lines) == [{"rocm-1.0": "checked", "../old": "failed"}] * 2
        assert [one.message for one in lines[0].diagnostics] == ["only with ../old: no member named 'SINCE'"]
        assert lines[0].diagnostics[0].span.path.endswith("k.hip.j2")
        known = len(calls(bench))
        assert outcomes(await build_with(daemon, "all", check=True)) == outcomes(lines)
    assert len(calls(bench)) == known == 4


async def test_a_build_with_one_toolchain_leaves_the_own_alone(bench: Bench) -> None:
    async with bench.open() as daemon:
        lines = await build_with(daemon, "../old")
        assert outcomes(lines) == [{"../old": "built"}] * 2
        assert await anyio.Path(lines[0].toolchains[0].products["shared-object"]).is_file()
        assert bench.runs == []
        checked = await build_with(daemon, "../old", check=True)
        assert outcomes(checked) == [{"../old": "checked"}] * 2
    assert sorted(calls(bench)) == ["compile", "compile", "link", "link"]


async def test_what_none_compiles_is_one_error_without_names(bench: Bench) -> None:
    bench.write("templates/k.hip.j2", "int tile = {{ Tyle }};\n")
    async with bench.open() as daemon:
        lines = await build_with(daemon, "all")
        assert outcomes(lines) == [{"rocm-1.0": "failed", "../old": "failed"}] * 2
        assert [one.toolchains for one in lines[0].diagnostics] == [()]
    assert calls(bench) == bench.runs == []


async def test_a_toolchain_that_is_not_there_is_an_error_at_its_place(bench: Bench) -> None:
    text = (bench.root / "ckwatch.toml").read_text()
    path = bench.write("ckwatch.toml", text.replace('["../old"]', '["../old", "../gone", "../old"]'))
    async with bench.open() as daemon:
        found = (await daemon.statuses.workspace(MAIN)).diagnostics
        assert [(one.code, one.span.path, one.span.start.column) for one in found] == [
            ("workspace/missing-toolchain", path, text.splitlines()[-1].index("[") + 1 + len('"../old", ')),
            ("workspace/duplicate-value", path, text.splitlines()[-1].index("[") + 1 + len('"../old", "../gone", ')),
        ]
        assert outcomes(await build_with(daemon, "all")) == [{"rocm-1.0": "built", "../old": "built"}] * 2
        with pytest.raises(ToolchainError, match="other"):
            await build_with(daemon, "../other")


def test_a_compiler_that_is_replaced_goes_or_comes_is_noticed(bench: Bench) -> None:
    def find(choice: ToolchainChoice, _: Mapping[str, str]) -> Toolchain:
        if choice.rocm == bench.folder / "old" and not (bench.folder / "old").is_dir():
            raise ToolchainError("no ROCm there")
        return cast("Toolchain", bench.others.get(choice.rocm, bench.toolchain))

    tools = BuildTools({}, 1, _find_toolchain=find)
    loader = ViewLoader(bench.root, tools)

    def policy() -> ToolchainPolicy:
        return loader.load(MAIN, {}, ViewOverrides()).toolchains

    old = OtherToolchain("../old", f"an old one {bench.header.parent}")
    assert policy().others == (old,)
    assert not loader.has_other_toolchains()

    bench.others[bench.folder / "old"] = replace(bench.others[bench.folder / "old"], identity="upgraded")
    assert loader.has_other_toolchains()
    assert policy().others == (replace(old, identity=f"upgraded {bench.header.parent}"),)
    (bench.folder / "old").rename(bench.folder / "moved")
    assert loader.has_other_toolchains()
    assert policy().others == ()
    assert not loader.has_other_toolchains()
    (bench.folder / "moved").rename(bench.folder / "old")
    assert loader.has_other_toolchains()
    assert len(policy().others) == 1

    bench.toolchain = replace(bench.toolchain, identity="another")
    assert loader.has_other_toolchains()
    policy()
    assert not loader.has_other_toolchains()


async def test_a_header_of_a_toolchain_is_watched(bench: Bench) -> None:
    own = bench.folder / "old/include/ck.hpp"
    own.parent.mkdir()
    own.write_text("int since;\n")
    folder = bench.folder / "old"
    script = bench.others[folder].hipcc
    reading = f'grep -q BROKEN "{own}" && echo "$PWD/kernel.hip:1:1:{{1:1-1:2}}: error: old headers [Semantic Issue]" >&2 && exit 1\n'
    script.write_text(script.read_text().replace("case", f'echo "{own}" >> "$CC_PRINT_HEADERS_FILE"\n{reading}case', 1))
    async with bench.open() as daemon, following(daemon) as seen:
        await build_with(daemon, "../old", check=True)
        await seen.until(lambda now: all(unit.toolchains[0].outcome == "checked" for unit in now.units.values()))
        own.write_text("BROKEN\n")
        await seen.until(lambda now: all(unit.toolchains[0].outcome == "failed" for unit in now.units.values()))
        assert bench.runs == [], "with the workspace's own compiler"
        own.write_text("int since;\n")
        await seen.until(lambda now: all(unit.toolchains[0].outcome == "checked" for unit in now.units.values()))


async def test_all_needs_more_than_one(bench: Bench) -> None:
    bench.write("ckwatch.toml", (bench.root / "ckwatch.toml").read_text().replace('["../old"]', "[]"))
    async with bench.open() as daemon:
        with pytest.raises(CkwatchError, match="no other toolchain"):
            await build_with(daemon, "all")


async def test_cancel_ends_checks(bench: Bench) -> None:
    script = bench.others[bench.folder / "old"].hipcc
    script.write_text(f'#!/bin/sh\necho $$ >> "{bench.folder}/pids"\nexec sleep 1000\n')
    async with bench.open() as daemon:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(build_with, daemon, "../old")
            await bench.started(1)
            await daemon.builds.cancel(MAIN, None)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE_S):
            while bench.alive:  # noqa: ASYNC110  # the processes' own ends
                await anyio.sleep(0.01)
