"""The version of code: the same whatever comments and docstrings say, another when the code does another thing."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.engine.handlers import analyze, verify
from ckwatch.system.code_version import PACKAGE, C, imported_modules, version_of, without_remarks
from ckwatch.verification.library import source_files

MODULES = (*verify.VERIFYING_MODULES, *analyze.REPORTING_MODULES)

SAME = (
    ("x = 1\n", "# why\nx = 1  # because\n\n"),
    ("x = 1\ny = 2\n", '"""Of x.\n\nAnd # y."""\n\nx = 1\n"""Of x."""\ny = 2\n'),
    ("def f():\n    return 1\n", 'def f():\n    r"""It\'s \\" one."""  # it is\n\n    return 1\n'),
    ("class A:\n    x: int\n\n    y: int\n", "class A:\n    'Two.'\n    x: int\n    '''The\nfirst.'''\n    y: int\n"),
    ("x = {'a': '#'}\n", "x = {'a': '#'}  # a\n"),
)
OTHER = (
    ("x = 1\n", "x = 2\n"),
    ("x = '# a'\n", "x = '# b'\n"),
    ('x = """a\n\nb"""\n', 'x = """a\nb"""\n'),
    ('f(\n    """a"""\n)\n', 'f(\n    """b"""\n)\n'),
    ("x = \\\n'a'\n", "x = \\\n'b'\n"),
    ("'a'.join(x)\n", "'b'.join(x)\n"),
    ("f'{g()}'\n", "f'{h()}'\n"),
    ("if x:\n    y()\n", "if x:\n    pass\ny()\n"),
    ("x = \"it's\"  # a\ny = 'b'\n", "x = \"it's\"  # a\ny = 'c'\n"),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_remarks_are_left_out(one: str, other: str) -> None:
    assert without_remarks(one) == without_remarks(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_is_no_remark_counts(one: str, other: str) -> None:
    assert without_remarks(one) != without_remarks(other)


def test_comments_in_c_are_left_out_and_what_looks_like_one_is_not() -> None:
    source = 'int a; /* one\n two */ char *s = "// no"; char c = \'"\'; // three \\\n four\nint b;\n'
    pieces = without_remarks(source, C)
    assert pieces[1::2] == ['"// no"', "'\"'"]
    assert "".join(pieces).split() == [
        "int",
        "a;",
        "char",
        "*s",
        "=",
        '"//',
        'no";',
        "char",
        "c",
        "=",
        "'\"';",
        "int",
        "b;",
    ]


def remarks(tree: ast.AST) -> Iterator[ast.Expr]:
    """Strings that are statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def test_of_the_package_itself_docstrings_are_left_out_and_no_other_string() -> None:
    for name in imported_modules(MODULES):
        path = PACKAGE.joinpath(*name.split(".")[1:])
        source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
        tree, lines = ast.parse(source), source.encode().splitlines()
        kept = "".join(without_remarks(source))
        left_out = {remark.value for remark in remarks(tree)}
        in_f_strings = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in in_f_strings:
                continue
            first = lines[node.lineno - 1][node.col_offset :]
            if node in left_out:
                assert first.decode() not in kept, name
            elif node.lineno == node.end_lineno:
                assert first[: (node.end_col_offset or 0) - node.col_offset].decode() in kept, name


def edited(package: Path, module: str, old: str, new: str) -> None:
    path = package.joinpath(*module.split(".")).with_suffix(".py")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_only_what_the_code_does_changes_the_version(tmp_path: Path) -> None:
    package = tmp_path / "ckwatch"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def version() -> str:
        return version_of(verify.VERIFYING_MODULES, sorted((package / "verification/native").iterdir()), package)

    before = version()
    assert before == version_of(verify.VERIFYING_MODULES, source_files())
    for room in ("bench", "verification", "model"):
        for path in (package / room).rglob("*.py"):
            text = path.read_text()
            path.write_text(text.replace('"""\n', ' More."""\n', 1) + "# The end.\n")
    edited(package, "verification.problems", "_MOST_ROUNDS = 10", "_MOST_ROUNDS = 11")  # the key has the trials
    edited(package, "bench.sampling", "import", "assert True\nimport")
    (package / "bench/another.py").write_text("x = 1\n")
    hip = package / "verification/native/hip.c"
    hip.write_text(f"/* More. */\n{hip.read_text()}")
    assert version() == before
    versions = {before}
    for module, old, new in (
        ("verification.verify_job", "1 << 40", "1 << 41"),
        ("bench.numerics.tolerance", "return ", "return 0 or "),
        ("model.tensors", "return ", "return 0 or "),
        ("verification.findings", "return ", "return 0 or "),
        ("verification.library", "-O3", "-O2"),
        ("bench.worker_session", "return ", "return 0 or "),
    ):
        edited(package, module, old, new)
        versions.add(version())
    hip.write_text(hip.read_text() + "int more;\n")
    assert len({*versions, version()}) == 8


def test_it_is_of_all_that_a_worker_imports_to_verify() -> None:
    code = "import sys, ckwatch.verification.verify_job; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    loaded = [name for name in found if name.startswith("ckwatch.")]
    assert {"ckwatch.verification.verify_job", "ckwatch.model.trials"} <= set(loaded)
    assert set(loaded) <= set(imported_modules(verify.VERIFYING_MODULES))
    assert "ckwatch.verification.problems" not in loaded, "what chooses problems is no part of executing them"


def test_the_room_of_reports_has_more_than_what_makes_them() -> None:
    names = imported_modules(analyze.REPORTING_MODULES)
    assert {"ckwatch.codeobject.occupancy", "ckwatch.compile.elf"} <= set(names)
    assert "ckwatch.codeobject.listing_text" not in names
