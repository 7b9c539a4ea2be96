"""The documentation: its links lead somewhere, its commands can be pasted, and the tables of code that it describes are whole."""

from __future__ import annotations

import re
import tomllib
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args

import pytest

from ckwatch.bench.runtimes.selection import RUNTIMES
from ckwatch.core import effects
from ckwatch.core.events import AnyEvent
from ckwatch.core.step import HANDLERS
from ckwatch.engine import bootstrap
from ckwatch.model.documentation import PAGES as PAGES_OF_CODES
from ckwatch.model.targets import DEVICE_KINDS
from helpers.each_row import each_row

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = "https://github.com/ckwatch/ckwatch/blob/main/"
"""How pages of the site link to files that are not in it."""
TEXTS = (
    *(
        ROOT / name
        for name in (
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "benchmarks/README.md",
            "editors/vscode/README.md",
        )
    ),
    *sorted(DOCS.rglob("*.md")),
)


def test_the_packaged_readme_leads_nowhere_that_is_not_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (ROOT / "README.md").read_text()
    for each in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "Compiling (`docs/compiling.md` of the source)" in text


OF_PAGES = pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    found = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


@OF_PAGES
def test_links_lead_somewhere(path: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", path.read_text())):
        file, _, anchor = link.partition("#")
        own = file.startswith(SOURCE)
        if file.startswith(("http:", "https:")) and not own:
            continue
        target = ROOT / file.removeprefix(SOURCE) if own else path.parent / file if file else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    pages = [ROOT / "README.md"]
    while pages:
        page = pages.pop().resolve()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            pages += [
                page.parent / link.partition("#")[0] for link in _LINK.findall(page.read_text()) if ":" not in link
            ]
    assert [path.name for path in TEXTS if path.resolve() not in reached] == []


def commands(text: str) -> list[str]:
    """Lines that a reader would paste into a shell: those of a code block that begin with `ckwatch` or `$ ckwatch`."""
    blocks = [body for language, body in _FENCE.findall(text) if language in ("", "sh", "console")]
    blocks += re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line.partition(" #")[0] for line in lines if line.startswith("ckwatch ")]


@OF_PAGES
def test_patterns_in_shell_commands_are_quoted(path: Path) -> None:
    """zsh ends with an error when an unquoted pattern matches no file."""
    for command in commands(path.read_text()):
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
        assert not re.search(r"[*?]", bare), command


def test_files_that_the_architecture_names_are_there() -> None:
    section = (DOCS / "architecture.md").read_text().partition("## Where to put something new")[2]
    named = re.findall(r"`((?:daemon|lsp|tests|docs|benchmarks)/[\w./]+)(?:::(\w+))?`", section)
    assert len(named) > 30
    for file, test in named:
        assert (ROOT / file).exists(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), test


def test_files_on_the_way_to_a_diagnostic_are_there() -> None:
    way = (
        (DOCS / "architecture.md").read_text().partition("## From a changed path")[2].partition("\n## Where to put")[0]
    )
    named = re.findall(r"`([a-z_/]+\.py)`", way)
    assert len(named) > 25
    missing = [one for one in named if not (ROOT / one).exists() and not (ROOT / "daemon/ckwatch" / one).exists()]
    assert missing == []


def test_every_event_has_a_handler() -> None:
    assert set(HANDLERS) == set(get_args(AnyEvent))


def test_every_effect_that_is_work_is_run() -> None:
    """Work has a task of its own; `Cancel` names the work that it ends."""
    made = {one for one in get_args(effects.Effect) if "work" in {field.name for field in fields(one)}}
    assert set(get_args(effects.WorkEffect)) == made - {effects.Cancel}
    names = {one.__name__ for one in get_args(effects.WorkEffect)}
    table = Path(bootstrap.__file__).read_text().partition("handlers: Handlers = {")[2].partition("}")[0]
    assert set(re.findall(r"^ +(\w+): ", table, re.MULTILINE)) == names


def test_every_effect_is_in_the_union() -> None:
    defined = {one for one in vars(effects).values() if isinstance(one, type) and one.__module__ == effects.__name__}
    bases = {effects.TaskEffect, effects.ViewWork}
    assert {one for one in defined if is_dataclass(one)} - bases == set(get_args(effects.Effect))
    assert isinstance(effects.Effect, types.UnionType)


def test_kinds_of_devices_are_those_of_the_page() -> None:
    table = (DOCS / "timing.md").read_text().partition("## Devices")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == set(RUNTIMES)
    assert set(DEVICE_KINDS.values()) == set(RUNTIMES)


@each_row("code", PAGES_OF_CODES)
def test_codes_lead_to_sections_that_exist(code: str) -> None:
    file, _, anchor = PAGES_OF_CODES[code].partition("#")
    assert (DOCS / file).is_file()
    assert not anchor or anchor in anchors(DOCS / file)


def test_codes_of_workspace_problems_are_on_the_page() -> None:
    page = (DOCS / "workspace.md").read_text().partition("## Messages")[2]
    listed = set(re.findall(r"`([a-z-]+)`", page))
    used = {
        code
        for path in sorted((ROOT / "daemon/ckwatch/workspace").glob("*.py"))
        for code in re.findall(
            r"(?:\.add|at_value|at_key|unknown_name)\(\s*(?:[^,()]+(?:\([^()]*\))?, )?\"([a-z]+(?:-[a-z0-9]+)*)\"",
            path.read_text(),
        )
    }
    assert len(used) > 20
    assert used <= listed, used - listed
