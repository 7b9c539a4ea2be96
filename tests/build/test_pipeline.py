"""The pipeline, with a shell script in the compiler's place: what each unit's end looks like, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from ckwatch.build.pipeline import Compiling, Pipeline
from ckwatch.build.report import BuildReport, Phase
from ckwatch.cli.output import read_line
from ckwatch.compile.builder import Builder
from ckwatch.config.workspace import load_workspace
from ckwatch.model.diagnostic import Diagnostic, Severity
from ckwatch.model.outcome import Outcome
from ckwatch.render.process import RenderPool
from ckwatch.store import ArtifactStore
from fake_compiler import OBJECT, FakeToolchain, dynamic_symbols, elf

KERNEL = """\
template = "k.hip.j2"
[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }
[[instance]]
name = "one"
Tile = 1
[[instance]]
name = "two"
Tile = 2
[[instance]]
name = "same_as_one"
Tile = 1
"""
TEMPLATE = "int tile = {{ Tile }};\nint {{ KERNEL_NAME }}();\n"

PLACEHOLDER = "k_" + "x" * 12

# Counts its runs and does what the files beside it ask for; a shared object exports what `exports.map` names.
COMPILER = """#!/bin/sh
for last; do :; done
case "$*" in
*-shared*)
    name=$(sed 's/.*global: *\\([^;]*\\);.*/\\1/' exports.map)
    LC_ALL=C sed "s/{placeholder}/$name/" "{folder}/so" > "$last" ;;
*)
    echo run >> "{folder}/runs"
    if grep -q 'tile = 2' kernel.hip && [ -e "{folder}/two-fails" ]; then
        echo "$PWD/kernel.hip:1:12:{{1:12-1:13}}: error: no such tile [Semantic Issue]" >&2; exit 1
    fi
    if [ -e "{folder}/killed" ]; then kill -9 $$; fi
    if [ -e "{folder}/slow" ]; then echo $$ > "{folder}/pid"; sleep 60; fi
    cp "{folder}/object" "$last" ;;
esac
"""


class Bench:
    """A workspace, a fake compiler, and what it was made to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "ws"
        (self.root / "templates").mkdir(parents=True)
        (self.root / "ckwatch.toml").write_text("")
        (self.root / "k.kernel.toml").write_text(KERNEL)
        self.template = self.root / "templates/k.hip.j2"
        self.template.write_text(TEMPLATE)
        script = folder / "hipcc"
        script.write_text(COMPILER.format(folder=folder, placeholder=PLACEHOLDER))
        script.chmod(0o755)
        (folder / "object").write_bytes(OBJECT)
        (folder / "so").write_bytes(elf(dynamic_symbols((PLACEHOLDER, 1, 0, 5))))
        self.toolchain = FakeToolchain(script, script, script)
        self.phases: list[tuple[str, Phase]] = []

    @property
    def runs(self) -> int:
        """Compiles so far."""
        path = self.folder / "runs"
        return len(path.read_text().split()) if path.exists() else 0

    def will(self, what: str, *, now: bool = True) -> None:
        """Make the compiler do `what`, or no longer."""
        path = self.folder / what
        path.touch() if now else path.unlink()

    async def build(self, *, jobs: int = 2, compiles: bool = True) -> BuildReport:
        workspace = load_workspace(self.root)
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(RenderPool(workspace.template_folders))
            store = stack.enter_context(ArtifactStore(self.folder / "store"))
            how = Compiling(Builder(self.toolchain, store), jobs) if compiles else None
            pipeline = Pipeline(workspace, pool, read_line, how)
            return await pipeline.run(
                list(workspace.units),
                lambda unit, phase: self.phases.append((unit.instance.name, phase)),
                lambda _: None,
            )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ends(report: BuildReport) -> dict[str, tuple[str, bool]]:
    return {unit.unit.instance.name: (unit.outcome.value, unit.from_store) for unit in report.units}


def errors(report: BuildReport) -> list[Diagnostic]:
    return [diagnostic for diagnostic in report.diagnostics if diagnostic.severity is Severity.ERROR]


async def test_one_source_is_compiled_once_and_then_comes_from_the_store(bench: Bench) -> None:
    first = await bench.build(jobs=1)
    assert [unit.outcome for unit in first.units] == [Outcome.BUILT] * 3
    assert bench.runs == 2
    second = await bench.build()
    assert ends(second) == dict.fromkeys(("one", "two", "same_as_one"), ("built", True))
    assert bench.runs == 2
    assert second.exit_status == 0


async def test_blanks_and_comments_start_no_compiler(bench: Bench) -> None:
    await bench.build()
    bench.template.write_text("// a comment\n\n" + TEMPLATE.replace("int tile", "int   tile") + "{# note #}\n")
    assert all(from_store for _, from_store in ends(await bench.build()).values())
    bench.template.write_text(TEMPLATE + "int more;\n")
    await bench.build()
    assert bench.runs == 4


async def test_an_edit_of_one_instance_compiles_one_unit(bench: Bench) -> None:
    await bench.build()
    before = bench.runs
    (bench.root / "k.kernel.toml").write_text(KERNEL.replace("Tile = 2", "Tile = 22"))
    assert ends(await bench.build())["two"] == ("built", False)
    assert bench.runs == before + 1


async def test_a_failure_is_kept_and_moves_with_the_text(bench: Bench) -> None:
    bench.will("two-fails")
    first = await bench.build()
    assert ends(first)["two"] == ("failed", False)
    assert first.exit_status == 1
    (diagnostic,) = errors(first)
    assert (str(diagnostic.span.start), diagnostic.message) == ("1:12", "no such tile")
    assert diagnostic.span.path == str(bench.template)
    bench.template.write_text("// moved\n\n  " + TEMPLATE)
    second = await bench.build()
    assert ends(second)["two"] == ("failed", True)
    (diagnostic,) = errors(second)
    assert str(diagnostic.span.start) == "3:14"


async def test_a_killed_compiler_is_a_fault_of_the_host_and_not_kept(bench: Bench) -> None:
    bench.will("killed")
    first = await bench.build()
    assert {end for end, _ in ends(first).values()} == {"faulted"}
    assert first.exit_status == 2
    assert {diagnostic.code for diagnostic in errors(first)} == {"host/killed"}
    bench.will("killed", now=False)
    assert {end for end, _ in ends(await bench.build()).values()} == {"built"}


async def test_mistakes_that_need_no_compiler_come_first_and_keep_nobody_waiting(bench: Bench) -> None:
    bench.template.write_text("{% if Tile == 2 %}{{ oops }}{% endif %}" + TEMPLATE)
    report = await bench.build()
    assert {name: end for name, (end, _) in ends(report).items()} == {
        "one": "built",
        "two": "failed",
        "same_as_one": "built",
    }
    checked = [index for index, (_, phase) in enumerate(bench.phases) if phase is Phase.CHECKED]
    compiling = [index for index, (_, phase) in enumerate(bench.phases) if phase is Phase.COMPILING]
    assert max(checked) < min(compiling)


async def test_checking_starts_no_compiler(bench: Bench) -> None:
    report = await bench.build(compiles=False)
    assert {unit.outcome for unit in report.units} == {Outcome.CHECKED}
    assert bench.runs == 0


async def test_cancelling_leaves_no_compiler_behind(bench: Bench, pid_is_gone: Callable[[int], bool]) -> None:
    bench.will("slow")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.build)
            # The script tells that it runs by writing a file; there is nothing to wait on but the file.
            while not (bench.folder / "pid").exists() or not (bench.folder / "pid").read_text().strip():  # noqa: ASYNC110
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
    assert pid_is_gone(int((bench.folder / "pid").read_text()))
    bench.will("slow", now=False)
    assert {end for end, _ in ends(await bench.build()).values()} == {"built"}


@pytest.fixture
def pid_is_gone() -> Callable[[int], bool]:
    return lambda pid: not Path(f"/proc/{pid}").exists()
