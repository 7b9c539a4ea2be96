"""`ckwatch init`."""

from __future__ import annotations

import argparse
import os
from importlib.resources import files
from pathlib import Path

from ckwatch.cli.output import Output
from ckwatch.model.errors import CkwatchError

STARTER = files("ckwatch.workspace") / "starter"
"""The files of a new workspace, as they are written."""

STARTER_FILES = ("ckwatch.toml", "kernels/gemm_f16.kernel.toml", "templates/gemm.hip.j2")


def init_workspace(folder: Path) -> list[Path]:
    """Write a `ckwatch.toml`, a kernel file and a template into `folder`, which is made if it is not there.

    Returns the files written, as absolute paths. Raises CkwatchError, and writes nothing, if one of them exists or the
    folder cannot be written to.
    """
    # a link to the folder stays the path it was given by
    folder = Path(os.path.abspath(folder))  # noqa: PTH100
    targets = [folder / name for name in STARTER_FILES]
    present = [target for target in targets if os.path.lexists(target)]
    if present:
        names = ", ".join(str(target) for target in present)
        raise CkwatchError(f"already there: {names}", "choose another folder, or move these files away")
    written: list[Path] = []
    try:
        for name, target in zip(STARTER_FILES, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                written.append(target)
                file.write(STARTER.joinpath(*name.split("/")).read_text("utf-8"))
    except OSError as error:
        for target in written:
            target.unlink(missing_ok=True)
        raise CkwatchError(f"cannot write a workspace to {folder}: {(error.strerror or str(error)).lower()}") from None
    return written


def run(options: argparse.Namespace) -> int:
    """Write a workspace and say what to do with it."""
    output = Output(options)
    if options.workspace is not None and options.folder is not None:
        raise CkwatchError("DIR and -C both say where to write the workspace", "give one of them")
    for path in init_workspace(options.workspace or options.folder or Path()):
        output.text(f"wrote {path}")
    output.text("next: `ckwatch check` finds mistakes in milliseconds, `ckwatch watch` compiles what changes")
    return 0
