"""The server does what it announces; an editor's menus offer nothing else.

Every request of the protocol is sent, as lsprotocol lists them; every command that the editors' plug-ins name is there,
and answers with a sentence where it cannot be carried out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from lsprotocol import types

from ckwatch.workspace.trust import trust
from helpers.workspaces import gemm_kernel
from lsp.editing import ALL, CAPTURES, Editor, capabilities, editor, start

EDITORS = Path(__file__).parents[3] / "editors"
METHOD_NOT_FOUND, INVALID_REQUEST, INTERNAL_ERROR, REQUEST_FAILED = -32601, -32600, -32603, -32803

REQUESTS = sorted(
    method
    for method, (_, response, *_) in types.METHOD_TO_TYPES.items()
    if response is not None
    and types.message_direction(method) in ("clientToServer", "both")
    and method not in (types.INITIALIZE, types.SHUTDOWN)
)

PROVIDERS = {
    "textDocument/prepareRename": ("renameProvider", "prepareProvider"),
    "textDocument/semanticTokens/full": ("semanticTokensProvider", "full"),
    "textDocument/semanticTokens/full/delta": ("semanticTokensProvider", "full", "delta"),
    "textDocument/semanticTokens/range": ("semanticTokensProvider", "range"),
    "textDocument/rangesFormatting": ("documentRangeFormattingProvider", "rangesSupport"),
    "textDocument/rangeFormatting": ("documentRangeFormattingProvider",),
    "textDocument/formatting": ("documentFormattingProvider",),
    "textDocument/onTypeFormatting": ("documentOnTypeFormattingProvider",),
    "textDocument/documentColor": ("colorProvider",),
    "textDocument/colorPresentation": ("colorProvider",),
    "textDocument/prepareCallHierarchy": ("callHierarchyProvider",),
    "callHierarchy/incomingCalls": ("callHierarchyProvider",),
    "callHierarchy/outgoingCalls": ("callHierarchyProvider",),
    "textDocument/prepareTypeHierarchy": ("typeHierarchyProvider",),
    "textDocument/willSaveWaitUntil": ("textDocumentSync", "willSaveWaitUntil"),
    "textDocument/diagnostic": ("diagnosticProvider",),
    "completionItem/resolve": ("completionProvider", "resolveProvider"),
    "workspace/executeCommand": ("executeCommandProvider",),
    "workspace/symbol": ("workspaceSymbolProvider",),
    "workspaceSymbol/resolve": ("workspaceSymbolProvider", "resolveProvider"),
    "workspace/diagnostic": ("diagnosticProvider", "workspaceDiagnostics"),
    "workspace/textDocumentContent": ("workspace", "textDocumentContent"),
    "workspace/willCreateFiles": ("workspace", "fileOperations", "willCreate"),
    "workspace/willDeleteFiles": ("workspace", "fileOperations", "willDelete"),
    "workspace/willRenameFiles": ("workspace", "fileOperations", "willRename"),
}
"""Key of the capability that announces a method; `textDocument/NAME` by `NAMEProvider`, `NAME/…` by the same for the first of the name."""

PLACE = {"line": 0, "character": 0}
ITEM = {"name": "x", "kind": 1, "uri": "file:///x", "range": {"start": PLACE, "end": PLACE}}
ITEM["selectionRange"] = ITEM["range"]
PARAMS: dict[str, Any] = {
    "textDocument": {"uri": "file:///nowhere/templates/x.hip.j2"},
    "uri": "ckwatch://source/k/one@gfx942.hip?folder=/nowhere",
    "position": PLACE,
    "positions": [PLACE],
    "range": ITEM["range"],
    "ranges": [ITEM["range"]],
    "options": {"tabSize": 4, "insertSpaces": True},
    "ch": "}",
    "newName": "y",
    "query": "",
    "command": "ckwatch.units",
    "context": {"diagnostics": [], "includeDeclaration": True, "triggerKind": 1, "frameId": 1,
                "stoppedLocation": ITEM["range"]},
    "label": "x",
    "title": "x",
    "name": "x",
    "kind": 1,
    "location": {"uri": "file:///x", "range": ITEM["range"]},
    "item": ITEM,
    "color": {"red": 0, "green": 0, "blue": 0, "alpha": 0},
    "previousResultId": "x",
    "previousResultIds": [],
    "files": [],
    "reason": 1,
}  # fmt: skip
"""Parameters of any request."""


def params_of(method: str) -> dict[str, Any]:
    """Those that a request must have."""
    given: Any = types.METHOD_TO_TYPES[method][2]
    needed = [one.name for one in attrs.fields(given) if one.default is attrs.NOTHING]
    return {name: PARAMS[name] for name in (re.sub(r"_(\w)", lambda found: found[1].upper(), one) for one in needed)}


def provider(method: str) -> tuple[str, ...]:
    first, _, last = method.partition("/")
    if method in PROVIDERS:
        return PROVIDERS[method]
    return (f"{last}Provider",) if first == "textDocument" else (f"{first}Provider", f"{last}Provider")


def announced(given: Mapping[str, Any], method: str) -> bool:
    found: Any = given
    for name in provider(method):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found not in (None, False)


def registered(made: Editor) -> set[str]:
    told = made.all("client/registerCapability")
    found = [each for one in told for each in one["registrations"]]
    ranges = {
        "textDocument/rangesFormatting" for each in found if (each.get("registerOptions") or {}).get("rangesSupport")
    }
    return {each["method"] for each in found} | ranges


def able() -> dict[str, Any]:
    """Capabilities that kinds of editors announce."""
    found: dict[str, Any] = {
        "nothing": {},
        "all": ALL,
        "pulls": capabilities(textDocument__diagnostic={"relatedDocumentSupport": True}),
        "resolves": capabilities(textDocument__inlayHint={"resolveSupport": {"properties": ["tooltip"]}}),
        "virtual": capabilities(workspace__textDocumentContent={}),
    }
    for path in CAPTURES.glob("*.json"):
        found[path.stem] = json.loads(path.read_text())["initialize"]["capabilities"]
    return found


@pytest.mark.parametrize("name", able())
async def test_what_is_announced_is_answered_and_nothing_else(name: str) -> None:
    async with editor(initialize=False) as made:
        given = (await start(made, able=able()[name]))["capabilities"]
        assert await made.request("workspace/executeCommand", {"command": "ckwatch.units"}) == []
        later = registered(made)
        wrong = {}
        for method in REQUESTS:
            answer = await made.answer(await made.ask(method, params_of(method)))
            code = answer.get("error", {}).get("code")
            assert code in (None, METHOD_NOT_FOUND, REQUEST_FAILED), (method, answer)
            if (code == METHOD_NOT_FOUND) == (announced(given, method) or method in later):
                wrong[method] = answer
        assert wrong == {}
        await made.request("shutdown")
        await made.notify("exit")


def named_in_editors() -> set[str]:
    """The server's commands that plug-ins name."""
    contract = (EDITORS / "vscode/src/contract.ts").read_text()
    own = re.findall(r'"(ckwatch\.\w+)"', contract[contract.index("EDITOR_COMMANDS") :])
    manifest = json.loads((EDITORS / "vscode/package.json").read_text())["contributes"]
    found = {one["command"] for one in manifest["commands"]} - set(own)
    menus = [one["command"] for entries in manifest["menus"].values() for one in entries]
    assert set(menus) <= found | set(own)
    for path in (EDITORS / "vscode/src").glob("*.ts"):
        found |= set(re.findall(r'(?:execute|ask)\(\s*"(ckwatch\.\w+)"', path.read_text()))
    for path in (EDITORS / "neovim").rglob("*.lua"):
        found |= set(re.findall(r"command = '(ckwatch\.\w+)'", path.read_text()))
        found |= {f"ckwatch.{name}" for name in re.findall(r"= \{ command = '(\w+)'", path.read_text())}
    for path in (EDITORS / "emacs").glob("*.el"):
        found |= {f"ckwatch.{name}" for name in re.findall(r"ckwatch-(?:execute|start) \"(\w+)\"", path.read_text())}
    return found


async def commands_of(made: Editor, *roots: Path) -> list[str]:
    given = (await start(made, *roots))["capabilities"]
    found: list[str] = given["executeCommandProvider"]["commands"]
    return found


async def test_commands_of_plug_ins_are_there() -> None:
    named = named_in_editors()
    assert {"ckwatch.run", "ckwatch.units", "ckwatch.toTemplate", "ckwatch.document"} <= named
    async with editor(initialize=False) as made:
        assert named <= set(await commands_of(made))
        await made.request("shutdown")
        await made.notify("exit")


@pytest.mark.parametrize("state", ["no workspace", "not trusted", "no units", "no daemon", "broken"])
async def test_commands_answer_with_a_sentence_in_each_state(state: str, tmp_path: Path) -> None:
    """Wherever a plug-in offers them: in a kernel file, a template, an included file and the settings."""
    root = tmp_path / "w"
    (root / "templates").mkdir(parents=True)
    kernel = gemm_kernel("k.hip.j2", {"one": {"Tile": 1}})
    files = {"k.kernel.toml": kernel, "templates/k.hip.j2": "{{ Tile }}\n", "templates/alone.hip.j2": "int x;\n"}
    if state == "no units":
        del files["k.kernel.toml"]
    if state != "no workspace":
        files["ckwatch.toml"] = "[" if state == "broken" else ""
    for name, text in files.items():
        (root / name).write_text(text)
    if state not in ("no workspace", "not trusted"):
        trust(root)
    settings = {"startDaemon": False} if state == "no daemon" else {}
    async with editor(root, initialize=False, settings=settings) as made:
        commands = await commands_of(made, root)
        await made.notify("initialized", {})
        uris = [await made.open(root / name) for name in files]
        if state not in ("no workspace", "no units"):
            await made.heard_of("experimental/serverStatus", lambda one: state == "no daemon" or one["quiescent"])
        for command in commands:
            if command == "ckwatch.restartDaemon":
                continue  # it would be another state
            for argument in ({}, *({"uri": uri} for uri in uris), {"uri": "untitled:Untitled-1"}):
                params = {"command": command, "arguments": [argument]}
                answer = await made.answer(await made.ask("workspace/executeCommand", params))
                error = answer.get("error", {"code": REQUEST_FAILED, "message": "."})
                assert error["code"] == REQUEST_FAILED, (command, argument, answer)
                assert error["message"].endswith((".", "!", "?", ":")), (command, argument, answer)
        await made.request("shutdown")
        await made.notify("exit")
