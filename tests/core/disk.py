"""Files, with all that they ever were: so that it is known what could be read of them at what time."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ckwatch.core.events import BenchmarkPolicy, LoadedWorkspace, OtherToolchain, ToolchainPolicy, VerificationPolicy
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.text import span
from core.language import TOML, Read, kernel_units, lines_of


class Disk:
    """`unseen` are the paths that changed since the watcher looked."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        self.version = 0
        self.history: dict[str, list[tuple[int, str | None]]] = {path: [(0, text)] for path, text in files.items()}
        self.unseen: dict[str, None] = {}

    def write(self, path: str, text: str | None) -> None:
        """Someone saves a file, or removes it."""
        if self.files.get(path) == text:
            return
        self.version += 1
        self.history.setdefault(path, [(0, None)]).append((self.version, text))
        if text is None:
            del self.files[path]
        else:
            self.files[path] = text
        self.unseen[path] = None

    def between(self, path: str, version: int) -> list[str | None]:
        """The contents of the file from `version` until now."""
        changes = self.history.get(path, [(0, None)])
        before = [text for at, text in changes if at <= version]
        return [*before[-1:], *(text for at, text in changes if at > version)] or [None]

    def reader(self, version: int, seed: int) -> Read:
        """Reads files as they are, or with a seed as they were at some time since `version`; each once."""
        chance, kept = random.Random(seed), dict[str, str | None]()  # noqa: S311  # reproducible by intention

        def read(path: str) -> str | None:
            if path not in kept:
                kept[path] = chance.choice(self.between(path, version)) if seed else self.files.get(path)
            return kept[path]

        return read

    def workspace(self, read: Read, overlays: Mapping[str, str], archs: tuple[str, ...]) -> LoadedWorkspace | None:
        """Return the result of a load; None without a ckwatch.toml."""
        if read(TOML) is None:
            return None
        read = over(read, overlays)
        words = {word: rest for word, *rest in lines_of(read(TOML) or "")}
        kernels, diagnostics, files = [], [], [TOML]
        for path in sorted({*self.history, *overlays}):
            text = read(path) if path.endswith(".kernel.toml") else None
            if text is None:
                continue
            files.append(path)
            found = kernel_units(path, text, archs)
            if found is not None:
                kernels.append(found)
            else:
                place = span(path, 0, 0, 0, 1)
                diagnostics.append(Diagnostic(Severity.ERROR, Source.KERNEL_FILE, "kernel-file/x", "broken", place))
        return LoadedWorkspace(
            tuple(kernels),
            tuple(diagnostics),
            tuple(files),
            settings=words.get("settings", [""])[0],
            jobs=int(words.get("jobs", ["1"])[0]),
            toolchain_problem="there is no hipcc" if "no-compiler" in words else None,
            build_everything="everything" in words,
            passes_apart="apart" in words,
            benchmarks=BenchmarkPolicy(
                "bench" in words, float(words.get("bench", ["0"])[0]), device=words.get("device", ["auto"])[0]
            ),
            verification=VerificationPolicy(frozenset(words.get("verify", ())), "unchecked" not in words),
            advice="advise" in words,
            toolchains=ToolchainPolicy(
                tuple(OtherToolchain(name, "1") for name in words.get("also", ())), "also-built" in words, "main"
            ),
        )

    def units(self, overlays: Mapping[str, str], archs: tuple[str, ...]) -> dict[str, tuple[Unit, LoadedWorkspace]]:
        """The units that there are now, by id, each with its workspace."""
        workspace = self.workspace(self.files.get, overlays, archs)
        assert workspace is not None
        return {unit.id: (unit, workspace) for kernel in workspace.kernels for unit in kernel.units}


def over(read: Read, overlays: Mapping[str, str]) -> Read:
    """Reads unsaved texts in place of files."""
    return lambda path: overlays[path] if path in overlays else read(path)
