"""How each editor is started from where it was unpacked: environment variables that name its files there.

A launcher is written for the tree's final place and looked for in the folder where it still lies.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from ckwatch.model.errors import ToolchainError


def _script(program: Path, variables: Mapping[str, str | Path], *arguments: str | Path) -> str:
    lines = ["#!/bin/sh", *(f"export {name}={shlex.quote(str(value))}" for name, value in variables.items())]
    command = " ".join(shlex.quote(str(part)) for part in (program, *arguments))
    return "\n".join([*lines, f'exec {command} "$@"', ""])


def _one(work: Path, pattern: str) -> Path:
    found = sorted(work.glob(pattern))
    if not found:
        raise ToolchainError(f"the package has no {pattern}", "Please report this to ckwatch.")
    return found[-1].relative_to(work)


def _neovim(final: Path, work: Path) -> str:
    return _script(final / _one(work, "usr/bin/nvim"), {"VIMRUNTIME": final / _one(work, "usr/share/nvim/runtime")})


def _emacs(final: Path, work: Path) -> str:
    share = final / _one(work, "usr/share/emacs/[0-9]*")
    libexec = final / _one(work, "usr/libexec/emacs/[0-9]*/*-linux-gnu")
    variables = {
        "EMACSLOADPATH": share / "lisp",
        "EMACSDATA": share / "etc",
        "EMACSDOC": share / "etc",
        "EMACSPATH": libexec,
    }
    dump = final / _one(work, "usr/libexec/emacs/[0-9]*/*-linux-gnu/emacs-*.pdmp")
    return _script(final / _one(work, "usr/bin/emacs-nox"), variables, f"--dump-file={dump}")


def _helix(final: Path, work: Path) -> str:
    return _script(final / _one(work, "usr/lib/hx/hx"), {"HELIX_RUNTIME": final / _one(work, "usr/lib/hx/runtime")})


def _tmux(final: Path, work: Path) -> str:
    return _script(final / _one(work, "usr/bin/tmux"), {})


LAUNCHERS: Mapping[str, Callable[[Path, Path], str]] = {
    "neovim": _neovim,
    "emacs": _emacs,
    "helix": _helix,
    "tmux": _tmux,
}
