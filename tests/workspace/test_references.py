"""References in Python that kernel files name: what is read with them, and what is wrong with the key or the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.reference_case import RIGHT, reference_workspace
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.python_references import PythonReference
from ckwatch.workspace.loading import Workspace, load_workspace
from ckwatch.workspace.reloading import WorkspaceLoader


def reference_of(workspace: Workspace) -> PythonReference:
    reference = workspace.kernels[0].operation.reference
    assert reference is not None
    return reference


def test_the_modules_beside_it_are_read_with_it(tmp_path: Path) -> None:
    files = {
        "refs/main.py": "import numpy as np\nfrom helpers.rows import total\nimport plain as p\nf = total\n",
        "refs/helpers/__init__.py": "",
        "refs/helpers/rows.py": "from .deep import total\n",
        "refs/helpers/deep.py": "def total(X): return X\n",
        "refs/plain.py": "",
        "refs/unused.py": "",
        "plain.py": "nobody imports this\n",
    }
    workspace = reference_workspace(tmp_path, files, "refs/main.py:f")
    assert workspace.errors == ()
    found = reference_of(workspace)
    assert (found.function, found.problem, found.name) == ("f", "", "main.py:f")
    assert found.modules[0].name == "main"
    assert {(module.name, Path(module.path).relative_to(tmp_path).as_posix()) for module in found.modules} == {
        ("main", "refs/main.py"), ("helpers", "refs/helpers/__init__.py"), ("helpers.rows", "refs/helpers/rows.py"),
        ("helpers.deep", "refs/helpers/deep.py"), ("plain", "refs/plain.py"),
    }  # fmt: skip
    assert {str(tmp_path / "refs/main.py"), str(tmp_path / "refs/helpers/deep.py")} <= set(workspace.files)


@pytest.mark.parametrize(
    ("reference", "files", "code", "words"),
    [
        ("reference.py", {}, "kernel-file/invalid-path", 'write "FILE.py:FUNCTION"'),
        ("reference.py:f:g", {}, "kernel-file/invalid-path", "is not a reference"),
        ("/reference.py:f", {}, "kernel-file/invalid-path", "must be relative"),
        ("missing.py:f", {}, "kernel-file/missing-reference", "there is no file"),
        ("reference.py:g", {}, "kernel-file/missing-reference", "reference.py has no function `g`"),
        (
            "reference.py:sofmax", {"reference.py": "def softmax(X): return X\n"}, "kernel-file/missing-reference",
            "did you mean `softmax`?",
        ),
        ("../reference.py:f", {}, "kernel-file/outside", "lies outside of the workspace"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_reported_at_it(
    reference: str, files: dict[str, str], code: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "reference.py").write_text(RIGHT)
    workspace = reference_workspace(tmp_path / "w", files, reference)
    (found,) = workspace.errors
    assert (found.code, found.span.path) == (code, str(tmp_path / "w/k.kernel.toml"))
    lines = (tmp_path / "w/k.kernel.toml").read_text().splitlines()
    assert reference in lines[found.span.start.line]
    assert words in found.message
    assert reference_of(workspace).problem  # it is compiled all the same


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    workspace = reference_workspace(tmp_path)
    (tmp_path / "reference.py").write_bytes(b"\xff\xfe")
    (found,) = load_workspace(tmp_path).errors
    assert (found.code, found.span.path) == ("kernel-file/unreadable", str(tmp_path / "k.kernel.toml"))
    assert "UTF-16" in found.message
    (tmp_path / "reference.py").write_text(RIGHT)
    (tmp_path / "reference.py").chmod(0o666)
    (found,) = load_workspace(tmp_path).errors
    assert "every user can write it" in found.message
    assert workspace.errors == ()


def test_a_link_that_leads_out(tmp_path: Path) -> None:
    root = tmp_path / "w"
    reference_workspace(root)
    (tmp_path / "elsewhere.py").write_text(RIGHT)
    (root / "reference.py").unlink()
    (root / "reference.py").symlink_to(tmp_path / "elsewhere.py")
    assert [one.code for one in load_workspace(root).errors] == ["kernel-file/outside"]


def test_a_syntax_error_stands_at_its_line_once(tmp_path: Path) -> None:
    reference_workspace(tmp_path, {"reference.py": "import numpy\n\ndef f(X):\n    return (X\n"})
    (tmp_path / "other.kernel.toml").write_text((tmp_path / "k.kernel.toml").read_text())
    workspace = load_workspace(tmp_path)
    (found,) = workspace.errors
    assert (found.code, found.span.path, found.span.start.line) == (
        "reference/syntax", str(tmp_path / "reference.py"), 3
    )  # fmt: skip
    assert "never closed" in found.message
    assert [reference_of(workspace).problem, len(workspace.kernels)] == ["reference.py is not Python", 2]


@pytest.mark.parametrize(
    ("files", "place", "words"),
    [
        ({"reference.py": "def f(X, Tiel): ...\n"}, ("reference.py", 0, 9, 13), "did you mean `Tile`? known: X, Index, M, N"),
        ({"reference.py": "def f(X,\n      ö, ü=3): ...\n"}, ("reference.py", 1, 6, 7), "`f` takes `ö`, which is not a size,"),
        ({"reference.py": "def f(X, *, y): ...\n"}, ("reference.py", 0, 12, 13), "runtime argument, parameter or input;"),
        ({"reference.py": "from h import g as f\n", "h.py": "def g(Y): ...\n"}, ("h.py", 0, 6, 7), "`g` takes `Y`"),
        (
            {"reference.py": "def inputs(sizes, rng, M): ...\ndef f(X): ...\n"}, ("reference.py", 0, 23, 24),
            "`inputs` takes `M`, which is not a parameter of an instance; known: Tile",
        ),
    ],
)  # fmt: skip
def test_an_argument_that_is_none_is_reported_at_it(
    files: dict[str, str], place: tuple[str, int, int, int], words: str, tmp_path: Path
) -> None:
    workspace = reference_workspace(tmp_path, files)
    (found,) = workspace.errors
    assert found.code == "reference/arguments"
    span = found.span
    assert (Path(span.path).name, span.start.line, span.start.column, span.end.column) == place
    assert words in found.message
    assert reference_of(workspace).problem  # nothing calls it


@pytest.mark.parametrize(
    "text",
    [
        "def f(X, Index, M, N, scale, flag, Tile): ...",
        "def f(X, other=3, *arrays, Tile, more=1, **others): ...",
        "import functools\n@functools.partial\ndef f(rewritten): ...",
        "f = lambda unknown: 1",
        "def inputs(sizes, rng, Tile, other=2): ...\ndef f(X): ...",
    ],
)
def test_what_may_be_an_argument_is_none_of_our_business(text: str, tmp_path: Path) -> None:
    assert reference_workspace(tmp_path, {"reference.py": text}).diagnostics == ()


def codes(found: tuple[Diagnostic, ...]) -> list[str]:
    return [one.code for one in found]


def test_a_change_of_any_of_its_files_is_another_reference(tmp_path: Path) -> None:
    text = "from helper import f\n"
    reference_workspace(tmp_path, {"reference.py": text, "helper.py": RIGHT})
    loader = WorkspaceLoader(tmp_path)
    first = loader.load()
    assert loader.load().kernels[0] is first.kernels[0]
    (tmp_path / "helper.py").write_text(RIGHT.replace("scale *", "2 * scale *"))
    second = loader.load()
    assert reference_of(second).digest != reference_of(first).digest
    unsaved = loader.load({str(tmp_path / "helper.py"): "def f(X): return X\n"})
    assert len({reference_of(one).digest for one in (first, second, unsaved)}) == 3
    assert loader.load().kernels[0] is second.kernels[0]
    (tmp_path / "reference.py").unlink()
    assert codes(loader.load().errors) == ["kernel-file/missing-reference"]
    (tmp_path / "reference.py").write_text(text)
    assert codes(loader.load().errors) == []


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("rtol = -1.0", "kernel-file/out-of-range"),
        ('reduction = "K"', "kernel-file/unknown-size"),
        ('ulp = "1"', "kernel-file/wrong-type"),
    ],
)
def test_wrong_tolerances(keys: str, code: str, tmp_path: Path) -> None:
    assert codes(reference_workspace(tmp_path, keys=keys).errors) == [code]


def test_any_kind_of_operation_may_have_one(tmp_path: Path) -> None:
    reference_workspace(tmp_path, {"reference.py": "def f(X): ...\n"})
    (tmp_path / "k.kernel.toml").write_text(
        'template = "t.hip.j2"\n[operation]\nkind = "normalization"\nnorm = "rms"\ndtype = "f16"\n'
        'reference = "reference.py:f"\n[[instance]]\nname = "one"\nTile = 1\n'
    )
    workspace = load_workspace(tmp_path)
    assert workspace.errors == ()
    assert reference_of(workspace).function == "f"
