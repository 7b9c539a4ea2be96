"""Device passes that are kept: an edit of host code repeats none."""

from __future__ import annotations

import operator
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.compile_job import source_id
from ckwatch.compile.elf import LINE_TABLES
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompileStatus
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.render.tokens import DEVICE_MACRO, device_text
from fakes.fake_hip import SYMBOL, FakeHip, Step, fake_hip, request

SPLIT = f"""\
#include <a.h>
int tile = 1;
#if !defined(__HIP_DEVICE_COMPILE__)
int {SYMBOL}() {{ return 1; }}
#endif
"""
HOST_EDIT = SPLIT.replace("return 1", "return 2")
DEVICE_EDIT = SPLIT.replace("tile = 1", "tile = 2")


@pytest.fixture
def hip(tmp_path: Path) -> FakeHip:
    return fake_hip(tmp_path)


@pytest.fixture
def ladder(hip: FakeHip, store: ArtifactStore) -> StagedCompiler:
    return StagedCompiler(hip.toolchain, store, hip)


async def compiled(
    ladder: StagedCompiler,
    store: ArtifactStore,
    source: str,
    *,
    asked: CompileRequest | None = None,
    force: bool = False,
) -> CompileOutcome:
    return await ladder.compile(asked or request(source), store.work_folder(), BuildOptions(force=force))


async def passes(
    ladder: StagedCompiler, store: ArtifactStore, hip: FakeHip, source: str, *, force: bool = False
) -> list[Step]:
    """Which passes a compile of `source` runs."""
    hip.runs.clear()
    outcome = await compiled(ladder, store, source, force=force)
    assert outcome.status is CompileStatus.OK
    return sorted(step for step in hip.steps if step in (Step.HOST, Step.DEVICE))


@pytest.mark.parametrize(
    ("edit", "run"),
    [
        pytest.param(HOST_EDIT, [Step.HOST], id="host code"),
        pytest.param(SPLIT.replace("int tile", "// tile\nint   tile"), [Step.HOST], id="blanks and comments"),
        pytest.param(DEVICE_EDIT, [Step.DEVICE, Step.HOST], id="device code"),
        pytest.param(HOST_EDIT.replace("!defined", "X || !defined"), [Step.DEVICE, Step.HOST], id="another condition"),
        pytest.param(f"#define X 1\n{HOST_EDIT}", [Step.DEVICE, Step.HOST], id="a macro"),
        pytest.param(f"#undef __HIP_DEVICE_COMPILE__\n{HOST_EDIT}", [Step.DEVICE, Step.HOST], id="that macro"),
        pytest.param(HOST_EDIT.replace("a.h", "b.h"), [Step.DEVICE, Step.HOST], id="another include"),
    ],
)
async def test_what_an_edit_repeats(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, edit: str, run: list[Step]
) -> None:
    assert await passes(ladder, store, hip, SPLIT) == [Step.DEVICE, Step.HOST]
    assert await passes(ladder, store, hip, edit) == run


async def test_a_source_without_host_code_of_its_own_is_not_kept(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    whole = SPLIT.replace("#if !defined(__HIP_DEVICE_COMPILE__)\n", "").replace("#endif\n", "")
    for _ in range(2):
        assert await passes(ladder, store, hip, whole) == [Step.DEVICE, Step.HOST]


async def test_what_was_kept_gives_the_same(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    first = await compiled(ladder, store, SPLIT)
    again = await compiled(ladder, store, HOST_EDIT)
    assert again.files[ProductKind.CODE_OBJECT].read_bytes() == first.files[ProductKind.CODE_OBJECT].read_bytes()
    assert again.headers == first.headers, "those of the device pass too"


@pytest.mark.parametrize(
    ("first", "second", "lined"),
    [
        pytest.param(request(SPLIT, lines=True), HOST_EDIT, True, id="the same lines"),
        pytest.param(request(SPLIT, lines=True), SPLIT.replace("int tile", "\nint tile"), False, id="other lines"),
        pytest.param(request(SPLIT), HOST_EDIT, False, id="kept without"),
    ],
)
async def test_line_tables_of_a_kept_pass(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, first: CompileRequest, second: str, lined: bool
) -> None:
    hip.answer(Step.DEVICE, content=LINE_TABLES if first.lines else b"")
    await compiled(ladder, store, SPLIT, asked=first)
    again = await compiled(ladder, store, second, asked=request(second, lines=True))
    assert hip.steps.count(Step.DEVICE) == 1
    assert (ProductKind.LINE_TABLES in again.files) is lined


async def test_when_it_is_asked_for_it_is_compiled(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    await compiled(ladder, store, SPLIT)
    assert await passes(ladder, store, hip, HOST_EDIT, force=True) == [Step.DEVICE, Step.HOST]


@pytest.mark.parametrize("changed", [{"defines": ("X=1",)}, {"flags": ("-O1",)}, {"arch": "gfx90a"}], ids=str)
async def test_other_flags_are_another_pass(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, changed: dict[str, Any]
) -> None:
    await compiled(ladder, store, SPLIT)
    hip.runs.clear()
    await compiled(ladder, store, HOST_EDIT, asked=replace(request(HOST_EDIT), **changed))
    assert Step.DEVICE in hip.steps


async def test_another_compiler_is_another_pass(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    await compiled(ladder, store, SPLIT)
    other = StagedCompiler(replace(hip.toolchain, identity="another"), store, hip)
    assert await passes(other, store, hip, HOST_EDIT) == [Step.DEVICE, Step.HOST]


@pytest.mark.parametrize(
    "changed", [{"flags": ("-U__HIP_DEVICE_COMPILE__",)}, {"defines": ("__HIP_DEVICE_COMPILE__=0",)}]
)
async def test_a_flag_may_show_the_device_what_is_the_hosts(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, changed: dict[str, Any]
) -> None:
    first, edited = (replace(request(source), **changed) for source in (SPLIT, HOST_EDIT))
    await compiled(ladder, store, SPLIT, asked=first)
    hip.runs.clear()
    await compiled(ladder, store, HOST_EDIT, asked=edited)
    assert Step.DEVICE in hip.steps
    assert source_id(first) != source_id(edited)


@pytest.mark.parametrize("line", ["#undef __HIP_DEVICE_COMPILE__", "#  define __HIP_DEVICE_COMPILE__ 0"])
async def test_a_header_may_show_the_device_what_is_the_hosts(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, tmp_path: Path, line: str
) -> None:
    header = tmp_path / "own.h"
    header.write_text(f"{line}\n")
    hip.answer(Step.DEVICE, opens=(str(header),))
    assert await passes(ladder, store, hip, SPLIT) == [Step.DEVICE, Step.HOST]
    assert await passes(ladder, store, hip, HOST_EDIT) == [Step.DEVICE, Step.HOST]


async def test_a_header_that_changed_repeats_it(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    outcome = await compiled(ladder, store, SPLIT)
    header = next(Path(path) for path in outcome.headers if path.endswith("device.h"))
    header.write_text("// another\n")
    assert await passes(ladder, store, hip, HOST_EDIT) == [Step.DEVICE, Step.HOST]


async def test_a_pass_that_said_something_is_not_kept(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    hip.answer(Step.DEVICE, "kernel.hip:2:5: warning: unused\n")
    await compiled(ladder, store, SPLIT)
    assert await passes(ladder, store, hip, HOST_EDIT) == [Step.DEVICE, Step.HOST]


async def test_a_pass_that_failed_is_not_kept(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    hip.answer(Step.DEVICE, "kernel.hip:2:5: error: no\n", 1)
    assert (await compiled(ladder, store, SPLIT)).status is CompileStatus.FAILED
    hip.answer(Step.DEVICE)
    assert await passes(ladder, store, hip, HOST_EDIT) == [Step.DEVICE, Step.HOST]


_CONDITIONS = (
    *(
        "{m}",
        "defined({m})",
        "defined {m}",
        "X",
        "defined( X )",
        "!{m}",
        "!defined({m}) // {n}",
        "!(defined({m})) && X",
    ),
    *("X || !{m}", "(X || {m}) && !X", "!({m} && X) || /* {n} */ {m}", "X && !(Y || defined({m}))", "1 - {m}"),
)
_LINES = (
    *(
        "int t{n};",
        "/* it's\n#if X\n{n} */ int b{n};",
        'auto r{n} = R"(\n#else\n)";',
        '// "{n}',
        "int q{n} = '\"'; /* \" */",
    ),
    *("int s{n} = 1'000;", "// {n} \\\nint skipped;", "int e{n}; // it's", "int h{n}; /* # */"),
)


def conditional_text(seed: int) -> str:
    """A text of random groups, with directives in comments and raw strings, too."""
    choose = random.Random(seed)  # noqa: S311
    lines: list[str] = []
    has_else: list[bool] = []
    for n in range(choose.randint(4, 24)):
        condition = choose.choice(_CONDITIONS).format(m=DEVICE_MACRO, n=n)
        kind = choose.choice(("line", "line", "line", "if", "elif", "else", "endif"))
        if kind == "if":
            has_else.append(False)
            lines.append(
                choose.choice((f"#if {condition}", f" # if {condition}", f"#ifdef {DEVICE_MACRO}", "#ifndef X"))
            )
        elif kind == "line" or not has_else or (kind != "endif" and has_else[-1]):
            lines.append(choose.choice(_LINES).format(n=f"{seed}_{n}"))
        elif kind == "endif":
            has_else.pop()
            lines.append("#endif")
        else:
            has_else[-1] = kind == "else"
            lines.append(f"#elif {condition}" if kind == "elif" else "#else")
    return "\n".join((*lines, *("#endif" for _ in has_else), ""))


@pytest.mark.toolchain
def test_what_is_left_out_is_what_clang_skips(toolchain: Toolchain, tmp_path: Path) -> None:
    texts = [conditional_text(seed) for seed in range(300)]
    seen = [device_text(text) for text in texts]
    assert sum(map(operator.ne, texts, seen)) > 100
    for macros in ([], ["-DX"], ["-DX", "-DY"]):
        printed = []
        for number, sources in enumerate((texts, seen)):
            file = tmp_path / f"{number}.cpp"
            file.write_text("".join(sources))
            command = [str(toolchain.clang), "-E", "-P", "-std=c++20", f"-D{DEVICE_MACRO}=1", *macros, str(file)]
            printed.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
        assert printed[0] == printed[1]
