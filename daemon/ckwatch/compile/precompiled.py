"""Precompiled headers: made once per text, side, flags, arch and compiler, kept in the store's folder, never stale.

One is used only while every header that it was made of has the contents it had then; clang itself checks sizes and
times once more. `clang -fno-cxx-modules` is given wherever they are made or used: with the modules of C++20 clang 22
merges declarations of a precompiled header that look alike, and CK's `MfmaSelector` then picks another instruction.

A header of another text never replaces what a source includes, it only has been read before: what comes of a compile
is the same. Everything works without them, only slower.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ckwatch.compile.plan import CompilePlan, Side
from ckwatch.store import ArtifactStore, HeaderSet, Roots
from ckwatch.store.contents import Look, file_digest

FLAGS = ("-fno-cxx-modules",)
"""Where headers are made and used."""

INSTANTIATE = "-fpch-instantiate-templates"
"""Templates are instantiated when the header is made, not by each source that uses it."""

SIZE_LIMIT_BYTES = 2 * 2**30
COUNT_LIMIT = 24
_IN_USE_S = 600.0
"""A header that was used so recently may be in use: a compile takes less."""

SOURCE = "prefix.hip"
HEADER = "header.pch"
META = "meta.json"
REFUSED = "refused.json"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A precompiled header that would help: its text, and the command that makes it, files apart."""

    side: Side
    text: str
    command: tuple[str, ...]
    identity: str

    @property
    def key(self) -> str:
        """Its name."""
        parts = [self.side.value, self.text, list(self.command), self.identity]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class Precompiled:
    """One that can be used. `headers` are the absolute paths of what it was made of."""

    file: Path
    source: Path
    headers: tuple[str, ...]

    @property
    def use(self) -> tuple[str, ...]:
        """Arguments for clang."""
        return (*FLAGS, "-include-pch", str(self.file))


class PrecompiledHeaders:
    """Those in the store's folder. For use from threads; several processes may share the folder."""

    def __init__(self, store: ArtifactStore, roots: Roots, identity: str) -> None:
        self.folder = store.folder / "precompiled"
        self._store = store
        self._roots = roots
        self._identity = identity
        self._failed: dict[str, float] = {}

    def wanted(self, side: Side, text: str, plan: CompilePlan) -> Wanted:
        """What `text` precompiled for one side would be."""
        command = plan.pass_command(
            side, source=SOURCE, output="", headers="", cuid="", emit="-emit-pch", more=(*FLAGS, INSTANTIATE)
        )
        return Wanted(side, text, tuple(command), self._identity)

    def find(self, wanted: Wanted, look: Look | None = None) -> Precompiled | None:
        """The header, if it is what was made and nothing that it was made of has changed."""
        folder = self.folder / wanted.key
        try:
            meta = (folder / META).read_bytes()
            headers, digest = HeaderSet.from_json(meta), json.loads(meta)["header"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        look = look or self._store.contents.look()
        if not headers.holds(look, self._roots) or self._store.contents.digest(str(folder / HEADER)) != digest:
            self._remove(folder)
            return None
        with suppress(OSError):
            os.utime(folder / META)
        expand = self._roots.expand
        return Precompiled(folder / HEADER, folder / SOURCE, tuple(map(expand, headers.present)))

    def prepare(self, wanted: Wanted) -> Path:
        """The folder in which to make it, with its text. Raises OSError."""
        folder = self.folder / wanted.key
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / SOURCE
        data = wanted.text.encode("utf-8", "surrogateescape")
        # The header remembers the time of its source: an equal one is left alone.
        if not source.exists() or source.read_bytes() != data:
            source.write_bytes(data)
        return folder

    def publish(
        self, wanted: Wanted, made: Path, headers: Sequence[str], absent: Collection[str], begun_ns: int
    ) -> bool:
        """Take in the file `made`, from the headers named, where those that are `absent` would have been read instead;
        False when one of them has changed meanwhile."""
        folder = self.folder / wanted.key
        opened = [path for path in headers if path != str(folder / SOURCE)]
        observed = HeaderSet.observe(opened, absent, self._store.contents, self._roots, begun_ns)
        if observed is None:
            return False
        digest = file_digest(made)
        (folder / META).unlink(missing_ok=True)
        made.rename(folder / HEADER)
        temporary = made.with_name("meta")
        temporary.write_bytes(json.dumps({**json.loads(observed.to_json()), "header": digest}).encode())
        temporary.rename(folder / META)
        return True

    def failed(self, wanted: Wanted) -> None:
        """It cannot be made of the headers as they are."""
        self._failed[wanted.key] = time.monotonic()

    def worth_trying(self, wanted: Wanted) -> bool:
        """Whether it has not failed lately, and the compiler has not refused."""
        since = self._failed.get(wanted.key)
        return (since is None or time.monotonic() - since > _IN_USE_S) and self.refusal() is None

    def refuse(self, message: str) -> None:
        """The compiler does not take what it has made: none is made or used until it is another."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = self.folder / f"{REFUSED}.{os.getpid()}"
            temporary.write_text(json.dumps({"identity": self._identity, "message": message}))
            temporary.replace(self.folder / REFUSED)

    def refusal(self) -> str | None:
        """Why this compiler's precompiled headers are not used, None when they are."""
        try:
            told = json.loads((self.folder / REFUSED).read_bytes())
            return str(told["message"]) if told["identity"] == self._identity else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def tidy(self, *, size_limit_bytes: int = SIZE_LIMIT_BYTES, count_limit: int = COUNT_LIMIT) -> int:
        """Remove those used longest ago beyond the limits, and what was left half-made; how many went."""
        kept: list[tuple[float, int, Path]] = []
        now = time.time()
        removed = 0
        with suppress(OSError):
            for folder in self.folder.iterdir():
                if not folder.is_dir():
                    continue
                try:
                    used = (folder / META).stat().st_mtime
                except OSError:
                    used = 0.0
                    if now - folder.stat().st_mtime < _IN_USE_S:
                        continue  # being made
                size = sum(file.stat().st_size for file in folder.iterdir())
                kept.append((used, size, folder))
        total = sum(size for _, size, _ in kept)
        count = len(kept)
        for used, size, folder in sorted(kept):
            if (total <= size_limit_bytes and count <= count_limit and used) or now - used < _IN_USE_S:
                continue
            self._remove(folder)
            total, count, removed = total - size, count - 1, removed + 1
        return removed

    def _remove(self, folder: Path) -> None:
        with suppress(OSError):
            (folder / META).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
