"""The daemon without its socket: real files, real render workers, a shell script in the compiler's place."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.daemon_bench import KERNEL, MACROS, SECONDS, TEMPLATE, Bench, Follower, build, following
from ckwatch.core.events import MAIN
from ckwatch.engine.bootstrap import open_engine
from ckwatch.engine.handlers import look_up
from ckwatch.model.causes import ARTIFACT_LOST
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.topics import SHOW
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.wire.messages import UnsavedText
from ckwatch.wire.state import ShownPlace, State, Unit
from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def why(unit: Unit) -> list[str]:
    return [cause.what for cause in unit.cause]


async def test_nothing_is_compiled_without_a_request(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: [unit.phase for unit in s.units.values()] == ["idle", "idle"])
        assert bench.runs == []
        assert {line.unit.outcome for line in (await build(daemon)).values() if line.unit} == {"built"}
        assert sorted(bench.runs) == ["1", "2"]


async def test_an_edit_compiles_what_it_affects_and_says_why(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 2", "Tile = 3"))
        await seen.until(lambda s: bench.runs[2:] == ["3"] and s.units["two"].fresh)
        assert why(seen.units["two"])[1:] == ["k.kernel.toml: Tile 2 → 3"]
        bench.write("templates/macros.j2", "int macro;\n")
        await seen.until(lambda s: len(bench.runs) == 5 and all(unit.fresh for unit in s.units.values()))
        assert sorted(bench.runs[3:]) == ["1", "3"]
        assert why(seen.units["one"])[1] == "templates/macros.j2 changed"


async def test_a_template_that_others_can_write_is_not_compiled(bench: Bench) -> None:
    macros = bench.root / "templates/macros.j2"
    async with bench.open() as daemon:
        macros.chmod(0o666)
        lines = await build(daemon)
        assert bench.runs == []
        assert {(d.code, d.span.path) for line in lines.values() for d in line.diagnostics} == {
            ("template/writable-by-others", str(macros))
        }
        macros.chmod(0o644)
        assert {line.unit.outcome for line in (await build(daemon)).values() if line.unit} == {"built"}
    macros.chmod(0o666)
    async with bench.open() as daemon, following(daemon) as seen:  # nor is what was rendered before and kept
        await seen.until(lambda s: [unit.outcome for unit in s.units.values()] == ["failed", "failed"])
        macros.chmod(0o644)
        await seen.until(lambda s: [unit.outcome for unit in s.units.values()] == ["built", "built"])
    assert sorted(bench.runs) == ["1", "2"]


async def test_a_slow_compile_is_reported_while_it_runs(bench: Bench) -> None:
    told = anyio.Event()

    async def launch(arguments: Sequence[str], **options: Any) -> ProcessResult:
        if "-c" in arguments:
            options["on_used"](100.0)
            await told.wait()
        return await run_process(arguments, **options)

    async with bench.open(launch) as daemon, following(daemon) as seen, anyio.create_task_group() as tasks:
        tasks.start_soon(build, daemon, "k/one")
        await seen.until(lambda s: any(unit.slow for unit in s.units.values()))
        unit = seen.units["one"]
        assert (unit.phase, unit.warnings) == ("compiling", 1)
        assert unit.slow.startswith("hipcc has used 1 min 30 s of the processor and goes on; ")
        assert (await daemon.units.unit(MAIN, unit.id)).standing == f"being compiled; {unit.slow}"
        told.set()
        await seen.until(lambda s: s.units["one"].outcome == "built")
        assert (seen.units["one"].slow, seen.units["one"].warnings) == ("", 0)


def lose(library: Path, store: Path, how: str) -> None:
    """Take an artifact from the store."""
    match how:
        case "store":
            shutil.rmtree(store)
        case "entry":
            shutil.rmtree(library.parent)
        case "file":
            library.unlink()
        case "byte":
            content = library.read_bytes()
            library.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("how", ["store", "entry", "file", "byte"])
async def test_what_the_store_has_lost_is_built_again_and_said(bench: Bench, how: str) -> None:
    async with bench.open() as daemon:
        first = await build(daemon)
        unit = first["one"].unit
        assert unit is not None
        lose(Path(unit.products["shared-object"]), bench.store, how)
        with anyio.fail_after(PATIENCE_S):
            again = (await build(daemon, "k/one"))["one"].unit
        assert again is not None
        assert (again.outcome, again.from_store, again.fresh) == ("built", False, True)
        assert why(again)[1] == ARTIFACT_LOST
        assert sorted(bench.runs) == ["1", "1", "2"]
        assert os.path.isfile(again.products["shared-object"])  # noqa: ASYNC240, PTH113
        both = await build(daemon)
        assert {line.unit.outcome for line in both.values() if line.unit} == {"built"}
        assert sorted(bench.runs) == (["1", "1", "2", "2"] if how == "store" else ["1", "1", "2"])


async def test_what_is_merely_checked_is_not_looked_for_in_the_store(bench: Bench) -> None:
    async with bench.open() as daemon:
        await build(daemon)
        shutil.rmtree(bench.store)
        async with daemon.builds.build(MAIN, None, force=False, check_only=True) as lines:
            assert [line.event async for line in lines] == ["start", "unit", "unit", "done"]
        assert sorted(bench.runs) == ["1", "2"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("templates/macros.j2", "// something else\n"),
        ("templates/k.hip.j2", TEMPLATE.replace("\n", "  \n\n")),
        ("k.kernel.toml", "# a comment\n" + KERNEL),
        ("templates/unread.j2", "{{"),
    ],
)
async def test_what_is_no_input_to_the_compiler_compiles_nothing(bench: Bench, file: str, text: str) -> None:
    async with bench.open() as daemon:
        await build(daemon)
        before = list(bench.runs)
        bench.write(file, text)
        lines = await build(daemon)
        assert bench.runs == before
        assert all(line.unit and line.unit.fresh and line.unit.outcome == "built" for line in lines.values())


async def test_breaking_and_fixing(bench: Bench) -> None:
    path = str(bench.root / "templates/macros.j2")
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        bench.write("templates/macros.j2", "\nBROKEN x;\n")
        await seen.until(lambda s: path in s.files and [len(d.units) for d in s.files[path].diagnostics] == [2])
        (diagnostic,) = seen.files[path].diagnostics
        assert (diagnostic.message, diagnostic.span.start.line) == ("BROKEN is no type", 1)
        assert (len(diagnostic.units), diagnostic.unit_count) == (2, 2)
        # Blanks do not need the compiler: the message moves with its line.
        bench.write("templates/macros.j2", "\n\n\nBROKEN x;\n")
        await seen.until(lambda s: [d.span.start.line for d in s.files[path].diagnostics if not d.stale] == [3])
        assert len(bench.runs) == 4
        bench.write("templates/macros.j2", "{{ 1 + }}\n")
        await seen.until(lambda s: [d.source for d in s.files[path].diagnostics if not d.stale] == ["jinja"])
        bench.write("templates/macros.j2", MACROS)
        await seen.until(lambda s: s.files[path].diagnostics == () and all(u.fresh for u in s.units.values()))
        assert len(bench.runs) == 4


async def test_a_header_recompiles_those_that_read_it(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        await anyio.Path(bench.header).write_text("int other;\n")
        await seen.until(lambda s: len(bench.runs) >= 4 and all(unit.fresh for unit in s.units.values()))
        assert why(seen.units["one"])[-1].endswith("include/h.h changed")


def is_built_again(before: Mapping[str, int], seen: Follower) -> bool:
    return all(unit.fresh and unit.generation > before[name] for name, unit in seen.units.items())


async def test_a_header_saved_at_once_after_another_save_recompiles_those_that_read_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_up, "SNAPSHOT_S", float("inf"))
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        for runs in (4, 6):
            before = {name: unit.generation for name, unit in seen.units.items()}
            bench.write("../include/h.h", f"int other[{runs}];\n")
            await seen.until(partial(is_built_again, before))
            assert len(bench.runs) == runs


async def test_a_newer_edit_kills_the_compiler_of_the_older(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        bench.will("slow")
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 2", "Tile = 3"))
        await bench.started(1)
        bench.will("slow", now=False)
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 2", "Tile = 4"))
        await seen.until(lambda s: s.units["two"].fresh and bench.runs[-1] == "4")
        assert not bench.alive
        shown = [change.state for change in seen.seen if isinstance(change.state, Unit) and change.state.fresh]
        assert not any("Tile 2 → 3" in cause for unit in shown for cause in why(unit))


async def test_a_template_that_appears_and_one_that_vanishes(bench: Bench) -> None:
    (bench.root / "templates/macros.j2").unlink()
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: [unit.outcome for unit in s.units.values()] == ["failed", "failed"])
        bench.write("templates/macros.j2", MACROS)
        await seen.until(lambda s: all(unit.fresh and unit.outcome == "built" for unit in s.units.values()))
        assert why(seen.units["one"])[-1] == "templates/macros.j2 appeared"
        (bench.root / "templates/macros.j2").unlink()
        await seen.until(lambda s: all(unit.fresh and unit.outcome == "failed" for unit in s.units.values()))
        assert why(seen.units["one"])[-1] == "templates/macros.j2 was removed"


async def test_kernel_files_and_folders_come_and_go(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: set(s.units) == {"one", "two"})
        bench.write("more/deep/x.kernel.toml", KERNEL.replace('"one"', '"three"').replace('"two"', '"four"'))
        await seen.until(lambda s: "three" in s.units and s.units["three"].fresh)
        await anyio.to_thread.run_sync(shutil.rmtree, bench.root / "more")
        await seen.until(lambda s: set(s.units) == {"one", "two"})
        (bench.root / "k.kernel.toml").rename(bench.root / "hidden")
        await seen.until(lambda s: not s.units)


async def test_a_workspace_file_that_is_gone_keeps_the_last_state(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        settings = (bench.root / "ckwatch.toml").read_text()
        (bench.root / "ckwatch.toml").unlink()
        await seen.until(lambda s: s.workspace.problem is not None)
        assert set(seen.units) == {"one", "two"}
        bench.write("ckwatch.toml", settings)
        await seen.until(lambda s: s.workspace.problem is None)


async def test_the_workspace_deleted_and_made_again(bench: Bench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        files = {path: path.read_text() for path in bench.root.rglob("*") if path.is_file()}
        await anyio.to_thread.run_sync(shutil.rmtree, bench.root)
        await seen.until(lambda s: s.workspace.problem is not None)
        for path, text in files.items():
            bench.write(str(path.relative_to(bench.root)), text)
        await seen.until(lambda s: s.workspace.problem is None and all(unit.fresh for unit in s.units.values()))
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 2", "Tile = 7"))
        await seen.until(lambda s: bench.runs[-1] == "7" and all(unit.fresh for unit in s.units.values()))
        assert {unit.outcome for unit in seen.units.values()} == {"built"}


async def test_a_full_disk_is_reported_and_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        with monkeypatch.context() as patch:
            patch.setattr("ckwatch.system.durable_files.os.fsync", _no_space)
            bench.write("templates/macros.j2", "BROKEN x;\n")
            lines = await build(daemon)
            # What the compiler said is shown all the same.
            sources = [{found.source for found in line.diagnostics} for line in lines.values()]
            assert sources == [{"clang", "host"}] * 2
            assert {line.unit.outcome for line in lines.values() if line.unit} == {"faulted"}
            await seen.until(lambda s: "no space left" in s.workspace.warnings.get("store", ""))
        assert {line.unit.outcome for line in (await build(daemon)).values() if line.unit} == {"failed"}
        await seen.until(lambda s: "store" not in s.workspace.warnings)


def _no_space(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_an_unsaved_text_is_seen_by_its_client_only(bench: Bench) -> None:
    path = str(bench.root / "templates/macros.j2")
    async with bench.open() as daemon:
        await build(daemon)
        async with following(daemon, "ann") as ann, following(daemon, "ben") as ben, following(daemon) as disk:
            await daemon.requests.overlay("ann", path, "BROKEN ann;\n")
            await daemon.requests.overlay("ben", path, "\nBROKEN ben;\n")
            await ann.until(lambda s: bool(s.files.get(path) and [d for d in s.files[path].diagnostics if not d.stale]))
            await ben.until(lambda s: bool(s.files.get(path) and [d for d in s.files[path].diagnostics if not d.stale]))
            assert [d.span.start.line for d in ann.files[path].diagnostics] == [0]
            assert [d.span.start.line for d in ben.files[path].diagnostics] == [1]
            assert [unit.outcome for unit in disk.units.values()] == ["built", "built"]
            assert not disk.files.get(path)
            assert {line.unit.outcome for line in (await build(daemon, client="ann")).values() if line.unit} == {
                "failed"
            }
            assert {line.unit.outcome for line in (await build(daemon)).values() if line.unit} == {"built"}
            await daemon.requests.overlay("ann", path, None)
            await ann.until(lambda s: s.files[path].diagnostics == () and s.units["one"].outcome == "built")
            await daemon.forget("ben")
        assert list((await daemon.snapshots.snapshot("ben")).states) == list(
            (await daemon.snapshots.snapshot(MAIN)).states
        )


async def test_an_overlay_of_a_kernel_file_adds_units_for_its_client(bench: Bench) -> None:
    path = str(bench.root / "k.kernel.toml")
    async with bench.open() as daemon:
        await daemon.requests.overlay("ann", path, KERNEL + '[[instance]]\nname = "three"\nTile = 3\n')
        lines = await build(daemon, client="ann")
        assert set(lines) == {"one", "two", "three"}
        assert sorted(bench.runs) == ["1", "2", "3"]
        with pytest.raises(UnknownUnitError):
            await build(daemon, "k/three")
        await daemon.forget("ann")
        assert set(await build(daemon)) == {"one", "two"}


async def test_a_shape_that_an_instance_refuses_is_followed_through_edits(bench: Bench) -> None:
    parameters: dict[str, ParameterValue] = {
        "BlkGemmPipelineVer": "v1",
        "MPerBlock": 64,
        "NPerBlock": 64,
        "KPerBlock": 64,
        "GemmSpec": "Default",
    }
    shape = "[[shape]]\nM = 64\nN = 64\nK = {}\n"
    kernel = gemm_kernel("k.hip.j2", {"one": {"Tile": 1, **parameters}, "two": {"Tile": 2, **parameters}})
    bench.write("templates/macros.j2", f"// {' '.join(f'{{{{ {name} }}}}' for name in parameters)}\n")
    path = bench.write("k.kernel.toml", kernel + shape.format(96))

    def refused(seen: Follower) -> list[str]:
        file = seen.files.get(path)
        return [one.message for one in file.diagnostics if one.code == "rule/refused-shape"] if file else []

    async with bench.open() as daemon, following(daemon) as disk, following(daemon, "ann") as ann:
        await disk.until(lambda s: any("all 2 instances refuse this shape: K = 96" in one for one in refused(s)))
        assert "rule/refused-shape" in [one.code for one in (await daemon.statuses.workspace(MAIN)).diagnostics]
        await daemon.requests.overlay("ann", path, kernel + shape.format(128))
        await ann.until(lambda s: path in s.files and not refused(s))
        assert refused(disk)
        bench.write("k.kernel.toml", kernel + shape.format(160))
        await disk.until(lambda s: any("K = 160" in one for one in refused(s)))
        bench.write("k.kernel.toml", kernel.replace("KPerBlock = 64", 'KPerBlock = "64"') + shape.format(160))
        await disk.until(lambda s: path in s.files and not refused(s))


async def test_changes_while_the_daemon_was_down(bench: Bench) -> None:
    async with bench.open() as daemon:
        await build(daemon)
    bench.write("templates/macros.j2", "int other;\n")
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(
            lambda s: set(s.units) == {"one", "two"} and all(u.outcome == "built" for u in s.units.values())
        )
        await seen.until(lambda s: all(unit.fresh for unit in s.units.values()))
        assert len(bench.runs) == 4
        assert "macros.j2 changed while the daemon was not running" in why(seen.units["one"])


async def test_a_restart_finds_everything_again(bench: Bench) -> None:
    async with bench.open() as daemon:
        bench.write(
            "templates/k.hip.j2", TEMPLATE.replace("int tile", "{% if Tile == 2 %}BROKEN{% endif %} x;\nint tile")
        )
        before = await build(daemon)
    async with bench.open() as daemon:
        after = await build(daemon)
        assert len(bench.runs) == 2
        assert {name: (line.unit and line.unit.outcome) for name, line in after.items()} == {
            "one": "built",
            "two": "failed",
        }
        assert after["two"].diagnostics == before["two"].diagnostics
        assert [run.outcome for run in await daemon.units.runs("k/two@gfx942", 10)] == ["failed"]


async def test_leaving_a_build_stops_its_compilers(bench: Bench) -> None:
    bench.will("slow")
    async with bench.open() as daemon, following(daemon) as seen:
        async with daemon.builds.build(MAIN, None, force=False, check_only=False) as lines:
            with anyio.fail_after(PATIENCE_S):
                async for line in lines:
                    assert line.event == "start"
                    break
                await bench.started(2)
        await seen.until(lambda s: all(unit.phase == "idle" for unit in s.units.values()) and not s.workspace.busy)
        assert not bench.alive


async def test_checks_do_not_wait_for_compilers(bench: Bench) -> None:
    bench.will("slow")
    async with bench.open() as daemon, anyio.create_task_group() as tasks:
        tasks.start_soon(build, daemon)
        with anyio.fail_after(PATIENCE_S):
            await bench.started(2)
            async with daemon.builds.build(MAIN, None, force=False, check_only=True) as lines:
                assert [line.event async for line in lines] == ["start", "unit", "unit", "done"]
        tasks.cancel_scope.cancel()


async def test_force_compiles_what_the_store_has(bench: Bench) -> None:
    async with bench.open() as daemon:
        await build(daemon)
        await build(daemon, "k/one", force=True)
        assert sorted(bench.runs) == ["1", "1", "2"]


async def test_all_that_is_known_of_a_unit(bench: Bench) -> None:
    async with bench.open() as daemon:
        await build(daemon)
        detail = await daemon.units.unit(MAIN, "k/one@gfx942")
        assert detail.standing == "built: nothing to do"
        assert detail.parameters == {"Tile": 1}
        assert [Path(path).name for path in detail.reads] == ["k.hip.j2", "macros.j2"]
        assert detail.headers == 1
        text = await daemon.units.rendered(MAIN, "k/one@gfx942", with_map=True)
        assert text.text is not None
        assert "int tile = 1;" in text.text
        assert text.map
        artifact = await daemon.units.artifact(MAIN, "k/one@gfx942")
        assert artifact is not None
        assert artifact.symbol == text.symbol
        assert artifact.products["shared-object"].startswith(str(bench.store))
        with pytest.raises(UnknownUnitError) as caught:
            await daemon.units.unit(MAIN, "k/on@gfx942")
        assert caught.value.hint == "did you mean 'k/one@gfx942'?"


async def test_a_reset_for_a_number_of_another_daemon(bench: Bench) -> None:
    async with bench.open() as daemon:
        for number in (0, 1 << 60):
            assert [change.topic for change in await daemon.changes(MAIN, number)] == ["reset"]


def shown_to(follower: Follower) -> list[State | None]:
    return [change.state for change in follower.seen if change.topic == "show"]


async def test_what_editors_have_not_saved_is_known_to_others(bench: Bench) -> None:
    template, kernel = (str(bench.root / name) for name in ("templates/k.hip.j2", "k.kernel.toml"))

    async def becomes(text: str | None) -> None:
        expected = [] if text is None else [UnsavedText(path=template, text=text)]
        with anyio.fail_after(SECONDS):
            while await daemon.requests.unsaved() != expected:  # noqa: ASYNC110  # nothing announces it
                await anyio.sleep(0.01)

    async with bench.open() as daemon:
        await daemon.requests.overlay("script", kernel, "a sweep's")
        await daemon.requests.overlay("vim", template, "first")
        await daemon.requests.editor("vim", shows=False)
        await becomes("first")
        await daemon.requests.editor("emacs", shows=True)
        await daemon.requests.overlay("emacs", template, "second")
        await becomes("second")
        await daemon.forget("emacs")
        await becomes("first")
        await daemon.requests.overlay("vim", template, None)
        await becomes(None)


async def test_an_editor_is_shown_each_place_once(bench: Bench) -> None:
    template, header = bench.root / "templates/k.hip.j2", str(bench.header)
    first, last = (ShownPlace(path=path, line=2, column=1) for path in (header, str(template)))
    async with bench.open() as daemon, following(daemon, "page") as page:
        assert await daemon.requests.show(header, 0, 0) == 0
        await daemon.requests.editor("vim", shows=True)
        await page.until(lambda s: s.workspace.editors == 1)
        async with following(daemon, "vim") as vim:
            assert await daemon.requests.show(header, 2, 1) == 1
            await vim.until(lambda _: shown_to(vim) == [first])
        # its connection is lost for a moment
        after = vim.seen[-1].seq
        await daemon.requests.editor("vim", shows=True)
        await daemon.requests.editor("emacs", shows=True)
        async with following(daemon, "emacs") as emacs, following(daemon, "vim", after=after) as again:
            assert await daemon.requests.show(f"{template.parent}/../templates/k.hip.j2", 2, 1) == 2
            await emacs.until(lambda _: shown_to(emacs) == [last])
            await again.until(lambda _: shown_to(again) == [last])
            await daemon.forget("vim")
            await daemon.requests.editor("emacs", shows=False)
            await page.until(lambda s: s.workspace.editors == 0)
            assert await daemon.requests.show(header, 0, 0) == 0
        assert shown_to(page) == []
        for client in ("vim", "emacs", "page"):
            assert SHOW not in (await daemon.snapshots.snapshot(client)).states


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.j2", "no such file or directory"),
        ("templates", "it is not a file"),
        ("pipe", "it is not a file"),
        ("locked", "it is not readable"),
        ("x" * 300, "file name too long"),
    ],
)
async def test_what_cannot_be_shown(bench: Bench, name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.root / name
    os.mkfifo(bench.root / "pipe")
    (bench.root / "locked").touch()
    monkeypatch.setattr(os, "access", lambda path, _mode: not path.endswith("locked"))  # root may read everything
    async with bench.open() as daemon:
        with pytest.raises(CkwatchError, match=rf"^cannot show {re.escape(str(path))}: {message}$"):
            await daemon.requests.show(str(path), 0, 0)


async def test_no_workspace(trusted: Path) -> None:
    with pytest.raises(CkwatchError, match=r"no ckwatch.toml"):
        async with open_engine(trusted, history=trusted / "h.sqlite"):
            pass


async def test_cancelling_ends_what_other_clients_and_unsaved_texts_want(bench: Bench) -> None:
    bench.will("slow")
    async with bench.open() as daemon, following(daemon, "ann") as ann:
        await ann.until(lambda s: all(unit.phase == "idle" for unit in s.units.values()) and len(s.units) == 2)
        await daemon.requests.overlay("ann", str(bench.root / "templates/macros.j2"), "int unsaved;\n")
        async with daemon.builds.build(MAIN, ("k/one",), force=False, check_only=False) as lines:
            with anyio.fail_after(PATIENCE_S):
                await bench.started(2)
                assert await daemon.builds.cancel(MAIN, None) == ["k/one@gfx942", "k/two@gfx942"]
                assert [(line.event, line.problem) async for line in lines][1:] == [
                    ("unit", "cancelled"),
                    ("done", None),
                ]
        await ann.until(lambda s: all(unit.phase == "idle" for unit in s.units.values()) and not s.workspace.busy)
        assert not bench.alive
        assert await daemon.builds.cancel(MAIN, None) == []
