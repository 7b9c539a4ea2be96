"""A program that speaks the protocol as clangd does and knows nothing of C++: a mock, for what goes wrong.

It hovers over words and does what the files beside it ask for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio

from ckwatch.compile.toolchain.clangd import ClangdProgram
from fakes.patience import PATIENCE_S

VERSION = "clangd version 22.0.0 (a stand-in)"

PROGRAM = '''\
import json, os, re, signal, sys, time
from pathlib import Path

FOLDER = Path(__file__).parent
if "--version" in sys.argv:
    print("VERSION")
    sys.exit()
with (FOLDER / "pids").open("a") as file:
    file.write(f"{os.getpid()}\\n")
LOG = (FOLDER / "log").open("a", buffering=1)
INPUT, OUTPUT = sys.stdin.buffer, sys.stdout.buffer
texts, kept = {}, []


def asked(what, method):
    """The rest of the order `what METHOD ...`, once if it says so."""
    path = FOLDER / what
    if not path.exists():
        return None
    wanted, _, rest = path.read_text().partition(" ")
    if wanted != method:
        return None
    if rest == "once":
        path.unlink()
    return rest


def write(message, pieces=1):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    data = b"Content-Length: %d\\r\\nContent-Type: x\\r\\n\\r\\n%b" % (len(body), body)
    size = -(-len(data) // pieces)
    for at in range(0, len(data), size):
        OUTPUT.write(data[at : at + size])
        OUTPUT.flush()
        if pieces > 1:
            time.sleep(0.01)


def read():
    length = 0
    while (line := INPUT.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return json.loads(INPUT.read(length)) if length else None


def result(method, params):
    given = FOLDER / "answers"
    answers = json.loads(given.read_text()) if given.exists() else {}
    if method in answers:
        return answers[method]
    if method == "initialize":
        legend = {"tokenTypes": ["variable"], "tokenModifiers": ["readonly"]}
        return {"capabilities": {"semanticTokensProvider": {"legend": legend}}}
    if method == "textDocument/hover":
        at = params["position"]
        line = texts[params["textDocument"]["uri"]].split("\\n")[at["line"]]
        for word in re.finditer(r"\\w+", line):
            if word.start() <= at["character"] <= word.end():
                ends = [{"line": at["line"], "character": one} for one in word.span()]
                said = {"kind": "markdown", "value": f"Type: `{word[0]}`"}
                return {"contents": said, "range": {"start": ends[0], "end": ends[1]}}
    if method == "workspace/executeCommand":
        write({"id": "edit", "method": "workspace/applyEdit", "params": {"edit": params["arguments"][0]}})
    return None


while (message := read()) is not None:
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    document = params.get("textDocument", {}) if isinstance(params, dict) else {}
    if method == "textDocument/didOpen":
        texts[document["uri"]] = document["text"]
    elif method == "textDocument/didChange":
        texts[document["uri"]] = params["contentChanges"][0]["text"]
    elif method == "textDocument/didClose":
        del texts[document["uri"]]
    text = texts.get(document.get("uri"), "")
    LOG.write(json.dumps({"pid": os.getpid(), "size": len(text), **message}) + "\\n")
    if asked("crash", method) is not None:
        os.kill(os.getpid(), signal.SIGSEGV)
    if asked("exit", method) is not None:
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if (garbage := asked("garbage", method)) is not None:
        OUTPUT.write(garbage.encode().replace(b"\\\\r\\\\n", b"\\r\\n"))
        OUTPUT.flush()
    if asked("deaf", method) is not None:
        signal.pause()
    if (size := asked("memory", method)) is not None:
        held = b"x" * int(size)
    if (size := asked("flood", method)) is not None:
        for _ in range(int(size) // 1000):
            write({"method": "window/logMessage", "params": {"message": "x" * 1000}})
    if (regions := asked("skip", method)) is not None:
        write({"method": "textDocument/inactiveRegions", "params": {**params, "regions": json.loads(regions)}})
    if number is None or method is None or asked("hang", method) is not None:
        continue
    if asked("later", method) is not None:
        kept.append((number, method, params))
        continue
    code = asked("refuse", method)
    if code is not None:
        error = {"code": int(code) if code != "once" else -32801, "message": f"cannot {method}"}
        write({"id": number, "error": error})
        continue
    write({"id": number, "result": result(method, params)}, pieces=3 if asked("pieces", method) is not None else 1)
    while kept:
        number, method, params = kept.pop()
        write({"id": number, "result": result(method, params)})
'''


class ClangdStandIn:
    """The program in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "clangd"
        self.path.write_text(f"#!{sys.executable} -IS\n" + PROGRAM.replace("VERSION", VERSION))
        self.path.chmod(0o755)
        self.program = ClangdProgram(self.path, VERSION, 22, None)

    def will(self, what: str, method: str, more: str = "") -> None:
        """Let it do `what` when it gets `method`, each time unless `more` is `once`."""
        (self.folder / what).write_text(f"{method} {more}".rstrip())

    def will_not(self, what: str) -> None:
        """Take an order back."""
        (self.folder / what).unlink()

    def answers(self, method: str, result: object) -> None:
        """Let it answer a method so."""
        path = self.folder / "answers"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, method: result}))

    @property
    def received(self) -> list[dict[str, Any]]:
        """The messages that it got, with the process that did and the length of the text that each is about."""
        path = self.folder / "log"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def of(self, method: str) -> list[dict[str, Any]]:
        """The messages of one method."""
        return [one for one in self.received if one.get("method") == method]

    async def got(self, method: str, count: int = 1) -> None:
        """Return when it has got so many messages of a method."""
        with anyio.fail_after(PATIENCE_S):
            while len(self.of(method)) < count:  # noqa: ASYNC110  # another process says so, in a file
                await anyio.sleep(0.01)

    @property
    def pids(self) -> list[int]:
        """The processes that have run."""
        path = self.folder / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    @property
    def alive(self) -> list[int]:
        """Those that still run."""
        return [pid for pid in self.pids if Path(f"/proc/{pid}").exists()]
