"""The documentation of diagnostics: which page and section says more about a code."""

from __future__ import annotations

import re
from collections.abc import Callable

PAGES_URL = "https://ckwatch.github.io/ckwatch/"

PAGES = {
    "workspace": "workspace.md#messages",
    "kernel-file": "workspace.md#messages",
    "template": "hooks.md",
    "template/undefined": "hooks.md#variables",
    "template/hook": "hooks.md#hooks",
    "template/limit": "hooks.md#limits",
    "performance": "inspect.md",
    "profile": "profiling.md#what-is-said-to-be-lost",
    "performance/launch-bounds": "inspect.md#why-a-kernel-spills",
    "performance/scratch": "inspect.md#why-a-kernel-spills",
    "performance/lds-occupancy": "inspect.md#why-a-kernel-spills",
    "figures/resources": "inspect.md",
    "figures/timing": "timing.md#a-measurement",
    "benchmark": "timing.md#the-worker",
    "benchmark/slower": "timing.md#faster-or-slower",
    "figures/verification": "verifying.md",
    "verify": "verifying.md#what-is-found",
    **dict.fromkeys(("judge", "verify/host-call", "verify/clock-read", "verify/sleep"), "judging.md#what-is-refused"),
    "reference": "verifying.md#mistakes-in-a-reference",
    "host": "toolchain.md",
    "audit": "audit.md#findings",
    "ci": "ci.md#verdicts",
}
"""By a code or what stands before its slash. What a compiler says is documented elsewhere."""


def page_of(code: str) -> str | None:
    """The page and its section, relative to the documentation's folder; None where nothing more is said."""
    kind, _, name = code.partition("/")
    if kind == "rule":
        return f"rules.md#{name}"
    return PAGES.get(code) or PAGES.get(kind)


def page_url(code: str) -> str | None:
    """The address of what `page_of` names."""
    page = page_of(code)
    return None if page is None else f"{PAGES_URL}{page.replace('.md', '/')}"


def section(text: str, anchor: str) -> str:
    """The section of a page under the heading with this anchor, subsections included; empty where there is none."""
    level, found = 0, []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"(#+) (.*)", line)
        if heading and level and len(heading[1]) <= level:
            break
        if heading and not level and _anchor_of(heading[2]) == anchor:
            level = len(heading[1])
        if level:
            found.append(line)
    return "\n".join(found).rstrip()


def _anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def explanation(code: str, page: Callable[[str], str | None]) -> str | None:
    """The part of the documentation about a diagnostic's code; None where there is none. `page` returns a page's text
    by its name."""
    found = page_of(code)
    if found is None:
        return None
    name, _, anchor = found.partition("#")
    text = page(name)
    if text is None:
        return None
    documented = section(text, anchor) if anchor else text
    return "\n".join(lines) if (lines := _rows_about(code, documented)) else documented or None


def _rows_about(code: str, text: str) -> list[str]:
    """The heading of a section and the rows of its tables that name the code or its last part, if any do."""
    names = (f"`{code}`", f"`{code.partition('/')[2] or code}`")
    rows = [line for line in text.splitlines() if line.startswith("|") and any(name in line for name in names)]
    return [text.splitlines()[0], *rows] if rows else []
