"""The house: which room stands on which, and what stands in one place only. docs/architecture.md describes the same."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

import ckwatch
import ckwatch_lsp
import ckwatch_web
from helpers.each_row import each_row

DAEMON = Path(ckwatch.__file__).parent
LSP = Path(ckwatch_lsp.__file__).parent
WEB = Path(ckwatch_web.__file__).parent
ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "docs" / "architecture.md"

CONTRACTS = {
    one["id"]: one for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
"""Who may import whom; `lint-imports` holds them."""

ROOMS = tuple(reversed(CONTRACTS["rooms"]["layers"]))
"""From the ground up."""

BARE_READS = {"read_text", "read_bytes", "file_digest"}
OWN_FILES: Mapping[str, str] = {
    "ckwatch.bench.leases": "locks, with rules of their own",
    "ckwatch.bench.runtimes.monitor": "/proc",
    "ckwatch.bench.runtimes.hip": "/proc and /sys",
    "ckwatch.bench.runtimes.hip_monitor": "/sys",
    "ckwatch.bench.runtimes.processors": "/proc and /sys",
    "ckwatch.prediction.learned": "weights that ship with ckwatch",
    "ckwatch.bench.worker": "its standard input and /proc",
    "ckwatch.bench.reference_process": "/proc",
    "ckwatch.cli.streams": "`/dev/null`",
    "ckwatch.exported.module_text": "what ships with ckwatch",
    "ckwatch.cli.logs": "the log, line by line",
    "ckwatch.client.launch": "the log's end",
    "ckwatch.compile.elf": "what was unpacked by an install",
    "ckwatch.compile.keys": "/proc",
    "ckwatch.compile.toolchain.devices": "/proc and /sys",
    "ckwatch.system.memory": "/proc and /sys",
    "ckwatch.farm.giving": "an archive that it has made",
    "ckwatch.farm.plain_data": "a connection",
    "ckwatch.engine.queries.status": "the log's end",
    "ckwatch.engine.queries.time_trace": "a new file",
    "ckwatch.engine.watch.notify": "/proc",
    "ckwatch.system.durable_files": "folders, and files that were just written",
    "ckwatch.system.file_locks": "locks",
    "ckwatch.system.processes": "/proc",
    "ckwatch.system.user_files": "all others",
    "ckwatch.cli.imports.cpp": "what ships with ckwatch",
    "ckwatch.cli.imports.hip": "what ships with ckwatch",
    "ckwatch.cli.imports.missing_headers": "what ships with ckwatch",
    "ckwatch.workspace.starters": "what ships with ckwatch",
    "ckwatch_web.views.compile_time": "a trace that was written for it",
}
"""Modules that read a file without `ckwatch.system.user_files`, and which."""
STANDALONE = "ckwatch.exported.runtime"
"""Its modules are the text of exported modules, which know nothing of ckwatch."""


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    found = {}
    for root in (DAEMON, LSP, WEB):
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


def room(module: str) -> str:
    return module.split(".")[1] if module.startswith("ckwatch.") else module.split(".")[0]


def listed(heading: str) -> dict[str, str]:
    """The first column of the table below a heading of docs/architecture.md, and the row."""
    _, _, text = ARCHITECTURE.read_text().partition(f"\n## {heading}\n")
    section = text.partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|(.*)$", section, re.MULTILINE)
    return {name: row for names, row in rows for name in re.findall(r"`([\w.]+)/?`", names)}


def test_the_documentation_lists_the_rooms_from_the_ground_up() -> None:
    assert tuple(listed("The rooms")) == ROOMS


def test_the_documentation_lists_the_pure_modules() -> None:
    pure = [name if name.startswith("ckwatch_lsp.") else f"ckwatch.{name}" for name in listed("Pure modules")]
    assert pure == CONTRACTS["pure"]["source_modules"]


def reads(tree: ast.AST) -> bool:
    """Return True if a module opens or reads files itself; writing new ones does not count."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        method = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if method != "open" and method not in BARE_READS:
            continue
        called = ast.unparse(node.func)
        words = [
            one.value for one in (*node.args, *(one.value for one in node.keywords)) if isinstance(one, ast.Constant)
        ]
        of_a_path = "." in called and (words[:1] == ["rb"] or any(one.arg == "encoding" for one in node.keywords))
        plain = called in ("open", "os.open") or (method == "open" and of_a_path)
        own_function = method == called and method in BARE_READS
        if (method in BARE_READS and not own_function) or (plain and not {"w", "wb", "x", "ab"} & set(map(str, words))):
            return True
    return False


def test_files_of_users_are_read_in_one_module() -> None:
    found = {module for module, tree in modules().items() if reads(tree) and not module.startswith(STANDALONE)}
    assert found == {*OWN_FILES}


@each_row(
    ("text", "expected"),
    [
        ("path.read_text()", True),
        ("Path(name).read_bytes()", True),
        ("open(name)", True),
        ("path.open('rb')", True),
        ("path.open(encoding='utf-8')", True),
        ("os.open(name, os.O_RDONLY)", True),
        ("hashlib.file_digest(file, 'sha256')", True),
        ("path.open('w', encoding='utf-8')", False),
        ("read_text(path)", False),
        ("database.open()", False),
    ],
)
def test_reading_is_recognized(text: str, expected: bool) -> None:
    assert reads(ast.parse(text)) is expected


def classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules().items():
        for node in tree.body if not module.startswith(STANDALONE) else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def test_a_public_class_has_a_name_of_its_own() -> None:
    """Exclude names of wire types that equal their contents'."""
    several = {
        name: places
        for name, places in classes().items()
        if len([place for place in places if room(place) != "wire"]) > 1
        or len([place for place in places if room(place) == "wire"]) > 1
    }
    assert several == {}


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    begins = re.compile(r'^\s*r?"""(?:What|Whether|Where)\b', re.MULTILINE)
    for package in (DAEMON, LSP, WEB):
        for path in package.rglob("*.py"):
            found = begins.search(path.read_text())
            assert found is None, f"{path}: {found and found[0].strip()}"


def test_only_the_wire_defines_what_crosses_the_socket() -> None:
    """`ckwatch.wire.values.Value` is the base of it all."""
    wrong = [
        f"{module}: {node.name}"
        for module, tree in modules().items()
        if room(module) != "wire"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in ("Value", "values.Value") for base in node.bases)
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["ckwatch.core.events", "ckwatch.core.effects"])
def test_events_and_effects_say_what_they_carry(module: str) -> None:
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.AnnAssign):
            names = {one.id for one in ast.walk(node.annotation) if isinstance(one, ast.Name)}
            assert not names & {"object", "Any"}, ast.unparse(node)
