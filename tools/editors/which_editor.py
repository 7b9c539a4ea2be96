"""Names the editor view that suits this machine: what the demo ends with."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Find = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class View:
    """Commands to type for an editor; `{root}` is the folder of this checkout."""

    name: str
    programs: tuple[str, ...]
    lines: tuple[str, ...]
    page: str


_KERNEL_FILE = "{root}/examples/gemm/gemm_f16.kernel.toml"
_EMACS = f"""{{program}} -L {{root}}/editors/emacs -l ckwatch --eval \
"(add-hook 'ckwatch-kernel-mode-hook 'eglot-ensure)" {_KERNEL_FILE}"""

VIEWS = (
    View(
        "VS Code",
        ("code", "codium", "code-server"),
        (
            "(cd {root}/editors/vscode && npm ci && npm run package)",
            "{program} --install-extension {root}/editors/vscode/dist/ckwatch.vsix && {program} {root}/examples/gemm",
        ),
        "vscode",
    ),
    View(
        "Neovim",
        ("nvim",),
        ("{program} --cmd 'set rtp^={root}/editors/neovim' {root}/examples/gemm/gemm_f16.kernel.toml",),
        "neovim",
    ),
    View(
        "Emacs",
        ("emacs",),
        (_EMACS,),
        "emacs",
    ),
    View(
        "Helix",
        ("hx", "helix"),
        (
            "cat {root}/editors/helix/languages.toml >> ~/.config/helix/languages.toml",
            "{program} {root}/examples/gemm/gemm_f16.kernel.toml",
        ),
        "helix",
    ),
)


def suggestion(find: Find = shutil.which, *, too_old: Callable[[str, str], bool] | None = None) -> list[str]:
    """Commands that show errors and figures in an editor that is here; of several, in the one that shows most.

    `find` looks for a program, `too_old(editor, program)` tells whether it is older than what is needed.
    """
    old = _is_too_old if too_old is None else too_old
    for view in VIEWS:
        for program in view.programs:
            found = find(program)
            if found is None or old(view.name, found):
                continue
            lines = [line.format(root=_shown(ROOT), program=program) for line in view.lines]
            return [
                f"See it in {view.name}, with `ckwatch` on the PATH ({_shown(ROOT)}/.venv/bin):",
                *(f"    {line}" for line in lines),
                f"What shows where: docs/editors/{view.page}.md. Other editors: docs/editors/index.md",
            ]
    return [
        "No editor with settings of ours is installed here (VS Code, Neovim 0.11, Emacs 29, Helix).",
        "What each shows: docs/editors/index.md. `python -m tools.editors.install neovim` installs one for trying it.",
    ]


def _shown(path: Path) -> str:
    """Relative to where the user is, if it is below."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


_OLDEST = {"Neovim": (0, 11), "Emacs": (29, 1)}


def _is_too_old(name: str, program: str) -> bool:
    oldest = _OLDEST.get(name)
    if oldest is None:
        return False
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return True
    words = told.splitlines()[0].split() if told else []
    numbers = words[-1].removeprefix("v").split(".") if words else []
    try:
        return tuple(int(number) for number in numbers[:2]) < oldest
    except ValueError:
        return False


def main() -> None:
    """Print the suggestion."""
    print("\n".join(suggestion()))


if __name__ == "__main__":
    main()
