"""Generated documents as files, for editors that show nothing else: read-only, private, gone with the server."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anyio import to_thread

from ckwatch_lsp.generated.uri import Generated, parse_generated


class ViewFiles:
    """One file for each document that was shown this way."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._paths: dict[Generated, Path] = {}

    def generated_at(self, path: str | None) -> Generated | None:
        """What the file at `path` shows, if it is one of ours."""
        return next((generated for generated, known in self._paths.items() if str(known) == path), None)

    async def show(self, generated: Generated, text: str) -> Path:
        """The file, with this text."""
        path = self._paths.get(generated)
        if path is None:
            path = await to_thread.run_sync(self._place, generated)
            self._paths[generated] = path
        await to_thread.run_sync(_write, path, text)
        return path

    async def update(self, generated: Generated, text: str) -> None:
        """Another text, if there is a file."""
        if generated in self._paths:
            await self.show(generated, text)

    def remains(self) -> dict[str, Any]:
        """Where they are, for whoever takes the place of this process: the folder, and the files by URI."""
        if self._folder is None:
            return {}
        shown = {generated.uri: str(path) for generated, path in self._paths.items()}
        return {"folder": str(self._folder), "files": shown}

    def resume(self, remains: Mapping[str, Any]) -> None:
        """They are ours from now on."""
        if remains:
            self._folder = Path(remains["folder"])
        for uri, path in remains.get("files", {}).items():
            generated = parse_generated(uri)
            if generated is not None:
                self._paths[generated] = Path(path)

    def remove(self) -> None:
        """Remove all of them."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _place(self, generated: Generated) -> Path:
        if self._folder is None:
            runtime = os.environ.get("XDG_RUNTIME_DIR")
            usable = runtime if runtime and os.access(runtime, os.W_OK) else None
            self._folder = Path(tempfile.mkdtemp(prefix="ckwatch-views-", dir=usable))
        # workspaces may have units of the same name
        folder = self._folder / secrets.token_hex(4) / generated.view
        path = folder / generated.file_name
        path.parent.mkdir(parents=True, mode=0o700)
        return path


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.write_text(text, "utf-8", "replace")
    temporary.chmod(0o400)
    try:
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
