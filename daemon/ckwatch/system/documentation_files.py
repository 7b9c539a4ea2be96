"""Files of the documentation: in a source tree, or in an installed package."""

from __future__ import annotations

from pathlib import Path

from ckwatch.system.user_files import read_file


def documentation_folder() -> Path | None:
    """The folder of the documentation; None where it was left out."""
    package = Path(__file__).parents[1]
    return next((one for one in (package.parents[1] / "docs", package / "docs") if (one / "rules.md").is_file()), None)


def page_names() -> list[str]:
    """The names of the pages, without `.md`."""
    folder = documentation_folder()
    return [] if folder is None else sorted(one.stem for one in folder.glob("*.md"))


def read_page(name: str) -> str | None:
    """The text of a page, by its name with or without `.md`; None where there is none."""
    folder, stem = documentation_folder(), name.removesuffix(".md")
    return read_file(folder / f"{stem}.md").decode() if folder is not None and stem in page_names() else None
