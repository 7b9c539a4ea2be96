"""`--plot FILE`: checks that the file can be written, and writes the figure."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.model.errors import CkwatchError
from ckwatch.system.durable_files import replace_file
from ckwatch.system.installation import command_for_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
DOTS_PER_INCH = 150
LIBRARY = "matplotlib"

Draw = Callable[..., "Figure"]
"""A function of `ckwatch.cli.charts.plotting`."""


def check_target(path: Path, load: Callable[[str], object] = import_module) -> Path:
    """The file to write, as an absolute path; matplotlib is loaded. Raises CkwatchError where that cannot go well."""
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise CkwatchError(f"cannot plot to '{path}': its name must end in .svg or .png")
    try:
        load(LIBRARY)
    except ImportError as error:
        damaged = error.name is not None and error.name.partition(".")[0] != LIBRARY
        what = f"matplotlib cannot be loaded: {error}" if damaged else "--plot needs matplotlib, which is not installed"
        raise CkwatchError(what, f"run `{command_for_extra('plot', again=damaged)}`") from None
    target = path.absolute()
    if target.is_dir():
        raise CkwatchError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise CkwatchError(f"cannot write {path}: there is no folder {target.parent}")
    return target


def draw(path: Path, figure: str, *arguments: Any) -> None:
    """Write the figure that a function of `ckwatch.cli.charts.plotting` makes. The file is whole or as it was.

    Equal figures make equal files with one version of matplotlib. Raises CkwatchError where it cannot be written.
    """
    function: Draw = getattr(import_module("ckwatch.cli.charts.plotting"), figure)
    save(function(*arguments), path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's name asks for."""
    kind = path.suffix.lower().removeprefix(".")
    # neither the date nor random ids: files of equal figures are equal
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": f"{LIBRARY} {version(LIBRARY)}"}
    import matplotlib as mpl

    content = io.BytesIO()
    try:
        with mpl.rc_context({"svg.hashsalt": "ckwatch", "svg.fonttype": "path"}):
            figure.savefig(content, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
        replace_file(path, content.getvalue(), flushed=False)
    except OSError as error:
        raise CkwatchError(f"cannot write {path}: {error.strerror or error}") from error
