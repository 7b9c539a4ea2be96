"""Which editor the demo names, by what is installed."""

from __future__ import annotations

import pytest

from tools.editors.which_editor import ROOT, VIEWS, suggestion


@pytest.mark.parametrize(
    ("installed", "old", "named"),
    [
        ((), (), "No editor with settings of ours"),
        (("nvim",), (), "See it in Neovim"),
        (("hx", "emacs"), (), "See it in Emacs"),
        (("hx", "emacs"), ("Emacs",), "See it in Helix"),
        (("helix",), (), "See it in Helix"),
        (("code-server", "nvim"), (), "See it in VS Code"),
        (("nvim",), ("Neovim",), "No editor with settings of ours"),
    ],
)
def test_the_one_that_shows_most_of_those_that_are_here(
    installed: tuple[str, ...], old: tuple[str, ...], named: str
) -> None:
    told = suggestion(
        lambda program: program if program in installed else None, too_old=lambda name, _program: name in old
    )
    assert told[0].startswith(named)
    assert all("{" not in line for line in told)


def test_every_page_is_there() -> None:
    assert all((ROOT / f"docs/editors/{view.page}.md").is_file() for view in VIEWS)
