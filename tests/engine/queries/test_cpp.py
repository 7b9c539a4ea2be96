"""Questions about C++ to a daemon whose compiler and clangd are stand-ins."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from benches.daemon_bench import KERNEL, Bench, following
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.headers.features import FEATURES
from ckwatch.model.errors import CkwatchError, ToolchainError, UnknownUnitError
from ckwatch.wire.cpp import CppAnswer, CppRequest
from fakes.clangd_stand_in import ClangdStandIn
from fakes.own_renders import OwnRenders
from fakes.patience import PATIENCE_S

HOVER = "textDocument/hover"
TEXT = (
    "int tile = {{ Tile }};\n// note\n{% if Tile == 2 %}\nint second = tile;\n{% endif %}\nint {{ KERNEL_NAME }}();\n"
)


class CppBench(Bench):
    """A workspace whose clangd is a stand-in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clangd = ClangdStandIn(folder / "clangd")
        self.units = 2
        self.template = self.write("templates/k.hip.j2", TEXT)
        settings = (self.root / "ckwatch.toml").read_text()
        self.write("ckwatch.toml", f"{settings}[toolchain]\nclangd = {json.dumps(str(self.clangd.path))}\n")

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[Daemon]:
        """A daemon, whose end is that of its clangds."""
        with anyio.fail_after(PATIENCE_S):
            async with self.open() as daemon:
                while len(await daemon.language.readers(MAIN, self.template)) < self.units:  # noqa: ASYNC110  # renders
                    await anyio.sleep(0.01)
                yield daemon
        assert self.clangd.alive == []

    @property
    def texts(self) -> list[str]:
        """Sources that clangd had opened, in order."""
        told = [one for one in self.clangd.received if one.get("method", "").startswith("textDocument/did")]
        return [
            one["params"]["contentChanges"][0]["text"] if "contentChanges" in one["params"] else document["text"]
            for one in told
            if "text" in (document := one["params"]["textDocument"]) or "contentChanges" in one["params"]
        ]


@pytest.fixture
def bench(tmp_path: Path) -> CppBench:
    return CppBench(tmp_path)


def request(question: str, path: str | None, line: int | None = None, column: int = 0, **more: Any) -> CppRequest:
    start = None if line is None else {"line": line, "character": column}
    return CppRequest.model_validate({"question": question, "path": path, "start": start, **more})


async def ask(daemon: Daemon, asked: CppRequest) -> CppAnswer:
    return await daemon.cpp.ask(asked.client or MAIN, asked)


async def hover(daemon: Daemon, path: str | None, line: int, column: int, **more: Any) -> CppAnswer:
    return await ask(daemon, request("hover", path, line, column, **more))


async def hover_of(daemon: Daemon, path: str, text: str, **more: Any) -> CppAnswer:
    """The answer for `tile`, as soon as it is about this text of the file: the daemon is told of it some time."""
    while True:
        answer = await hover(daemon, path, 0, 5, **more)
        if answer.digest == hashlib.sha256(text.encode()).hexdigest():
            return answer


def said(answer: CppAnswer) -> str:
    assert answer.result is not None, answer
    return str(answer.result["contents"]["value"])


async def test_a_template(bench: CppBench) -> None:
    async with bench.asked() as daemon:
        assert bench.clangd.pids == []
        answer = await hover(daemon, bench.template, 0, 5)
        assert said(answer) == "Type: `tile`"
        assert (answer.unit, answer.side, answer.ready) == ("k/one@gfx942", "host", True)
        assert answer.digest == hashlib.sha256(TEXT.encode()).hexdigest()
        produced = await hover(daemon, bench.template, 0, 14, unit="k/two")
        assert said(produced) == "Type: `2`"
        assert (produced.result["produced"], produced.unit) == ("2", "k/two@gfx942")
        assert len(bench.clangd.pids) == 1


async def test_a_kernel_file(bench: CppBench) -> None:
    """Without a unit, it is that whose value stands there."""
    path = str(bench.root / "k.kernel.toml")
    lines = KERNEL.splitlines()
    column = len("Tile = ")
    async with bench.asked() as daemon:
        for value, unit in (("1", "k/one@gfx942"), ("2", "k/two@gfx942")):
            answer = await hover(daemon, path, lines.index(f"Tile = {value}"), column)
            assert (said(answer), answer.unit) == (f"Type: `{value}`", unit)
        elsewhere = await hover(daemon, path, 0, 0)
        assert elsewhere.reason == "no value of this instance stands here"


async def test_the_rendered_source_and_a_header(bench: CppBench) -> None:
    async with bench.asked() as daemon:
        answer = await hover(daemon, None, 0, 5, unit="k/one")
        assert said(answer) == "Type: `tile`"
        assert answer.digest == hashlib.sha256(bench.texts[0].encode()).hexdigest()
        header = await hover(daemon, str(bench.header), 0, 4, unit="k/one")
        assert (said(header), header.digest) == ("Type: `h`", "")
        with pytest.raises(CkwatchError, match="cannot be read"):
            await hover(daemon, str(bench.header.with_name("none.h")), 0, 4, unit="k/one")


async def test_a_header_that_a_template_asks_for_a_feature_is_a_header(bench: CppBench) -> None:
    asked = FEATURES["gemm-CompV6"]
    header = bench.header.parent / asked.header
    header.parent.mkdir(parents=True)
    header.write_text("int h;\n")
    (bench.header.parent / "ck_tile/core.hpp").touch()
    bench.write("templates/k.hip.j2", f"{TEXT}// {{{{ has_feature('gemm-CompV6') }}}}\n")
    async with bench.asked() as daemon:
        assert said(await hover(daemon, bench.template, 0, 5)) == "Type: `tile`"
        answer = await hover(daemon, str(header), 0, 4, unit="k/one")
        assert (said(answer), answer.digest) == ("Type: `h`", "")


async def test_refusals_before_clangd_is_started(bench: CppBench) -> None:
    async with bench.asked() as daemon:
        nowhere = await hover(daemon, bench.template, 3, 5)
        assert (nowhere.reason, nowhere.unit) == ("nothing in the rendered source comes from here", "k/one@gfx942")
        assert nowhere.digest == hashlib.sha256(TEXT.encode()).hexdigest()
        typed = await ask(daemon, request("completion", bench.template, 0, 14))
        assert typed.reason == "`{{ Tile }}` at k.hip.j2:1:12 writes it"
        with pytest.raises(UnknownUnitError):
            await hover(daemon, bench.template, 0, 5, unit="k/none")
        with pytest.raises(CkwatchError, match="no unit is made of") as unread:
            await hover(daemon, bench.write("templates/other.j2", "int a;\n"), 0, 5)
        assert unread.value.hint == "name the unit"
        assert bench.clangd.pids == []


async def test_a_template_with_errors(bench: CppBench) -> None:
    bench.write("templates/k.hip.j2", "int a = {{ Tile }}{{ nothing.at.all }};\n")
    async with bench.asked() as daemon:
        answer = await hover(daemon, bench.template, 0, 5, unit="k/one")
        assert answer.reason.startswith("the template has errors: ")
        assert "nothing" in answer.reason
        assert bench.clangd.pids == []


async def test_patience(bench: CppBench) -> None:
    bench.clangd.will("hang", HOVER)
    async with bench.asked() as daemon:
        answer = await hover(daemon, bench.template, 0, 5, patience_s=0)
        assert (answer.ready, answer.reason) == (False, "the template is being rendered")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hover, daemon, bench.template, 0, 5)
            await bench.clangd.got(HOVER)
            tasks.cancel_scope.cancel()
        await bench.clangd.got("$/cancelRequest")
        answer = await hover(daemon, bench.template, 0, 5, patience_s=0.2)
        assert (answer.ready, answer.reason) == (False, "clangd reads the text and its headers")


async def test_a_template_that_changes_all_the_time(bench: CppBench) -> None:
    bench.clangd.will("refuse", HOVER, "-32801")
    async with bench.asked() as daemon:
        answer = await hover(daemon, bench.template, 0, 5)
        assert (answer.ready, answer.reason) == (False, "the text changes faster than it is read")
        bench.clangd.will("refuse", HOVER, "once")
        assert said(await hover(daemon, bench.template, 0, 5)) == "Type: `tile`"


async def test_unsaved_text_is_the_clients_own(bench: CppBench) -> None:
    unsaved = TEXT.replace("tile", "width")
    async with bench.asked() as daemon, following(daemon, "vim"):
        await daemon.requests.overlay("vim", bench.template, unsaved)
        mine = await hover_of(daemon, bench.template, unsaved, client="vim")
        assert said(mine) == "Type: `width`"
        assert said(await hover(daemon, bench.template, 0, 5)) == "Type: `tile`"
        assert len(bench.clangd.pids) == 1


@pytest.fixture
def rendering(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Renders wait while it is not set."""
    goes_on, answer = threading.Event(), OwnRenders._answer_now
    goes_on.set()
    monkeypatch.setattr(OwnRenders, "_answer_now", lambda *asked: goes_on.wait() and answer(*asked))
    yield goes_on
    goes_on.set()


async def test_a_completion_does_not_wait_for_the_render(bench: CppBench, rendering: threading.Event) -> None:
    """The name of the kernel is made of the whole text: it stays until there is a render."""
    before, after = TEXT.replace("int tile", "int width"), TEXT.replace("int tile", "int widths")
    async with bench.asked() as daemon, following(daemon, "vim"):
        await daemon.requests.overlay("vim", bench.template, before)
        await hover_of(daemon, bench.template, before, client="vim")
        known = bench.texts[-1]
        rendering.clear()
        await daemon.requests.overlay("vim", bench.template, after)
        asked = request("completion", bench.template, 0, 9, client="vim")
        while (await ask(daemon, asked)).digest != hashlib.sha256(after.encode()).hexdigest():
            pass
        rendering.set()
        assert bench.texts[-1] == known.replace("width", "widths")
        await hover_of(daemon, bench.template, after, client="vim")
        assert bench.texts[-1] != known.replace("width", "widths")


async def test_a_completion_is_answered_from_the_last_good_render(bench: CppBench) -> None:
    """Of the file on disk, which the client's own text came after; a place beside what is broken has no answer."""
    broken = TEXT.replace("// note\n", "// note\n{{ nothing.at.all }}\nint other;\n")
    async with bench.asked() as daemon, following(daemon, "vim"):
        await hover(daemon, bench.template, 0, 5)
        [known] = bench.texts
        await daemon.requests.overlay("vim", bench.template, broken)
        while not (refused := await hover(daemon, bench.template, 0, 5, client="vim")).reason:
            pass
        assert refused.reason.startswith("the template has errors: ")
        assert refused.digest == ""
        asked = request("completion", bench.template, 0, 7, client="vim")
        answer = await ask(daemon, asked)
        assert (answer.ready, answer.digest) == (True, hashlib.sha256(broken.encode()).hexdigest())
        assert bench.texts[-1] == known
        beside = await ask(daemon, request("completion", bench.template, 3, 7, client="vim"))
        assert beside.reason == refused.reason


async def test_a_change_on_disk(bench: CppBench) -> None:
    async with bench.asked() as daemon:
        await hover(daemon, bench.template, 0, 5)
        bench.write("templates/k.hip.j2", TEXT.replace("tile", "width"))
        changed = await hover_of(daemon, bench.template, TEXT.replace("tile", "width"))
        assert said(changed) == "Type: `width`"


async def test_an_arch_has_a_clangd_of_its_own(bench: CppBench) -> None:
    settings = (bench.root / "ckwatch.toml").read_text()
    bench.write("ckwatch.toml", f'[workspace]\narchs = ["gfx942", "gfx90a"]\n{settings}')
    bench.units = 4
    async with bench.asked() as daemon:
        for arch in ("gfx942", "gfx90a", "gfx942"):
            await hover(daemon, bench.template, 0, 5, unit=f"k/one@{arch}")
        assert len(bench.clangd.pids) == len(bench.clangd.alive) == 2
        commands = [
            command["compilationCommand"]
            for one in bench.clangd.of("workspace/didChangeConfiguration")
            for command in one["params"]["settings"]["compilationDatabaseChanges"].values()
        ]
        assert [[word for word in one if word.startswith("--offload-arch")] for one in commands] == [
            ["--offload-arch=gfx942"],
            ["--offload-arch=gfx90a"],
        ]


async def test_the_device_answers_where_the_host_passes_over(bench: CppBench) -> None:
    lines = '[{"start":{"line":0,"character":0},"end":{"line":0,"character":20}}]'
    bench.clangd.will("skip", HOVER, lines)
    async with bench.asked() as daemon:
        assert (await hover(daemon, bench.template, 0, 5)).side == "device"
        assert (await hover(daemon, bench.template, 1, 3)).side == "host"
        assert (await hover(daemon, bench.template, 0, 5, side="host")).side == "host"


async def test_another_compiler_has_another_clangd(bench: CppBench) -> None:
    async with bench.asked() as daemon:
        await hover(daemon, bench.template, 0, 5)
        compiler = daemon.cpp._tools.compiler
        assert compiler is not None
        another = cast("Toolchain", replace(bench.toolchain, identity="compiler 2"))
        daemon.cpp._tools.compiler = replace(compiler, toolchain=another)
        await hover(daemon, bench.template, 0, 5)
        assert len(bench.clangd.pids) == 2
        while len(bench.clangd.alive) > 1:  # noqa: ASYNC110  # a process ends
            await anyio.sleep(0.01)
        warnings = (await daemon.statuses.status()).warnings
        assert not [topic for topic in warnings if topic.startswith("clangd")]
        daemon.cpp._tools.compiler = None
        with pytest.raises(ToolchainError):
            await hover(daemon, bench.template, 0, 5, unit="k/two")


async def test_its_death_is_a_warning(bench: CppBench) -> None:
    bench.clangd.will("crash", HOVER, "once")
    async with bench.asked() as daemon, following(daemon) as follower:
        assert said(await hover(daemon, bench.template, 0, 5)) == "Type: `tile`"
        await follower.until(lambda seen: "clangd for gfx942" in seen.workspace.warnings)
        warning = follower.workspace.warnings["clangd for gfx942"]
        assert warning == "clangd was ended by SIGSEGV; answers about C++ come again when it has been restarted"


async def test_other_instances(bench: CppBench) -> None:
    """Return the differing texts of a hover elsewhere."""
    async with bench.asked() as daemon:
        answer = await hover(daemon, bench.template, 0, 14, others=True)
        assert answer.result["others"] == [{"text": "Type: `2`", "units": ["k/two@gfx942"]}]
        same = await hover(daemon, bench.template, 0, 5, others=True)
        assert same.result["others"] == []


def edits(*places: tuple[int, int, int]) -> Any:
    """A rename to `width` in the text that is lent."""
    return [
        {
            "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}},
            "newText": "width",
        }
        for line, start, end in places
    ]


async def renamed(bench: CppBench, daemon: Daemon, *places: tuple[int, int, int], **more: Any) -> CppAnswer:
    await hover(daemon, bench.template, 0, 5, **more)
    uri = bench.clangd.of("textDocument/didOpen")[0]["params"]["textDocument"]["uri"]
    bench.clangd.answers("textDocument/rename", {"changes": {uri: edits(*places)}})
    return await ask(daemon, request("rename", bench.template, 0, 5, name="width", **more))


async def test_a_rename(bench: CppBench) -> None:
    async with bench.asked() as daemon:
        answer = await renamed(bench, daemon, (0, 4, 8), (3, 13, 17), unit="k/two")
        assert answer.result["changes"][Path(bench.template).as_uri()] == edits((0, 4, 8), (3, 13, 17))


async def test_a_rename_of_what_another_instance_renders(bench: CppBench) -> None:
    async with bench.asked() as daemon, following(daemon, "vim"):
        answer = await renamed(bench, daemon, (0, 4, 8))
        assert (answer.result, answer.reason) == (
            None, "`tile` also stands at k.hip.j2:4:14, which this instance does not render",
        )  # fmt: skip
        # the unsaved text counts
        unsaved = TEXT.replace("= tile", "= 3")
        await daemon.requests.overlay("vim", bench.template, unsaved)
        await hover_of(daemon, bench.template, unsaved, client="vim")
        answer = await renamed(bench, daemon, (0, 4, 8), client="vim")
        assert [len(one) for one in answer.result["changes"].values()] == [1]


def test_nothing_is_loaded_before_the_first_question() -> None:
    code = "import sys, ckwatch.engine.bootstrap, ckwatch.server.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ckwatch.engine.queries.cpp" in loaded
    assert [name for name in loaded if name.startswith("ckwatch.cpp") or name.endswith(".toolchain.clangd")] == []
