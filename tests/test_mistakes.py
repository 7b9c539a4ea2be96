"""A mistake is reported where it was made: through the whole command, with the real hipcc where one is needed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main
from mistake_rows import COMPILED, GEMM, HIP_FILES, INSTANCE, INSTANCE_COMPILED, PLAIN, Mistake

EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm"


def prepare(folder: Path, mistake: Mistake) -> Path:
    root = folder / "ws"
    if mistake.file == GEMM:
        shutil.copytree(EXAMPLE, root)
    else:
        for name, text in {**HIP_FILES, "ckwatch.toml": ""}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    path = root / mistake.file
    text = path.read_text()
    assert mistake.old in text
    path.write_text(text.replace(mistake.old, mistake.new, 1))
    return root


def errors(root: Path, mistake: Mistake, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """All errors that the command reports, the workspace's first."""
    words = ["gemm_f16/v3_128*"] if mistake.file == GEMM else []
    command = ["build", *words, *([] if mistake.rules else ["--no-rules"])] if mistake.compiles else ["check", *words]
    assert main([*command, "-C", str(root), "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [line for line in lines if line["event"] == "diagnostic"]
    found += [one for line in lines if line["event"] == "unit" for one in line["diagnostics"]]
    return [one for one in found if one["severity"] == "error"]


def place_of(diagnostic: dict[str, Any], root: Path) -> str:
    span = diagnostic["span"]
    path = os.path.relpath(span["path"], root)
    return f"{path}:{span['start']['line'] + 1}:{span['start']['column'] + 1}"


def check(mistake: Mistake, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = prepare(folder, mistake)
    found = errors(root, mistake, capsys)
    places = {place_of(one, root): one for one in reversed(found)}
    whole = mistake.place.endswith(":")
    first = next(
        (one for place, one in places.items() if place == mistake.place or (whole and place.startswith(mistake.place))),
        None,
    )
    assert first is not None, [(place, one["message"]) for place, one in places.items()]
    assert mistake.message in first["message"] + first["detail"]
    if mistake.file == GEMM:
        line = (root / GEMM).read_text().splitlines()[first["span"]["start"]["line"]]
        changed = {name.split(" = ")[0] for name in mistake.new.splitlines()}
        assert line.split(" = ")[0] in changed, line


def names(rows: list[Mistake]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mistake", rows, ids=[row.what for row in rows])


@names([*PLAIN, *INSTANCE])
def test_without_a_compiler(
    mistake: Mistake, trusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(mistake, tmp_path, capsys)


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@names([*COMPILED, *INSTANCE_COMPILED])
def test_with_hipcc(mistake: Mistake, trusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(mistake, tmp_path, capsys)
