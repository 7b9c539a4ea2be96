"""A language server that does nothing but write down what it was told, one JSON message a line, for `capture`.

python -m tools.editors.recording_server FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message, None at the end."""
    length = 0
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(stream.read(length)) if length else None


def write(stream: BinaryIO, message: dict[str, Any]) -> None:
    """One message with its header."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    stream.flush()


def main(path: Path) -> None:
    """Answer `initialize` and `shutdown`; everything else gets null."""
    capabilities = {
        "textDocumentSync": 2,
        "hoverProvider": True,
        "inlayHintProvider": True,
        "codeLensProvider": {"resolveProvider": False},
        "executeCommandProvider": {"commands": ["ckwatch.run"]},
    }
    with path.open("a") as record:
        while (message := read(sys.stdin.buffer)) is not None:
            record.write(json.dumps(message) + "\n")
            record.flush()
            method = message.get("method")
            if method == "exit":
                return
            if "id" in message and method is not None:
                result = {"capabilities": capabilities} if method == "initialize" else None
                write(sys.stdout.buffer, {"id": message["id"], "result": result})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
