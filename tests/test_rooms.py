"""The house: which room stands on which, and what stands in one place only. docs/architecture.md describes the same."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

import ckwatch
import ckwatch_lsp
import ckwatch_web

DAEMON = Path(ckwatch.__file__).parent
LSP = Path(ckwatch_lsp.__file__).parent
WEB = Path(ckwatch_web.__file__).parent
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"

ROOMS = (
    *(
        "model",
        "system",
        "workspace",
        "render",
        "checks",
        "compile",
        "bench",
        "codeobject",
        "prediction",
        "verification",
        "tuning",
        "core",
    ),
    *("wire", "cpp", "farm", "engine", "server", "client", "exported", "cli"),
)
"""From the ground up: a room imports those before it."""

FOR_CLIENTS = {"ckwatch", "ckwatch.client", "ckwatch.wire", "ckwatch.model", "ckwatch.system", "ckwatch.workspace.toml"}
"""What the language server and the page may know of the daemon."""

SHELL_LIBRARIES = {"anyio", "asyncio", "subprocess", "socket", "sqlite3", "rich", "jinja2", "pydantic", "threading"}
PROCESS_CALLS = {
    *("subprocess.Popen", "subprocess.run", "subprocess.check_output", "subprocess.check_call", "subprocess.call"),
    *("anyio.open_process", "anyio.run_process", "asyncio.create_subprocess_exec", "os.posix_spawn", "os.fork"),
    *("os.kill", "os.killpg", "os.system", "os.popen", "os.waitpid"),
}
OTHER_PROCESSES: Mapping[str, AbstractSet[str]] = {
    "ckwatch.cli.emulate": {"subprocess.run"},  # the program has the command's terminal
    "ckwatch.cli.live.screen": {"os.kill"},  # Ctrl-Z stops the command itself
    "ckwatch.farm.cluster": {"os.fork"},  # so does a cluster
    "ckwatch.server.__main__": {"os.fork"},  # a daemon leaves its terminal
}
BARE_READS = {"read_text", "read_bytes", "file_digest"}
OWN_FILES: Mapping[str, str] = {
    "ckwatch.bench.leases": "locks, with rules of their own",
    "ckwatch.bench.runtimes.cuda_monitor": "/proc",
    "ckwatch.bench.runtimes.hip": "/proc and /sys",
    "ckwatch.bench.runtimes.hip_monitor": "/sys",
    "ckwatch.bench.runtimes.processors": "/proc and /sys",
    "ckwatch.prediction.learned": "weights that ship with ckwatch",
    "ckwatch.bench.worker": "its standard input and /proc",
    "ckwatch.cli.streams": "`/dev/null`",
    "ckwatch.exported.module_text": "what ships with ckwatch",
    "ckwatch.cli.logs": "the log, line by line",
    "ckwatch.client.launch": "the log's end",
    "ckwatch.compile.elf": "what was unpacked by an install",
    "ckwatch.compile.keys": "/proc",
    "ckwatch.compile.toolchain.devices": "/proc and /sys",
    "ckwatch.engine.memory": "/proc and /sys",
    "ckwatch.farm.giving": "an archive that it has made",
    "ckwatch.farm.plain_data": "a connection",
    "ckwatch.engine.queries.status": "the log's end",
    "ckwatch.engine.queries.time_trace": "a new file",
    "ckwatch.engine.watch.notify": "/proc",
    "ckwatch.system.durable_files": "folders, and files that were just written",
    "ckwatch.system.file_locks": "locks",
    "ckwatch.system.processes": "/proc",
    "ckwatch.system.user_files": "all others",
    "ckwatch.workspace.init": "what ships with ckwatch",
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


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Dotted names, lazy imports and those for type checkers included. `from a import b` counts as `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


@functools.cache
def graph() -> dict[str, set[str]]:
    """Which of our modules imports which."""
    known = modules()
    edges: dict[str, set[str]] = {name: set() for name in known}
    for name, tree in known.items():
        for target, _ in imported(tree):
            if target not in known:
                target = target.rpartition(".")[0]
            if target in known and target != name:
                edges[name].add(target)
    return edges


def room(module: str) -> str:
    return module.split(".")[1] if module.startswith("ckwatch.") else module.split(".")[0]


def circles(edges: Mapping[str, AbstractSet[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            members = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(members) > 1:
                found.append(sorted(members))

    for node in edges:
        if node not in order:
            visit(node)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(graph()) == []


def test_every_module_stands_in_a_room() -> None:
    alone = {"ckwatch", "ckwatch.__main__", "ckwatch.errors"}
    assert {room(name) for name in modules() if name.startswith("ckwatch.") and name not in alone} == {*ROOMS}


@pytest.mark.parametrize("name", ROOMS)
def test_nothing_is_imported_upwards(name: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(name) + 1]}
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        if module.startswith(f"ckwatch.{name}.") or module == f"ckwatch.{name}"
        for target in targets
        if room(target) not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize(("package", "more"), [("ckwatch_lsp", set()), ("ckwatch_web", {"ckwatch.tuning"})])
def test_a_client_knows_what_any_client_knows(package: str, more: set[str]) -> None:
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        if module.startswith(package)
        for target in targets
        if not target.startswith(package) and not {target, ".".join(target.split(".")[:2])} & (FOR_CLIENTS | more)
    ]
    assert wrong == []


def listed(heading: str) -> dict[str, str]:
    """The first column of the table below a heading of docs/architecture.md, and the row."""
    _, _, text = ARCHITECTURE.read_text().partition(f"\n## {heading}\n")
    section = text.partition("\n## ")[0]
    return dict(re.findall(r"^\| `([\w.]+)/?` \|(.*)$", section, re.MULTILINE))


def test_the_documentation_lists_the_rooms_from_the_ground_up() -> None:
    assert tuple(listed("The rooms")) == ROOMS


def test_what_is_called_pure_knows_no_shell() -> None:
    pure = listed("Pure modules")
    assert len(pure) > 5
    for name, row in pure.items():
        package = "ckwatch_lsp" if name.startswith("ckwatch_lsp.") else f"ckwatch.{name}"
        name = name if package == "ckwatch_lsp" else package
        members = [module for module in modules() if module == name or module.startswith(f"{name}.")]
        assert members, name
        excepted = set(re.findall(r"except `([\w.]+)`", row))
        for module in members:
            if any(module == f"ckwatch.{other}" or module.startswith(f"ckwatch.{other}.") for other in excepted):
                continue
            loaded = {target.split(".")[0] for target, _ in imported(modules()[module])}
            assert not loaded & SHELL_LIBRARIES, f"{module} is listed as pure and imports {loaded & SHELL_LIBRARIES}"


def calls(tree: ast.AST) -> Iterator[str]:
    """Dotted names of what is called, of names that lead to an import."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            yield f"{node.func.value.id}.{node.func.attr}"


def test_one_module_starts_and_kills_processes() -> None:
    found = {
        module: called
        for module, tree in modules().items()
        if (called := {*calls(tree)} & PROCESS_CALLS) and module != "ckwatch.system.processes"
    }
    assert found == OTHER_PROCESSES


def reads(tree: ast.AST) -> bool:
    """Whether a module opens or reads files itself; writing new ones is no reading."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        method = called.rpartition(".")[2]
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


@pytest.mark.parametrize(
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
    """What crosses the socket may be called as what it is made of."""
    several = {
        name: places
        for name, places in classes().items()
        if len([place for place in places if room(place) != "wire"]) > 1
        or len([place for place in places if room(place) == "wire"]) > 1
    }
    assert several == {}


def test_only_the_wire_defines_what_crosses_the_socket() -> None:
    """`ckwatch.wire.schema.Value` is the base of it all."""
    wrong = [
        f"{module}: {node.name}"
        for module, tree in modules().items()
        if room(module) != "wire"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in ("Value", "schema.Value") for base in node.bases)
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["ckwatch.core.events", "ckwatch.core.effects"])
def test_events_and_effects_say_what_they_carry(module: str) -> None:
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.AnnAssign):
            names = {one.id for one in ast.walk(node.annotation) if isinstance(one, ast.Name)}
            assert not names & {"object", "Any"}, ast.unparse(node)
