"""Diagnostics through the wire, with a real daemon and no compiler."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ckwatch_templates
from ckwatch.workspace.trust import trust
from lsp.editing import Editor, LspError, capabilities, copy_of, editor, lasting, place, start

GOOD = "NPerBlock = 128\nKPerBlock = 64\nMXdlPerWave = 2"
BAD = "NPerBlock = 128\nKPerBlock = 64\nMXdlPerWave = 3"
RULE = "rule/m-per-block"
A, C = 'a = { dtype = "f16", layout', 'c = { dtype = "f16", layout'

PULLS = capabilities(textDocument__diagnostic={"relatedDocumentSupport": True, "relatedInformation": True})
EMACS = capabilities(
    textDocument__publishDiagnostics={"relatedInformation": False, "tagSupport": {"valueSet": [1, 2]}},
    workspace__workspaceEdit=None,
)


@pytest.fixture(autouse=True)
def no_toolchain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is compiled: the private toolchain lies in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    """Kernel files with a template that is installed."""
    root = copy_of("gemm", tmp_path)
    trust(root)
    return root


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same, for tests that only lend texts; its daemon outlives a test."""
    with lasting(copy_of("gemm", tmp_path_factory.mktemp("diagnostics"))) as root:
        yield root


def with_own_template(folder: Path) -> Path:
    """A kernel of twelve instances with a template of its own."""
    root = copy_of("hip", folder)
    (root / "gemm_bf16_bias_silu.kernel.toml").unlink()
    (root / "templates").mkdir()
    template = Path(ckwatch_templates.__file__).parent / "hip/gemm_tiled.hip.j2"
    (root / "templates/own.hip.j2").write_text(template.read_text())
    file = root / "gemm_f8_row_scales.kernel.toml"
    file.write_text(file.read_text().replace("hip/gemm_tiled.hip.j2", "own.hip.j2"))
    return root


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Such a kernel, for tests that write files."""
    root = with_own_template(tmp_path)
    trust(root)
    return root


@pytest.fixture(scope="module")
def shared_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Such a kernel, for tests that only edit documents; its daemon outlives a test."""
    with lasting(with_own_template(tmp_path_factory.mktemp("own"))) as root:
        yield root


def codes(*wanted: str) -> Callable[[list[dict[str, Any]]], bool]:
    """Return True if a document's diagnostics have these codes, in their order."""
    return lambda found: [one["code"] for one in found] == list(wanted)


def history(made: Editor, path: Path, since: int = 0) -> list[tuple[int | None, list[str]]]:
    """All that was published of a document: the version and the codes."""
    return [
        (params.get("version"), [one["code"] for one in params["diagnostics"]])
        for params in made.all("textDocument/publishDiagnostics")[since:]
        if params["uri"] == path.as_uri()
    ]


def lines_are(made: Editor, path: Path, found: list[dict[str, Any]], text: str) -> bool:
    """Return True if each diagnostic stands on a line with `text`."""
    lines = made.text(path).split("\n")
    return bool(found) and all(text in lines[one["range"]["start"]["line"]] for one in found)


async def test_a_broken_rule_shows_while_typing_and_goes_with_the_mistake(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    async with editor(shared) as made:
        await made.open(file)
        await made.replace(file, GOOD, BAD)
        (found,) = await made.diagnosed(file)
        assert (found["code"], found["source"], found["severity"]) == (RULE, "ckwatch", 1)
        assert lines_are(made, file, [found], "MXdlPerWave = 3")
        assert found["codeDescription"]["href"].endswith("/docs/rules.md#m-per-block")
        assert "MPerBlock = 128" in [one["message"] for one in found["relatedInformation"]]
        await made.replace(file, BAD, GOOD)
        await made.diagnosed(file, codes())
        assert history(made, file)[0] == (2, [RULE])
        assert history(made, file)[-1] == (3, [])


async def test_nothing_flickers_from_an_edit_to_its_result(gemm: Path) -> None:
    """Lines typed above, a save, a half-typed line and its end, the daemon killed and back."""
    file = gemm / "gemm_f16.kernel.toml"
    async with editor(gemm) as made:
        await made.open(file)
        await made.replace(file, GOOD, BAD)
        await made.diagnosed(file, codes(RULE))
        since = len(made.all("textDocument/publishDiagnostics"))
        for _ in range(3):
            await made.replace(file, "[defaults]", "# a line\n[defaults]")
        await made.diagnosed(file, lambda found: lines_are(made, file, found, "MXdlPerWave = 3"))
        await made.save(file)
        await made.replace(file, 'name = "decode"', 'name = "decode')
        await made.diagnosed(file, codes("kernel-file/syntax", RULE))
        await made.replace(file, 'name = "decode', 'name = "decode"')
        await made.diagnosed(file, codes(RULE))
        kill_daemon(gemm)
        await made.replace(file, "KPerBlock = 32\nMXdlPerWave = 4", "KPerBlock = 32\nMXdlPerWave = 3")
        await made.diagnosed(file, lambda found: len(found) > 1)
        published = history(made, file, since)
        assert all(RULE in found for _, found in published), published
        versions = [version or 0 for version, _ in published]
        assert versions == sorted(versions)
        await made.replace(file, BAD, GOOD)
        await made.replace(file, "KPerBlock = 32\nMXdlPerWave = 3", "KPerBlock = 32\nMXdlPerWave = 4")
        await made.diagnosed(file, codes())


def kill_daemon(root: Path) -> None:
    """As the kernel does when memory is short."""
    found = [
        int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _is_daemon(path / "cmdline", root)
    ]
    assert found
    for process in found:
        os.kill(process, signal.SIGKILL)


def _is_daemon(command: Path, root: Path) -> bool:
    try:
        words = command.read_bytes().split(b"\0")
    except OSError:
        return False
    return b"ckwatch.server" in words and os.fsencode(root) in words


async def test_a_template_is_rendered_as_it_is_typed(shared_own: Path) -> None:
    file = shared_own / "templates/own.hip.j2"
    async with editor(shared_own) as made:
        await made.open(file)
        await made.replace(file, '{{ globals("hip") }}', '{{ globalz("hip") }}')
        (found,) = await made.diagnosed(file, lambda found: "instances" in found[0]["message"] if found else False)
        assert found["code"] == "template/undefined"
        assert found["message"].startswith("'globalz' is undefined; did you mean 'globals'? (in all ")
        text = made.text(file)
        at = text.index("globalz")
        assert found["range"] == {"start": place(text, at), "end": place(text, at + len("globalz"))}
        since = len(made.all("textDocument/publishDiagnostics"))
        await made.replace(file, "globalz", "\nglobalz")
        await made.replace(file, "globalz", "globalzz")
        await made.diagnosed(file, lambda found: found and found[0]["message"].startswith("'globalzz'"))
        # It is never gone meanwhile. Units are rendered one after the other: on a busy machine the message of those that
        # are not yet rendered stands beside the new one for a moment.
        reported = [len(found) for _, found in history(made, file, since)]
        assert set(reported) <= {1, 2}, reported
        assert reported[-1] == 1, reported
        await made.replace(file, "\nglobalzz", "globals")
        await made.diagnosed(file, codes())


async def test_what_is_wrong_in_a_file_that_is_not_open_is_told_too(own: Path) -> None:
    file, template = own / "gemm_f8_row_scales.kernel.toml", own / "templates/own.hip.j2"
    template.write_text(template.read_text().replace('globals("hip")', "MPerBlok"))
    async with editor(own) as made:
        await made.open(file)
        await made.diagnosed(template, codes("template/undefined"))
        assert made.diagnostics(file) is None
        await made.open(template)
        await made.replace(template, "MPerBlok", 'globals("hip")')
        await made.diagnosed(template, codes())
        await made.close(template)
        await made.diagnosed(template, codes("template/undefined"))


async def test_an_editor_without_related_places_has_them_in_the_message(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    async with editor(shared, able=EMACS) as made:
        await made.open(file)
        await made.replace(file, GOOD, BAD)
        (found,) = await made.diagnosed(file)
        assert "relatedInformation" not in found
        assert "codeDescription" not in found
        message, formula, note, related = found["message"].split("\n")
        assert message == "A wave computes MPerXDL * MXdlPerWave rows of the block tile; whole waves must cover it."
        assert formula == "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"
        assert note == "no rule is broken with MXdlPerWave = 2"
        assert related == "gemm_f16.kernel.toml:59: MPerBlock = 128"
        published = made.all("textDocument/publishDiagnostics")
        assert all("version" not in each for each in published)


async def test_an_editor_that_pulls_is_told_when_to_do_so(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    async with editor(shared, able=PULLS) as made:
        await made.open(file)
        await made.replace(file, GOOD, BAD)
        await made.until(lambda: made.all("workspace/diagnostic/refresh"))
        report = await made.of("textDocument/diagnostic", file)
        assert [(report["kind"], one["code"]) for one in report["items"]] == [("full", RULE)]
        again = await made.of("textDocument/diagnostic", file, previousResultId=report["resultId"])
        assert again == {"kind": "unchanged", "resultId": report["resultId"]}
        # the places are those of the text as it is, at once
        await made.replace(file, "[defaults]", "# a line\n[defaults]")
        moved = await made.of("textDocument/diagnostic", file, previousResultId=report["resultId"])
        assert lines_are(made, file, moved["items"], "MXdlPerWave = 3")
        assert made.all("textDocument/publishDiagnostics") == []
        assert await made.of("textDocument/diagnostic", "untitled:x") == {"kind": "full", "items": []}


async def pulled(made: Editor, path: Path, **more: Any) -> list[str]:
    """The codes of a pull, which is made again where the server says so."""
    while True:
        asked = {"textDocument": {"uri": path.as_uri()}, **more}
        answer = await made.answer(await made.ask("textDocument/diagnostic", asked))
        if "result" in answer:
            return [one["code"] for one in answer["result"]["items"]]
        assert answer["error"]["code"] == -32802
        assert answer["error"]["data"] == {"retriggerRequest": True}


async def whole(made: Editor, path: Path, text: str) -> None:
    """Replace all of a document's text, as editors do that know no ranges."""
    await made.change(path, [{"text": text}])


async def test_a_pull_is_answered_for_the_text_that_was_asked_about(shared: Path) -> None:
    """As soon as it is opened and after each edit, of kernel files and settings, without waiting for anything else."""
    file, settings = shared / "gemm_f16.kernel.toml", shared / "ckwatch.toml"
    good, rules = file.read_text(), settings.read_text()
    bad = good.replace(GOOD, BAD, 1)
    misspelt = good.replace(A, A.replace("layout", "layuot"))
    async with editor(shared, able=PULLS) as made:
        await made.open(file, bad)
        assert await pulled(made, file) == [RULE]
        for _ in range(3):
            await whole(made, file, misspelt)
            assert await pulled(made, file) == ["kernel-file/unknown-key"]
            await whole(made, file, bad)
            assert await pulled(made, file) == [RULE]
            await whole(made, file, good)
            assert await pulled(made, file) == []
        await made.open(settings, rules + "\n[complie]\n")
        assert await pulled(made, settings) == ["workspace/unknown-key"]
        await whole(made, settings, rules)
        assert await pulled(made, settings) == []


async def test_a_pull_of_a_kernel_file_waits_for_an_edit_of_its_template(shared_own: Path) -> None:
    template, file = shared_own / "templates/own.hip.j2", shared_own / "gemm_f8_row_scales.kernel.toml"
    text = template.read_text()
    async with editor(shared_own, able=PULLS) as made:
        await made.open(template)
        await made.open(file)
        for wrong, found in (("{{ 1 +", ["template/syntax"]), ("{{ nothing }}", ["template/undefined"]), ("", [])):
            await whole(made, template, text + wrong)
            assert await pulled(made, template) == found
            assert await pulled(made, file) == []


async def test_quick_fixes_are_of_the_present_text(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    good = file.read_text()
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}
    request = {"range": everywhere, "context": {"diagnostics": []}}
    async with editor(shared) as made:
        await made.open(file)
        await made.replace(file, A, A.replace("layout", "layuot"))
        await made.diagnosed(file)  # the daemon has started, for which no quick fix waits
        for wrong, meant in (
            ("layuot", "Replace 'layuot' by 'layout'"),
            ("dtpye", "Replace 'dtpye' by 'dtype'"),
            ("", ""),
        ):
            key = "layout" if meant.endswith("'layout'") else "dtype"
            text = good.replace(A, A.replace(key, wrong)) if wrong else good
            await whole(made, file, text)
            found = await made.of("textDocument/codeAction", file, **request)
            titles = [each["title"] for each in found or [] if each["kind"] == "quickfix"]
            assert titles == ([meant] if meant else [])


async def test_a_pull_ends_when_it_is_cancelled_or_its_text_replaced(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    good = file.read_text()
    async with editor(shared, able=PULLS) as made:
        await made.open(file)
        asked = []
        for index in range(4):
            await whole(made, file, good + f"# {index}\n")
            asked.append(await made.ask("textDocument/diagnostic", {"textDocument": {"uri": file.as_uri()}}))
        await made.notify("$/cancelRequest", {"id": asked[-1]})
        await made.until(lambda: all(number in made.answers for number in asked))
        for number in asked[:-1]:
            assert "result" in made.answers[number] or made.answers[number]["error"]["code"] == -32802
        assert "result" in made.answers[asked[-1]] or made.answers[asked[-1]]["error"]["code"] == -32800


async def test_a_pull_is_answered_when_there_is_no_daemon(gemm: Path, tmp_path: Path) -> None:
    file, elsewhere = gemm / "gemm_f16.kernel.toml", tmp_path / "alone.hip.j2"
    good = file.read_text()
    async with editor(gemm, able=PULLS) as made:
        await made.open(file)
        await whole(made, file, good.replace(GOOD, BAD, 1))
        assert await pulled(made, file) == [RULE]
        kill_daemon(gemm)
        await whole(made, file, good.replace(A, A.replace("layout", "layuot")))
        assert await pulled(made, file) == ["kernel-file/unknown-key"]
        await made.open(elsewhere, "{{ 1 +")
        assert await pulled(made, elsewhere) == []


async def test_workspace_diagnostics_are_answered_when_there_is_something_new(own: Path) -> None:
    file, template = own / "gemm_f8_row_scales.kernel.toml", own / "templates/own.hip.j2"
    text = template.read_text()
    template.write_text(text.replace('globals("hip")', "MPerBlok"))
    async with editor(own, able=PULLS) as made:
        await made.open(file)
        await made.until(lambda: made.all("workspace/diagnostic/refresh"))
        one = await made.of("textDocument/diagnostic", file)
        assert list(one["relatedDocuments"]) == [template.as_uri()]
        known: dict[str, str] = {}
        while template.as_uri() not in known:
            report = await made.request("workspace/diagnostic", {"previousResultIds": previous(known)})
            known |= {item["uri"]: item["resultId"] for item in report["items"]}
        template.write_text(text)
        while True:
            report = await made.request("workspace/diagnostic", {"previousResultIds": previous(known)})
            (item,) = [each for each in report["items"] if each["uri"] == template.as_uri()]
            known[item["uri"]] = item["resultId"]
            if item["kind"] == "full" and item["items"] == []:
                break
        # a request that nothing answers is no hindrance at the end
        await made.ask("workspace/diagnostic", {"previousResultIds": previous(known)})


async def test_an_editor_that_leaves_a_request_unanswered_ends_well(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    async with editor(shared, initialize=False) as made:
        made.unanswered.add("workspace/diagnostic/refresh")
        await start(made, shared, able=PULLS)
        await made.open(file)
        await made.replace(file, GOOD, BAD)
        await made.until(lambda: made.all("workspace/diagnostic/refresh"))
        await made.request("shutdown")
        for _ in range(3):
            with pytest.raises(LspError, match="shutting down"):
                await made.of("textDocument/foldingRange", file)
        await made.notify("exit")
        assert await made.server.wait() == 0


def previous(known: dict[str, str]) -> list[dict[str, str]]:
    return [{"uri": uri, "value": value} for uri, value in known.items()]


async def test_misspelt_keys_are_mended(shared: Path) -> None:
    file, code = shared / "gemm_f16.kernel.toml", "kernel-file/unknown-key"
    async with editor(shared) as made:
        await made.open(file)
        await made.replace(file, A, A.replace("layout", "layuot"))
        await made.replace(file, C, C.replace("layout", "layuot"))
        one, _ = await made.diagnosed(file, codes(code, code))
        (fix,) = one["data"]["fixes"]
        assert (fix["range"], fix["newText"]) == (one["range"], "layout")
        actions = await actions_for(made, file, one)
        assert [(each["title"], each.get("isPreferred")) for each in actions] == [
            ("Replace 'layuot' by 'layout'", True),
            (f"Fix all 2 of {code} in this file", None),
        ]
        assert actions[0]["diagnostics"] == [one]
        (change,) = actions[1]["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": file.as_uri(), "version": 3}
        assert [edit["newText"] for edit in change["edits"]] == ["layout", "layout"]
        assert await actions_for(made, file, one, only=["refactor"]) == []
        # a fix is no fix any more when somebody else has begun
        await made.replace(file, "layuot", "layot")
        assert not any("layuot" in each["title"] for each in await actions_for(made, file, one))


async def test_an_editor_without_versions_gets_plain_edits(shared: Path) -> None:
    file = shared / "gemm_f16.kernel.toml"
    async with editor(shared, able=EMACS) as made:
        await made.open(file)
        await made.replace(file, A, A.replace("layout", "layuot"))
        (one,) = await made.diagnosed(file)
        (action,) = await actions_for(made, file, one)
        assert [edit["newText"] for edit in action["edit"]["changes"][file.as_uri()]] == ["layout"]


async def actions_for(made: Editor, path: Path, one: dict[str, Any], **context: Any) -> list[dict[str, Any]]:
    """The quick fixes of a diagnostic that the daemon knows."""
    given = {"diagnostics": [one], **context}
    found = await made.of("textDocument/codeAction", path, range=one["range"], context=given)
    return [each for each in found or [] if each["kind"] == "quickfix" and each.get("diagnostics")]


async def test_two_workspaces_in_one_editor(shared: Path, shared_own: Path) -> None:
    file, template = shared / "gemm_f16.kernel.toml", shared_own / "templates/own.hip.j2"
    async with editor(shared, shared_own) as made:
        await made.open(file)
        await made.open(template)
        await made.replace(file, GOOD, BAD)
        await made.replace(template, '{{ globals("hip") }}', "{{ 1 +")
        await made.diagnosed(file, codes(RULE))
        await made.diagnosed(template, codes("template/syntax"))


async def test_a_mistake_that_only_a_shipped_template_sees_is_shown_at_the_instance(tmp_path: Path) -> None:
    root = copy_of("gemm", tmp_path)
    trust(root)
    path = root / "gemm_f16.kernel.toml"
    async with editor(root) as made:
        await made.open(path)
        default = 'BlkGemmPipeSched = "Intrawave"\n'
        await made.replace(path, default, "")
        name = '"v3_128x128x64_intrawave"'
        start = place(made.text(path), made.text(path).index(name))

        def at_the_first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [one for one in found if one["severity"] == 1 and one["range"]["start"] == start]

        # Another instance may be rendered before the first one is.
        error = at_the_first(await made.diagnosed(path, at_the_first))[0]
        assert error["message"].startswith("the instance sets no parameter `BlkGemmPipeSched`")
        needed = [one for one in error["relatedInformation"] if one["message"] == "needed here"]
        assert [Path(one["location"]["uri"]).parent.name for one in needed] == ["ck"]
        await made.replace(path, "\n[[shape]]", default + "\n[[shape]]")
        await made.diagnosed(path, lambda found: not [one for one in found if one["severity"] == 1])


async def test_a_mistake_that_is_made_again_at_once_is_shown_again(shared_own: Path) -> None:
    file = shared_own / "templates/own.hip.j2"
    async with editor(shared_own) as made:
        await made.open(file)
        for _ in range(12):
            await made.replace(file, "{{", "{{ Undefined }}{{")
            await made.diagnosed(file, bool)
            await made.replace(file, "{{ Undefined }}{{", "{{")
            await made.diagnosed(file, lambda told: not told)
