"""`--plot FILE`: checks that the file can be written, and writes the figure."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.model.errors import CkwatchError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
DOTS_PER_INCH = 150
LIBRARY = "matplotlib"

Draw = Callable[..., "Figure"]
"""A function of `ckwatch.cli.charts.plotting`."""


def check_target(path: Path) -> Path:
    """The file to write, as an absolute path; matplotlib is loaded. Raises CkwatchError where that cannot go well."""
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise CkwatchError(f"cannot plot to '{path}': its name must end in .svg or .png")
    try:
        import_module(LIBRARY)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != LIBRARY:
            raise CkwatchError(
                f"matplotlib cannot be loaded: {error}", "run `pip install --upgrade matplotlib`"
            ) from None
        raise CkwatchError(
            "--plot needs matplotlib, which is not installed", "run `pip install 'ckwatch[plot]'`"
        ) from None
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

    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name[:40]}.", suffix=f".{kind}", delete=False
        ) as file:
            temporary = Path(file.name)
            with mpl.rc_context({"svg.hashsalt": "ckwatch", "svg.fonttype": "path"}):
                figure.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise CkwatchError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                temporary.unlink()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
