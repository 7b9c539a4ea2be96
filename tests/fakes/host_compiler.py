"""The host's own C++ compiler. A text that any run has compiled is not compiled again, nor are headers that texts share.

Most of such a compile's time goes into the standard library's headers. They are precompiled from the lines that a text
begins with and nothing more, so that an include that a text lacks stays lacking.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from helpers.kept_builds import content, identity, kept

WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror")
WORTH_IT = 3
"""Texts with the same beginning, from which on it is precompiled: that takes as long as two compiles save."""


class HostCompiler:
    """Compiles with one set of flags; `folder` holds what is needed meanwhile. No test changes folders of includes."""

    def __init__(self, path: str, flags: Sequence[str], folder: Path) -> None:
        self._command = [path, *flags]
        self._folder = folder
        self._beginnings: Counter[str] = Counter()
        self._headers: dict[str, Path] = {}
        includes = [content(Path(flag[2:])) for flag in flags if flag.startswith("-I")]
        self._made_of = (*identity(path), *(flag for flag in flags if not flag.startswith("-I")), *includes)

    def compile(self, text: str) -> Path:
        """The object of a text that must compile."""

        def make(target: Path) -> None:
            result = self._run(text, ["-c", "-o", str(target)])
            assert result.returncode == 0, result.stderr

        return kept("objects", (*self._made_of, text), make)

    def refusal(self, text: str) -> str:
        """Return the compiler's messages on a text that must not compile."""

        def make(target: Path) -> None:
            result = self._run(text, ["-fsyntax-only"])
            assert result.returncode != 0
            target.write_text(result.stderr)

        return kept("refusals", (*self._made_of, text), make).read_text()

    def link(self, objects: Iterable[Path], target: Path, *flags: str) -> Path:
        """An executable or, with `-shared`, a library."""
        subprocess.run([*self._command, *flags, *map(str, objects), "-o", str(target)], check=True)
        return target

    def _run(self, text: str, how: Sequence[str]) -> subprocess.CompletedProcess[str]:
        beginning, rest = split(text)
        self._beginnings[beginning] += 1
        if beginning and self._beginnings[beginning] >= WORTH_IT:
            first_line = beginning.count("\n") + 1
            how = ["-include", str(self._header(beginning)), *how]
            text = f'#line {first_line} "unit.cpp"\n{rest}'
        source = self._folder / "unit.cpp"
        source.write_text(text)
        command = [*self._command, *how, str(source)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _header(self, beginning: str) -> Path:
        """The header, beside which the compiler finds its precompiled form."""
        if beginning not in self._headers:
            header = self._folder / f"{len(self._headers)}.hpp"
            header.write_text(beginning)
            command = [*self._command, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
            subprocess.run(command, check=True)
            self._headers[beginning] = header
        return self._headers[beginning]


def split(text: str) -> tuple[str, str]:
    """Split a text behind the last include that precedes its first line of code and is outside of conditions."""
    lines = text.splitlines(keepends=True)
    end = depth = 0
    for number, line in enumerate(map(str.strip, lines), 1):
        if line and not line.startswith(("#", "//")):
            break
        if line.startswith("#if"):
            depth += 1
        elif line.startswith("#endif"):
            depth -= 1
        elif line.startswith("#include") and depth == 0:
            end = number
    return "".join(lines[:end]), "".join(lines[end:])
