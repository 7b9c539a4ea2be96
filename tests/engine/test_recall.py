"""State that a daemon takes over from the last one without a render or a look-up, and state that it does not."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import TEMPLATE, Bench, build, following
from ckwatch.core.effects import Render
from ckwatch.core.events import RenderFinished
from ckwatch.engine.handlers import remembered_results
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.wire.state import Unit
from helpers.workspaces import gemm_kernel

NAMES = ("one", "two", "three")
KERNEL = gemm_kernel("k.hip.j2", {name: {"Tile": tile} for tile, name in enumerate(NAMES, 1)})
OPTIONAL = '{% include "optional.j2" ignore missing %}\n'
Act = Callable[[Bench], object]


class Rendered:
    """Notes which instances a daemon renders for its units."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        run: Callable[[RenderHandler, Render], Awaitable[RenderFinished]] = RenderHandler.run

        async def noted(handler: RenderHandler, effect: Render) -> RenderFinished:
            self.names.add(effect.unit.instance.name)
            return await run(handler, effect)

        monkeypatch.setattr(RenderHandler, "run", noted)


class WarmBench(Bench):
    """Of its units only the one that was compiled last is rendered at a start that finds everything as it was."""

    def __init__(self, folder: Path, rendered: Rendered) -> None:
        super().__init__(folder)
        self.rendered = rendered
        self.libraries: dict[str, Path] = {}
        self.write("k.kernel.toml", KERNEL)
        self.write("templates/k.hip.j2", OPTIONAL + TEMPLATE)

    async def build(self) -> None:
        """A daemon builds everything, and ends."""
        async with self.open() as daemon:
            lines = await build(daemon)
        units = {name: line.unit for name, line in lines.items() if line.unit is not None}
        self.libraries = {name: Path(unit.products["shared-object"]) for name, unit in units.items()}
        assert {unit.outcome for unit in units.values()} == {"built"}

    async def start(self) -> dict[str, Unit]:
        """The units as another daemon knows them when it has come to rest."""
        self.rendered.names.clear()
        async with self.open() as daemon, following(daemon) as seen:
            await seen.until(
                lambda s: (
                    s.workspace.loaded
                    and not s.workspace.busy
                    and len(s.units) == s.workspace.unit_count
                    and all(unit.phase in ("done", "idle") for unit in s.units.values())
                )
            )
            return dict(seen.units)


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Rendered:
    return Rendered(monkeypatch)


@pytest.fixture
async def bench(tmp_path: Path, rendered: Rendered) -> WarmBench:
    made = WarmBench(tmp_path, rendered)
    await made.build()
    return made


async def test_what_holds_is_not_rendered_again(bench: WarmBench, rendered: Rendered) -> None:
    for _ in range(2):
        units = await bench.start()
        assert len(rendered.names) == 1
        assert {(unit.phase, unit.outcome, unit.fresh, unit.from_store) for unit in units.values()} == {
            ("done", "built", True, True)
        }
        assert {name: Path(unit.products["shared-object"]) for name, unit in units.items()} == bench.libraries
        assert {tuple(cause.what for cause in unit.cause)[:2] for unit in units.values()} == {
            ("found in the store: built", "the daemon started")
        }
    assert sorted(bench.runs) == ["1", "2", "3"]


async def test_what_holds_is_current_for_a_request_and_follows_edits(bench: WarmBench, rendered: Rendered) -> None:
    rendered.names.clear()
    async with bench.open() as daemon, following(daemon) as seen:
        lines = await build(daemon)
        assert {line.unit.outcome for line in lines.values() if line.unit} == {"built"}
        assert len(rendered.names) == 1
        assert sorted(bench.runs) == ["1", "2", "3"]
        bench.write("templates/macros.j2", "int macro;\n")
        await seen.until(lambda s: len(bench.runs) >= 6 and all(unit.fresh for unit in s.units.values()))


async def test_a_forced_build_at_the_start_compiles(bench: WarmBench) -> None:
    async with bench.open() as daemon:
        await build(daemon, force=True)
    assert sorted(bench.runs) == ["1", "1", "2", "2", "3", "3"]


def sql(statement: str) -> Act:
    def act(bench: Bench) -> None:
        with closing(sqlite3.connect(bench.history)) as history, history:
            history.execute(statement)

    return act


def make_foreign(bench: Bench) -> None:
    (bench.root / "templates/macros.j2").chmod(0o666)


def with_settings(section: str, line: str) -> Act:
    def act(bench: Bench) -> None:
        text = (bench.root / "ckwatch.toml").read_text()
        bench.write("ckwatch.toml", text.replace("[compile]\njobs = 2\n", "") + f"{section}\n{line}\n")

    return act


def with_compiler(**changes: str) -> Act:
    def act(bench: Bench) -> None:
        bench.toolchain = replace(bench.toolchain, **changes)  # type: ignore[arg-type]

    return act


@pytest.mark.parametrize(
    ("change", "outcomes"),
    [
        pytest.param(lambda b: b.write("templates/k.hip.j2", f"{TEMPLATE} // x"), {"built"}, id="a comment"),
        pytest.param(lambda b: b.write("templates/k.hip.j2", f"{TEMPLATE}int x;"), {"built"}, id="a template"),
        pytest.param(lambda b: b.write("templates/macros.j2", "int x;\n"), {"built"}, id="an included template"),
        pytest.param(lambda b: b.write("templates/optional.j2", "int x;\n"), {"built"}, id="a template that appears"),
        pytest.param(lambda b: b.write("templates/k.hip.j2", "{{"), {"failed"}, id="a broken template"),
        pytest.param(make_foreign, {"failed"}, id="a template that others can write"),
        pytest.param(lambda b: b.header.write_text("int i;\n"), {"checked"}, id="a header"),
        pytest.param(lambda b: b.header.unlink(), {"checked"}, id="a header that is gone"),
        pytest.param(lambda b: shutil.rmtree(b.store), {"checked"}, id="the store"),
        pytest.param(lambda b: shutil.rmtree(b.store / "headers"), {"checked"}, id="the sets of headers"),
        pytest.param(with_settings("[compile]", 'flags = ["-DX"]'), {"checked"}, id="flags of the workspace"),
        pytest.param(with_settings("[render]", "time_limit_s = 9.5"), {"built"}, id="limits of the workspace"),
        pytest.param(with_compiler(identity="another"), {"checked"}, id="another compiler"),
        pytest.param(lambda b: b.write("k.kernel.toml", f'flags = ["-DX"]\n{KERNEL}'), {"checked"}, id="flags"),
        pytest.param(sql("UPDATE result SET tokens = tokens || 'x'"), {"built"}, id="damaged tokens"),
        pytest.param(sql("UPDATE result SET key = 'x'"), {"built"}, id="a damaged key"),
        pytest.param(sql("UPDATE result SET stamp = stamp + 1"), {"built"}, id="a damaged stamp"),
        pytest.param(sql("UPDATE result SET seal = x'00'"), {"built"}, id="a damaged seal"),
        pytest.param(sql("UPDATE result_files SET content = content || ' '"), {"built"}, id="damaged files"),
        pytest.param(sql("DELETE FROM result_files"), {"built"}, id="no files"),
        pytest.param(sql("DELETE FROM result"), {"built"}, id="nothing remembered"),
        pytest.param(lambda b: b.history.write_bytes(b"damaged" * 1000), {"built"}, id="a damaged history"),
    ],
)
async def test_what_may_not_hold_is_rendered(
    bench: WarmBench, rendered: Rendered, change: Act, outcomes: set[str]
) -> None:
    await anyio.to_thread.run_sync(change, bench)
    units = await bench.start()
    assert rendered.names == {*NAMES}
    assert {unit.outcome for unit in units.values()} == outcomes


async def test_what_was_rendered_again_is_remembered_again(bench: WarmBench, rendered: Rendered) -> None:
    bench.write("templates/k.hip.j2", f"{TEMPLATE}int x;")
    await bench.start()
    await bench.start()
    assert len(rendered.names) == 1


def remove_entry(library: Path) -> None:
    shutil.rmtree(library.parent)


def remove_source(library: Path) -> None:
    (library.parent / "kernel.hip").unlink()


def damage(library: Path) -> None:
    content = library.read_bytes()
    library.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("lose", [remove_entry, Path.unlink, remove_source, damage])
async def test_a_lost_artifact_is_not_taken_for_known(
    bench: WarmBench, rendered: Rendered, lose: Callable[[Path], None]
) -> None:
    await bench.start()
    (last,) = rendered.names
    (first, second) = (name for name in NAMES if name != last)
    lose(bench.libraries[first])
    units = await bench.start()
    assert rendered.names == {first, last}
    assert {name: unit.outcome for name, unit in units.items()} == {first: "checked", second: "built", last: "built"}


async def test_an_edited_kernel_file(bench: WarmBench, rendered: Rendered) -> None:
    await bench.start()
    (last,) = rendered.names
    other = next(tile for tile, name in enumerate(NAMES, 1) if name != last)
    bench.write("k.kernel.toml", "# moved\n" + KERNEL.replace(f"Tile = {other}\n", "Tile = 7\n"))
    units = await bench.start()
    assert rendered.names == {NAMES[other - 1], last}
    assert {unit.outcome for unit in units.values()} == {"built"}
    assert sorted(bench.runs) == ["1", "2", "3", "7"]


async def test_a_removed_unit_is_forgotten(bench: WarmBench) -> None:
    fewer = gemm_kernel("k.hip.j2", {"one": {"Tile": 1}, "two": {"Tile": 2}})
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: s.units.keys() == {*NAMES})
        bench.write("k.kernel.toml", fewer)
        await seen.until(lambda s: s.units.keys() == {"one", "two"} and not s.workspace.busy)
    with closing(sqlite3.connect(bench.history)) as history:
        kept = {name for (name,) in history.execute("SELECT unit FROM result")}
    assert {name.partition("/")[2].partition("@")[0] for name in kept} == {"one", "two"}


async def test_a_unit_removed_while_no_daemon_ran(bench: WarmBench) -> None:
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {"one": {"Tile": 1}, "two": {"Tile": 2}}))
    assert (await bench.start()).keys() == {"one", "two"}


async def test_other_code_renders_again(bench: WarmBench, rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_results, "code_identity", lambda: "another version")
    await bench.start()
    assert rendered.names == {*NAMES}
    await bench.start()
    assert len(rendered.names) == 1


async def test_a_file_that_changes_while_results_are_compared(
    bench: WarmBench, rendered: Rendered, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckwatch.engine.handlers.recall import RecallHandler

    recall = RecallHandler._recall

    def and_then_edited(handler: RecallHandler, effect: object) -> object:
        found = recall(handler, effect)  # type: ignore[arg-type]
        bench.write("templates/macros.j2", "int x;\n")
        return found

    monkeypatch.setattr(RecallHandler, "_recall", and_then_edited)
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: len(bench.runs) >= 6 and all(unit.fresh for unit in s.units.values()))
    assert rendered.names == {*NAMES}


async def test_units_with_messages_are_rendered(bench: WarmBench, rendered: Rendered) -> None:
    bench.write("templates/macros.j2", "BROKEN x;\n")
    async with bench.open() as daemon:
        lines = await build(daemon)
        assert {line.unit.outcome for line in lines.values() if line.unit} == {"failed"}
    units = await bench.start()
    assert rendered.names == {*NAMES}
    assert {unit.outcome for unit in units.values()} == {"failed"}


async def test_a_branch_that_is_checked_out_again_is_known(bench: WarmBench, rendered: Rendered) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        daemon.loop.state.recall_after_files = 1
        keys: list[set[str | None]] = [set()]

        def is_built_anew() -> bool:
            fresh = all(unit.fresh and unit.key not in keys[-1] for unit in seen.units.values())
            return fresh and len(seen.units) == len(NAMES) and not seen.workspace.busy

        await seen.until(lambda _: is_built_anew())
        for name in ("a", "b", "a", "b"):
            rendered.names.clear()
            keys.append({unit.key for unit in seen.units.values()})
            bench.write("templates/k.hip.j2", f"{TEMPLATE}int {name};\n")
            await seen.until(lambda _: is_built_anew())
    assert keys[2] == keys[4]
    assert len(rendered.names) == 1
    assert len(bench.runs) == 3 * len(NAMES)
