"""Names that programs import from `ckwatch`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ckwatch
import ckwatch.errors
from ckwatch.client import builds
from ckwatch.model.errors import CkwatchError
from ckwatch.wire import analysis, benchmarks, messages, state
from helpers.each_row import each_row


@each_row("name", ckwatch.__all__)
def test_each_name_is_there(name: str) -> None:
    assert getattr(ckwatch, name) is not None
    assert name in dir(ckwatch)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(ckwatch.__file__ or "").read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported | {"__version__"} == set(ckwatch.__all__)
    assert sorted(ckwatch.__all__) == ckwatch.__all__


@pytest.mark.parametrize("module", [builds, state, messages, benchmarks, analysis])
def test_they_are_those_of_the_modules(module: ModuleType) -> None:
    shared = [name for name in ckwatch.__all__ if getattr(module, name, None) is not None]
    assert shared
    assert all(getattr(ckwatch, name) is getattr(module, name) for name in shared if name != "ParameterValue")


def test_every_error_is_there() -> None:
    assert {*ckwatch.errors.__all__} <= {*ckwatch.__all__}
    assert issubclass(ckwatch.DaemonGoneError, CkwatchError)


def test_importing_it_loads_no_library() -> None:
    code = "import sys, ckwatch; print(*({'anyio', 'pydantic', 'asyncio', 'jinja2', 'h11'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ckwatch.nothing
