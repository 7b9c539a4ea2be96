"""Builds and timings that an editor starts, with a real compiler and this machine's processor as the device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ckwatch.workspace.trust import trust
from ckwatch_lsp.commands.tune import WRITE
from engine.timed_workspace import KERNEL, TEMPLATE
from lsp.commands.test_wire import HINTS, LENSES, STATUS, after, hints, lenses, more, units
from lsp.editing import Editor, editor

pytestmark = pytest.mark.toolchain

SETTINGS = """
[bench]
device = "cpu"
caches = ["hot"]
budget_s = 60
relative_error = 0.9
library = false
when = "request"
[compile]
precompile = false
flags = ["-fconstexpr-steps=2000000000"]
"""

SLOW = """\
constexpr int slow() { int sum = 0; for (int i = 0; i < 400000000; ++i) sum ^= i; return sum; }
static_assert(slow() != 1);
"""
"""A compiler needs minutes for it."""

LINE = KERNEL.split("\n").index("[[instance]]")

FIGURES = re.compile(r"\d+\.?\d* µs ± ?\d+\.?\d* % \d+\.?\d* [GT]FLOP/s")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "ckwatch.toml").write_text(SETTINGS + f'[store]\nfolder = "{tmp_path}/store"\n')
    exported = 'extern "C" __attribute__((visibility("default"))) int {{ KERNEL_NAME'
    (tmp_path / "templates/k.cpp.j2").write_text(TEMPLATE.replace("int {{ KERNEL_NAME", exported, 1))
    (tmp_path / "k.kernel.toml").write_text(KERNEL)
    trust(tmp_path)
    return tmp_path


def progress(made: Editor) -> list[tuple[str, list[str]]]:
    """The title of each progress, and what became of it."""
    found: dict[Any, tuple[str, list[str]]] = {}
    for each in made.all("$/progress"):
        value = each["value"]
        if value["kind"] == "begin":
            found[each["token"]] = (value["title"], [])
        else:
            found[each["token"]][1].append(value["kind"])
    return list(found.values())


async def test_a_unit_is_built_and_timed(root: Path) -> None:
    kernel = root / "k.kernel.toml"
    async with editor(root, settings={"buildFirst": "none"}) as made:
        await made.open(kernel)
        await after(made, HINTS, lambda: hints(made, kernel), lambda found: found == {LINE: "not built"})
        found = await made.command("ckwatch.run", uri=kernel.as_uri())
        assert (found["timed"], found["failed"], found["skipped"], found["cancelled"]) == (2, 0, {}, False)
        shown = await after(made, HINTS, lambda: hints(made, kernel), lambda found: FIGURES.fullmatch(found[LINE]))
        assert shown.keys() == {LINE}
        offered = [(0, "run all"), *((LINE, title) for title in ("run", "set baseline", "compare", "source"))]
        await after(made, LENSES, lambda: lenses(made, kernel), lambda found: found == offered)
        assert ("Timing k/one", ["report", "end"]) in [
            (title, sorted({*kinds} - {"begin"}, reverse=True)) for title, kinds in progress(made)
        ]

        assert (await made.command("ckwatch.setBaseline", unit="k/one"))["units"] == ["k/one@host"]
        text = await made.command("ckwatch.compare", unit="k/one", against="baseline")
        assert text.startswith("k/one@host compared")
        assert "baseline has this very timing" in text
        assert (await made.heard_of("window/showMessage", lambda params: params["message"] == text))["type"] == 3
        marked = await made.command("ckwatch.compare", unit="k/one", against="baseline", format="markdown")
        assert marked.startswith("**k/one@host** compared")

        hover = (await made.at("textDocument/hover", kernel, "[[instance]]"))["contents"]["value"]
        # A busy machine adds a column about its clock between these.
        assert re.search(r"^\| shape \| time \| error \|.* rate \|$", hover, re.MULTILINE), hover
        assert (await units(made, lambda rows: rows[0]["standing"] == "fresh"))[0]["text"].startswith(shown[LINE][:4])

        made.settings |= {"informationDiagnostics": True}
        await made.notify("workspace/didChangeConfiguration", {"settings": None})
        (told,) = await made.diagnosed(kernel)
        assert (told["code"], told["severity"], told["source"]) == ("figures/timing", 3, "ckwatch")
        await made.replace(kernel, "Factor = 1", "Factor = 2")
        await made.save(kernel)
        await after(made, HINTS, lambda: hints(made, kernel), lambda found: found[LINE].startswith("·"))


async def test_a_build_that_is_cancelled_in_the_editor(root: Path) -> None:
    template, kernel = root / "templates/k.cpp.j2", root / "k.kernel.toml"
    async with editor(root) as made:
        await made.open(template)
        await made.open(kernel)
        await units(made, lambda found: found and found[0]["phase"] == "idle")
        await made.replace(template, "#include <stddef.h>\n", "#include <stddef.h>\n" + SLOW)
        await made.save(template)
        begun = await made.heard_of("$/progress", lambda params: params["value"].get("message", "") == "1 of 1: k/one")
        assert "…" in (await after(made, HINTS, lambda: hints(made, kernel), lambda found: "…" in found[LINE]))[LINE]
        seen = len(made.all("$/progress"))
        await made.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
        await units(made, lambda found: found[0]["phase"] == "idle")
        await more(made, "$/progress", seen)
        assert made.all("$/progress")[-1] == {"token": begun["token"], "value": {"kind": "end"}}


async def test_a_command_that_is_cancelled_in_the_editor(root: Path) -> None:
    (root / "templates/k.cpp.j2").write_text(SLOW + (root / "templates/k.cpp.j2").read_text())
    async with editor(root, settings={"buildFirst": "none"}) as made:
        await made.open(root / "k.kernel.toml")
        await units(made, lambda found: found and found[0]["phase"] == "idle")
        for name, about in (("run", {"unit": "k/one"}), ("build", {"uri": (root / "k.kernel.toml").as_uri()})):
            number = await made.ask("workspace/executeCommand", {"command": f"ckwatch.{name}", "arguments": [about]})
            await units(made, lambda found: found[0]["phase"] == "compiling")
            if name == "run":
                begun = await made.heard_of("$/progress", lambda params: params["value"].get("title") == "Timing k/one")
                await made.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
            else:
                await made.command("ckwatch.cancel", unit="k/one")
            answer = await made.answer(number)
            assert answer["result"]["cancelled"] is True, answer
            await units(made, lambda found: found[0]["phase"] == "idle")
        assert [title for title, _ in progress(made)] == ["Timing k/one", "Building k/one"]


async def test_a_kernel_is_tuned_and_its_winner_written_down(root: Path) -> None:
    kernel = root / "k.kernel.toml"
    text = KERNEL.replace("[[instance]]", '[[sweep]]\nname = "s"\ntune = true\nparameters = { Factor = [1, 2] }\n')
    kernel.write_text(text.partition('name = "one"')[0])
    async with editor(root, settings={"buildFirst": "none"}) as made:
        await made.open(kernel)
        await made.heard_of(STATUS, lambda params: params["quiescent"] and params["health"] == "ok")
        assert await lenses(made, kernel) == [(0, "tune")]
        made.choices.append(WRITE)
        found = await made.command("ckwatch.tune", uri=kernel.as_uri())
        assert {shape: best["instance"] for shape, best in found["best"].items()} == {"small": "s_1", "odd": "s_1"}
        assert found["measured"] == 4  # that of the other factor is wrong
        shown = await made.heard_of("window/showMessage", lambda params: "wrote" in params["message"])
        assert shown["message"] == "wrote s_1 to k.kernel.toml"
        assert '[[instance]]\nname = "s_1"\nFactor = 1\n' in kernel.read_text()
        assert [title for title, _ in progress(made)] == ["Tuning k"]
        assert [each["id"] for each in await units(made, bool)] == ["k/s_1@host"]


async def test_a_tuning_run_that_is_cancelled_in_the_editor(root: Path) -> None:
    kernel = root / "k.kernel.toml"
    (root / "templates/k.cpp.j2").write_text(SLOW + (root / "templates/k.cpp.j2").read_text())
    kernel.write_text(KERNEL + '\n[[instance]]\nname = "two"\nFactor = 2\n')
    async with editor(root, settings={"buildFirst": "none"}) as made:
        await made.open(kernel)
        await units(made, lambda found: [each["phase"] for each in found] == ["idle", "idle"])
        assert (0, "tune") in await lenses(made, kernel)
        about = {"command": "ckwatch.tune", "arguments": [{"uri": kernel.as_uri()}]}
        number = await made.ask("workspace/executeCommand", about)
        begun = await made.heard_of("$/progress", lambda params: params["value"].get("title") == "Tuning k")
        assert "percentage" not in begun["value"]
        await units(made, lambda found: any(each["phase"] == "compiling" for each in found))
        await made.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
        answer = (await made.answer(number))["result"]
        assert (answer["measured"], answer["cancelled"]) == (0, True)
        shown = await made.heard_of("window/showMessage", lambda params: "stopped" in params["message"])
        assert shown["message"] == "tuning k was stopped after 0 measurements: small none; odd none."
        await units(made, lambda found: all(each["phase"] == "idle" for each in found))
