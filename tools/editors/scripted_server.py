"""A language server that shows one of everything, to try an editor's configuration without ckwatch's daemon.

    python -m tools.editors.scripted_server RECORD

Each line that contains WRONG is an error with related information at line 1; line 1 has a hint and lenses. Commands are
answered as `ckwatch lsp` answers them. Every message is written to RECORD, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from tools.editors.recording_server import read, write

LENSES = ("run", "setBaseline", "openSource")

CAPABILITIES = {
    "textDocumentSync": {"openClose": True, "change": 1},
    "hoverProvider": True,
    "inlayHintProvider": True,
    "codeLensProvider": {"resolveProvider": False},
    "executeCommandProvider": {
        "commands": [
            f"ckwatch.{name}"
            for name in (
                *("run", "build", "cancel", "setBaseline", "compare", "openSource", "openIsa", "chooseInstance"),
                *("units", "showLog", "restartDaemon", "trust", "document"),
            )
        ]
    },
    "positionEncoding": "utf-16",
}


class Scripted:
    """The server's state: texts by URI, and how often `run` was asked for."""

    def __init__(self, record: TextIO) -> None:
        self.record = record
        self.texts: dict[str, str] = {}
        self.runs = 0
        self.root = ""
        self.wants_heat = False
        self._sent = 0

    def tell(self, method: str, params: Any) -> None:
        """A notification."""
        write(sys.stdout.buffer, {"method": method, "params": params})

    def ask(self, method: str, params: Any) -> None:
        """A request; what is answered is only written down."""
        self._sent += 1
        write(sys.stdout.buffer, {"id": f"s{self._sent}", "method": method, "params": params})

    def take(self, message: dict[str, Any]) -> None:
        """Write a message down and answer it."""
        self.record.write(json.dumps(message) + "\n")
        self.record.flush()
        method, params = message.get("method", ""), message.get("params") or {}
        if "id" not in message:
            self._told(method, params)
        elif method:
            write(sys.stdout.buffer, {"id": message["id"], "result": self._answer(method, params)})

    def _told(self, method: str, params: dict[str, Any]) -> None:
        if method == "initialized":
            status = {"health": "ok", "quiescent": False, "message": "2 units", "folder": self.root}
            self.tell("experimental/serverStatus", status)
        elif method == "textDocument/didOpen":
            self._show(params["textDocument"]["uri"], params["textDocument"]["text"])
        elif method == "textDocument/didChange":
            self._show(params["textDocument"]["uri"], params["contentChanges"][-1]["text"])

    def _show(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        found = [(number, line.find("WRONG")) for number, line in enumerate(text.split("\n")) if "WRONG" in line]
        related = {"location": {"uri": uri, "range": _range(0, 0, 5)}, "message": "because of this"}
        diagnostics = [
            {
                "range": _range(number, column, column + 5),
                "severity": 1,
                "source": "ckwatch",
                "code": "rule/divides",
                "message": "128 % (32 * 3) is not 0",
                "relatedInformation": [related],
            }
            for number, column in found
        ]
        self.tell("textDocument/publishDiagnostics", {"uri": uri, "diagnostics": diagnostics})

    def _answer(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            self.wants_heat = bool(params["capabilities"].get("experimental", {}).get("ckwatchLineHeat"))
            self.root = params["rootUri"] or params["workspaceFolders"][0]["uri"]
            return {"capabilities": CAPABILITIES, "serverInfo": {"name": "scripted"}}
        if method == "workspace/executeCommand":
            return self._execute(params["command"].removeprefix("ckwatch."))
        uri = params.get("textDocument", {}).get("uri", "")
        if uri.startswith("ckwatch:"):
            return None
        answers = {
            "textDocument/inlayHint": [
                {"position": _place(0, 5), "label": f"{41 + self.runs}.57 µs", "paddingLeft": True}
            ],
            "textDocument/codeLens": [
                {
                    "range": _range(0, 0, 1),
                    "command": {"title": name, "command": f"ckwatch.{name}", "arguments": [{"uri": uri}]},
                }
                for name in LENSES
            ],
            "textDocument/hover": {"contents": {"kind": "markdown", "value": "190 VGPR"}},
        }
        return answers.get(method)

    def _execute(self, name: str) -> Any:
        folder = self.root.removeprefix("file://")
        source = f"ckwatch://source/gemm/v3@gfx942.hip?folder={folder}"
        if name == "run":
            self.runs += 1
            self.ask("workspace/inlayHint/refresh", None)
            self.ask("workspace/textDocumentContent/refresh", {"uri": source})
            status = {"health": "ok", "quiescent": True, "message": f"run {self.runs}", "folder": self.root}
            self.tell("experimental/serverStatus", status)
            if self.wants_heat:
                uri = next(uri for uri in self.texts if uri.startswith("file:"))
                lines = [{"line": 0, "level": 4, "share": 0.5}, {"line": 3, "level": 1, "share": 0.02}]
                self.tell("ckwatch/lineHeat", {"uri": uri, "lines": lines})
        elif name == "openSource":
            self.ask("window/showDocument", {"uri": source, "takeFocus": False})
            return {"uri": source}
        elif name == "document":
            text = f"// run {self.runs}\nint main() {{}} // WRONG\n"
            return {"text": text, "languageId": "cpp", "stale": False, "fileUri": None}
        elif name in ("compare", "showLog"):
            return f"text of {name}"
        elif name == "units":
            uri = next(uri for uri in self.texts if uri.startswith("file:"))
            unit = {"id": "gemm/v3@gfx942", "uri": uri, "range": _range(2, 0, 1), "phase": "done", "text": "41.57 µs"}
            return [{**unit, "errors": 0, "warnings": 0, "active": True}]
        return None


def _place(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def _range(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": _place(line, start), "end": _place(line, end)}


def main(path: Path) -> None:
    """Serve until the editor says goodbye."""
    with path.open("a") as record:
        server = Scripted(record)
        while (message := read(sys.stdin.buffer)) is not None and message.get("method") != "exit":
            server.take(message)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
