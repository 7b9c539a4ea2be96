"""Commands, figures and states as an editor sees them: the real language server, the real daemon, and no compiler."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.workspace.trust import trust
from helpers.workspaces import gemm_kernel
from lsp.editing import Editor, LspError, capabilities, editor, lasting

TEMPLATE = """\
{% import "common.j2" as common %}
// tile {{ Tile }}
extern "C" __attribute__((visibility("default"))) {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { {{ common.add(1) }} }
"""

KERNEL = gemm_kernel("k.cpp.j2", {"one": {"Tile": 1}, "two": {"Tile": 2}}, dtype="f32", layouts=("row", "row", "row"))
KERNEL += """
[[sweep]]
name = "s"
parameters = { Tile = [4, 8] }
"""

UNITS = ["k/one@host", "k/two@host", "k/s_4@host", "k/s_8@host"]
HINTS, LENSES = "workspace/inlayHint/refresh", "workspace/codeLens/refresh"
STATUS = "experimental/serverStatus"
EXECUTE = "workspace/executeCommand"
ALL_LINES = {"start": {"line": 0, "character": 0}, "end": {"line": 10_000, "character": 0}}


@pytest.fixture(autouse=True)
def no_toolchain(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is compiled: the private toolchain lies in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def workspace(folder: Path) -> Path:
    """Four units of one template."""
    (folder / "templates").mkdir()
    (folder / "ckwatch.toml").write_text("")
    (folder / "templates/k.cpp.j2").write_text(TEMPLATE)
    (folder / "templates/common.j2").write_text(
        "// nothing\n{% macro add(x) %}{% endmacro %}\n{% macro unused() %}{% endmacro %}\n"
    )
    (folder / "k.kernel.toml").write_text(KERNEL)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace that nobody has trusted."""
    return workspace(tmp_path)


@pytest.fixture
def trusted(root: Path) -> Path:
    trust(root)
    return root


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace in which nothing is built; its daemon outlives a test."""
    with lasting(workspace(tmp_path_factory.mktemp("commands"))) as root:
        yield root


async def after(
    made: Editor, method: str, ask: Callable[[], Awaitable[Any]], where: Callable[[Any], Any] = bool
) -> Any:
    """The answer as soon as it is such; it is asked again whenever there was another message of this method."""
    while True:
        seen = len(made.all(method))
        found = await ask()
        if where(found):
            return found
        await more(made, method, seen)


async def more(made: Editor, method: str, seen: int) -> None:
    """Wait for one more message of this method."""
    await made.until(lambda: len(made.all(method)) > seen)


async def units(made: Editor, where: Callable[[list[Any]], Any]) -> list[Any]:
    """The units, as soon as they are such."""
    found: list[Any] = await after(made, "ckwatch/unitsChanged", lambda: made.command("ckwatch.units"), where)
    return found


async def known(made: Editor) -> list[Any]:
    """All units, each rendered."""
    return await units(made, lambda found: len(found) == 4 and all(each["phase"] in ("idle", "done") for each in found))


async def hints(made: Editor, path: Path) -> dict[int, str]:
    """Return the labels of hints by line."""
    found = await made.of("textDocument/inlayHint", path, range=ALL_LINES)
    return {each["position"]["line"]: " ".join(each["label"].replace("\u2007", " ").split()) for each in found or ()}


async def lenses(made: Editor, path: Path) -> list[tuple[int, str]]:
    """Titles with their lines."""
    found = await made.of("textDocument/codeLens", path)
    return [(each["range"]["start"]["line"], each["command"]["title"]) for each in found or ()]


async def test_the_units(shared: Path) -> None:
    kernel = shared / "k.kernel.toml"
    async with editor(shared) as made:
        await made.open(kernel)
        found = await known(made)
        assert [each["id"] for each in found] == UNITS
        first = found[0]
        assert {name: first[name] for name in ("kernel", "instance", "arch", "text", "standing", "errors")} == {
            "kernel": "k", "instance": "one", "arch": "host", "text": "", "standing": None, "errors": 0
        }  # fmt: skip
        assert first["uri"] == first["kernelUri"] == kernel.as_uri()
        assert first["range"] == {"start": {"line": 9, "character": 7}, "end": {"line": 9, "character": 12}}
        assert [each["active"] for each in found] == [True, False, False, False]
        assert made.all("ckwatch/unitsChanged")[0] == {"folder": shared.as_uri()}


async def test_hints_lenses_and_hovers(shared: Path) -> None:
    kernel, template, common = (
        shared / name for name in ("k.kernel.toml", "templates/k.cpp.j2", "templates/common.j2")
    )
    async with editor(shared, settings={"buildFirst": "none"}) as made:
        await made.open(kernel)
        await known(made)
        assert await after(made, HINTS, lambda: hints(made, kernel)) == {
            8: "not built",
            12: "not built",
            16: "0 of 2 built",
        }
        assert await after(made, LENSES, lambda: lenses(made, kernel)) == [
            (0, "run all"),
            (0, "rank"),
            (8, "run"),
            (8, "source"),
        ]
        first = {"line": 13, "character": 0}
        await made.notify("ckwatch/cursor", {"uri": kernel.as_uri(), "position": first})
        await after(
            made, LENSES, lambda: lenses(made, kernel), lambda found: found[2:] == [(12, "run"), (12, "source")]
        )
        hover = await made.at("textDocument/hover", kernel, "[[instance]]")
        assert hover["contents"]["value"].startswith("**k/one@host** (not built)")
        await made.open(template)
        assert await after(made, HINTS, lambda: hints(made, template)) == {2: "not built"}
        found = await after(made, LENSES, lambda: lenses(made, template))
        assert found == [(2, "run"), (2, "source"), (2, "choose instance")]
        await made.open(common)
        affected = [(0, "affects 4 units"), (1, "affects 4 units"), (2, "affects 0 units")]
        await after(made, LENSES, lambda: lenses(made, common), lambda found: found == affected)


async def test_settings_switch_channels_at_once(shared: Path) -> None:
    kernel = shared / "k.kernel.toml"
    async with editor(shared, settings={"buildFirst": "none"}) as made:
        await made.open(kernel)
        await known(made)
        await after(made, HINTS, lambda: hints(made, kernel))
        seen = len(made.all(HINTS))
        made.settings |= {"hints": False}
        await made.notify("workspace/didChangeConfiguration", {"settings": None})
        await more(made, HINTS, seen)
        assert await hints(made, kernel) == {}


async def test_the_instance_is_chosen_in_a_message(shared: Path) -> None:
    template = shared / "templates/k.cpp.j2"
    async with editor(shared, settings={"buildFirst": "none"}) as made:
        uri = await made.open(template)
        await known(made)
        assert await made.command("ckwatch.chooseInstance", uri=uri) is None
        made.choices.append("s_8")
        assert await made.command("ckwatch.chooseInstance", uri=uri) == {"unit": "k/s_8@host"}
        asked = made.all("window/showMessageRequest")[-1]
        assert [each["title"] for each in asked["actions"]] == ["one", "two", "s_4", "s_8"]
        await units(made, lambda found: [each["id"] for each in found if each["active"]] == ["k/s_8@host"])
        assert await made.command("ckwatch.chooseInstance", uri=uri, unit="k/two") == {"unit": "k/two@host"}
        await made.close(template)
        await made.open(template)
        await units(made, lambda found: [each["id"] for each in found if each["active"]] == ["k/two@host"])


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("run", {"unit": 5}, "`unit` must be a string"),
    ("run", {"unit": "k/onne"}, "no unit is called 'k/onne'"),
    ("run", {"uri": "file:///nowhere/k.kernel.toml"}, "there is no document file:///nowhere/k.kernel.toml"),
    ("run", {"unit": "k/one", "force": 1}, "`force` must be true or false"),
    ("build", {"uri": ["x"]}, "`uri` must be a string"),
    ("cancel", {"unit": "l"}, "no unit is called 'l'"),
    ("compare", {"unit": "k/one"}, ""),
    ("compare", {"unit": "k/one", "format": "html"}, "`format` is 'html'"),
    ("setBaseline", {"unit": "k/one", "name": 1}, "`name` must be a string"),
    ("setBaseline", {"unit": "k/one"}, ""),
    ("chooseInstance", {}, "`uri` must be given"),
    ("chooseInstance", {"unit": "x"}, "no unit is called 'x'"),
    ("restartDaemon", {"folder": "/nowhere"}, "/nowhere is not an open workspace"),
    ("trust", {"uri": "file:///nowhere"}, "there is no document"),
]


async def test_bad_arguments_get_a_sentence(shared: Path) -> None:
    async with editor(shared, settings={"buildFirst": "none"}) as made:
        await made.open(shared / "k.kernel.toml")
        await known(made)
        for command, argument, message in BAD:
            with pytest.raises(LspError) as error:
                await made.request(EXECUTE, {"command": f"ckwatch.{command}", "arguments": [argument]})
            assert (error.value.code, message in str(error.value)) == (-32803, True), (command, argument, error.value)


async def test_what_cannot_be_timed_says_why(trusted: Path) -> None:
    async with editor(trusted, settings={"buildFirst": "none"}) as made:
        await made.open(trusted / "k.kernel.toml")
        await known(made)
        found = await made.command("ckwatch.run", unit="k/one")
        assert (found["units"], found["timed"], found["cancelled"]) == (["k/one@host"], 0, False)
        assert found["skipped"]["k/one@host"]
        shown = await made.heard_of("window/showMessage", lambda params: "k/one@host" in params["message"])
        assert "k/one@host is not timed" in shown["message"]
        begun = [each for each in made.all("$/progress") if each["value"]["kind"] == "begin"]
        assert [each["value"]["title"] for each in begun] in ([], ["Timing k/one"])


async def test_what_cannot_be_verified_says_why(trusted: Path) -> None:
    async with editor(trusted, settings={"buildFirst": "none"}) as made:
        await made.open(trusted / "k.kernel.toml")
        await known(made)
        found = await made.command("ckwatch.verify", unit="k/one")
        assert found["units"] == {"k/one@host": "not verified"}
        assert found["summaries"]["k/one@host"]
        shown = await made.heard_of("window/showMessage", lambda params: "k/one@host" in params["message"])
        assert shown["message"] == f"k/one@host: {found['summaries']['k/one@host']}"


async def test_a_daemon_is_trusted_restarted_and_its_log_shown(root: Path) -> None:
    async with editor(root, settings={"buildFirst": "none"}) as made:
        await made.open(root / "k.kernel.toml")
        status = await made.heard_of(STATUS, lambda params: params["health"] == "warning")
        assert "not trusted" in status["message"]
        assert status["folder"] == str(root)
        assert await made.command("ckwatch.trust") == {"folders": [str(root)]}
        await known(made)
        log = await made.command("ckwatch.showLog")
        first = re.findall(r"process (\d+)", log)
        assert len(first) == 1
        shown = await made.heard_of("window/showDocument")
        assert await anyio.Path(shown["uri"].removeprefix("file://")).read_text() == log
        assert await made.command("ckwatch.restartDaemon") == {"folders": [str(root)]}
        await made.heard_of(STATUS, lambda params: "was stopped" in params["message"])
        processes = first
        while len(processes) < 2:
            seen = len(made.all(STATUS))
            try:
                processes = re.findall(r"process (\d+)", await made.command("ckwatch.showLog"))
            except LspError:
                await more(made, STATUS, seen)
        assert len(set(processes)) == 2
        await known(made)


async def test_nothing_is_told_that_was_not_asked_for(shared: Path) -> None:
    able = capabilities(window__workDoneProgress=None, experimental=None, workspace__inlayHint=None)
    async with editor(shared, able=able) as made:
        await made.open(shared / "k.kernel.toml")
        await made.until(lambda: made.all(LENSES))
        await made.command("ckwatch.build", unit="k/one")
        methods = {message["method"] for message in made.heard}
        assert not [each for each in methods if "rogress" in each or each.startswith(("experimental/", "ckwatch/"))]
        assert HINTS not in methods
