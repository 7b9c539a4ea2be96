"""Titles of fixes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ckwatch_lsp.diagnostics.conversion import fix_title


@pytest.mark.parametrize(
    ("replaced", "texts", "files", "title"),
    [
        (["blok"], ["block"], (), "Replace 'blok' by 'block'"),
        (["blok"], ["block"], {"own.hpp"}, "Replace 'blok' by 'block' in own.hpp"),
        ([""], [";"], {"own.hpp"}, "Insert ';' in own.hpp"),
        (["x"], [""], {"own.hpp"}, "Remove 'x' in own.hpp"),
        (["a", "b"], ["c", "d"], {"own.hpp", "a.hip.j2"}, "Fix it in 2 places in a.hip.j2, own.hpp"),
    ],
)
def test_a_fix_in_another_file_names_it(
    replaced: Sequence[str], texts: Sequence[str], files: set[str], title: str
) -> None:
    assert fix_title(replaced, texts, files) == title
