"""What hipcc makes of texts that must compile, kept for later runs by text, flags, compiler and headers."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.farm.messages import toolchain_identity
from helpers.kept_builds import kept

STORE = default_folder()  # the user's: tests set variables that lead elsewhere


def compiled(text: str, toolchain: Toolchain, *flags: str) -> Path:
    """Return the file that hipcc makes of a text, which is empty with `-fsyntax-only`. Fails if it does not compile."""

    def make(target: Path) -> None:
        source = target.with_suffix(".hip")
        source.write_text(text)
        output = () if "-fsyntax-only" in flags else ("-o", str(target))
        command = [str(toolchain.hipcc), *toolchain.hip_arguments, *flags, *output, str(source)]
        environment = {**os.environ, **toolchain.environment}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        target.touch()

    return kept("hip", (identity(toolchain), *toolchain.hip_arguments, *flags, text), make)


@cache
def identity(toolchain: Toolchain) -> str:
    """Return what its products depend on: its programs and headers."""
    with ArtifactStore(STORE) as store:  # which remembers the hashes of headers
        return toolchain_identity(toolchain, store.contents)
