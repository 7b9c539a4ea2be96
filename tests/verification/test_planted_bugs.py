"""A few of the planted bugs and one correct twin; `make planted-bugs` has them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_bugs.corpus import KINDS, Variant, bugs, twins
from planted_bugs.judging import judge

EVERYTHING = [*bugs(), *twins()]
QUICK = [variant for variant in EVERYTHING if variant.quick]


@pytest.mark.toolchain
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", QUICK, ids=str)
def test_a_bug_is_found_at_its_line_and_its_twin_is_right(library: Path, variant: Variant) -> None:
    verdict = judge(variant, library)
    assert verdict.right, verdict


def test_every_edit_of_a_template_fits_it() -> None:
    for variant in EVERYTHING:
        if not variant.is_header:
            text = variant.template.read_text("utf-8")
            assert variant.edited(text) != text or not variant.edits


def test_the_corpus_has_bugs_of_every_kind_and_their_twins() -> None:
    assert {bug.kind for bug in bugs()} == set(KINDS)
    assert len(bugs()) >= 20
    assert {bug.twin for bug in bugs() if bug.twin} <= {twin.name for twin in twins()}
    assert all(bug.finds and (bug.shown or "wrong" in bug.finds) for bug in bugs())
    assert not any(twin.finds or twin.shown for twin in twins())
    assert len({str(variant) for variant in EVERYTHING}) == len(EVERYTHING)
