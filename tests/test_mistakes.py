"""Each planted mistake is reported once, where it was made, and the message says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ckwatch.cli import main
from mistakes.corpus import Case, cases, plant, take_marks
from mistakes.judging import judge

CHECKED = [case for case in cases() if case.command == "check"]
BUILT = [case for case in cases() if case.command == "build"]
SOON_BUILT = [
    *(case for case in BUILT if case.base == "cpp"),
    *({case.kind: case for case in BUILT if case.base not in ("cpp", "cuda", "gemm", "inductor")}.values()),
]
"""Those of host code, which compile in a second, and one of each kind; `make mistakes` runs all."""


def rows(chosen: Iterable[Case]) -> pytest.MarkDecorator:
    parameters = [
        pytest.param(case, id=str(case), marks=[pytest.mark.xfail(reason=case.fails)] if case.fails else [])
        for case in chosen
    ]
    return pytest.mark.parametrize("case", parameters)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with a daemon, which becomes that of each case in turn."""
    root = tmp_path_factory.mktemp("mistakes").resolve() / "workspace"
    root.mkdir()
    (root / "ckwatch.toml").touch()
    with TemporaryDirectory(prefix="ckw") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        patch.delenv("CKWATCH_NO_DAEMON")
        yield root
        main(["stop", "-C", str(root)])


@rows(CHECKED)
def test_without_a_compiler(case: Case, served: Path) -> None:
    verdict = judge(case, served)
    if not verdict.right:  # a daemon may blame what was edited: a workspace of its own decides
        verdict = judge(case)
    assert verdict.right, verdict


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@rows(SOON_BUILT)
def test_with_a_compiler(case: Case) -> None:
    verdict = judge(case)
    assert verdict.right, verdict


def test_each_case_is_one_mistake_with_a_name_of_its_own(tmp_path: Path) -> None:
    names = [str(case) for case in cases()]
    assert len(names) == len(set(names)) >= 150
    for number, case in enumerate(cases()):
        assert plant(case, tmp_path / str(number))
        assert re.compile(case.says)


def test_marks_are_counted_in_characters() -> None:
    text, marks = take_marks("größe\n\t⟦x⟧;⟦⟧\n", "k.hip.j2")
    assert text == "größe\n\tx;\n"
    assert [(mark.start, mark.end) for mark in marks] == [((1, 1), (1, 2)), ((1, 3), (1, 3))]
    name, end = marks
    assert [name.has((1, 0)), name.has((1, 1)), name.has((1, 2))] == [False, True, False]
    assert [end.has((1, 2)), end.has((1, 3))] == [False, True]
