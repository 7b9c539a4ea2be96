"""Errors in files that nobody has open: a template that ckwatch ships says nothing to who edits a kernel file.

They are shown at the instance that they arise in, too.
"""

from __future__ import annotations

from pathlib import Path

from ckwatch.wire.values import Diagnostic, Related
from ckwatch_lsp.folder import Folder

HERE = "this is where it was found"


def is_outside(folder: Folder, path: str) -> bool:
    """Whether a file is none of the workspace's."""
    return not Path(path).is_relative_to(folder.root)


def at_instances(folder: Folder, path: str) -> list[Diagnostic]:
    """The errors of files outside of the workspace at the first instance of the kernel file `path` that they are in."""
    units = folder.units_at(path)
    found = []
    for other, told in folder.files.items() if units else ():
        if not is_outside(folder, other):
            continue
        for one in told.diagnostics:
            concerned = set(one.units)
            unit = next((each for each in units if each.id in concerned), None)
            if unit is not None and one.severity == "error":
                related = (Related(message=HERE, span=one.span), *one.related)
                found.append(one.model_copy(update={"span": unit.place, "related": related, "fixes": ()}))
    return found
