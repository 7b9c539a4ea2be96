"""Which page of the project's documentation says more of a diagnostic's code."""

from __future__ import annotations

from pathlib import Path

PAGES = {
    "workspace": "workspace.md#messages",
    "kernel-file": "workspace.md#messages",
    "template": "hooks.md",
    "template/undefined": "hooks.md#variables",
    "template/hook": "hooks.md#hooks",
    "template/limit": "hooks.md#limits",
    "performance": "inspect.md",
    "figures/resources": "inspect.md",
    "figures/timing": "timing.md#a-measurement",
    "benchmark": "timing.md#the-worker",
    "benchmark/slower": "timing.md#faster-or-slower",
    "host": "toolchain.md",
}
"""By a code or what stands before its slash. What a compiler says is documented elsewhere."""


def page_of(code: str) -> str | None:
    """The page and its section, relative to the documentation's folder; None where nothing more is said."""
    kind, _, name = code.partition("/")
    if kind == "rule":
        return f"rules.md#{name}"
    return PAGES.get(code) or PAGES.get(kind)


def folder() -> Path | None:
    """The folder of the documentation, which is there in a source tree; it is not installed."""
    found = Path(__file__).parents[3] / "docs"
    return found if (found / "rules.md").is_file() else None
