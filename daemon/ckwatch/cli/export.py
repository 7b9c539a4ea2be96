"""`ckwatch build --out DIR`: products, object files and standalone runners in a folder of the user's."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.output import Output
from ckwatch.client import Client
from ckwatch.errors import CkwatchError
from ckwatch.store import verified

if TYPE_CHECKING:
    from ckwatch.cli.build import Ended
    from ckwatch.wire.values import Unit

SUFFIXES = {"shared-object": ".so", "code-object": ".hsaco", "object": ".o"}
CUBIN = ".cubin"


async def export(options: argparse.Namespace, client: Client, ended: Sequence[Ended], output: Output) -> None:
    """Copy the products of every unit that was built.

    Raises CkwatchError when the folder cannot be written, LostArtifactError for what the store does not have any more.
    """
    folder: Path = options.out.absolute()
    kinds = ["shared-object", "code-object", *(["object"] if options.aot else [])]
    for one in ended:
        unit = one.unit
        if unit is None:
            continue
        written = await to_thread.run_sync(partial(_copy, unit, folder, kinds))
        if options.runner:
            target = _stem(unit, folder).with_name(_stem(unit, folder).name + ".run")
            await client.runner(unit, target)
            written.append(target)
        for path in written:
            if output.json:
                output.line(event="file", unit=unit.id, path=str(path))
            else:
                output.text(f"wrote {path}")


def _stem(unit: Unit, folder: Path) -> Path:
    return folder / unit.kernel / f"{unit.instance}@{unit.arch.replace(':', '-')}"


def _copy(unit: Unit, folder: Path, kinds: list[str]) -> list[Path]:
    stem = _stem(unit, folder)
    written = []
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            source = unit.products.get(kind)
            if source is not None:
                cubin = kind == "code-object" and unit.arch.startswith("sm_")
                target = stem.with_name(stem.name + (CUBIN if cubin else SUFFIXES[kind]))
                partial_copy = target.with_name(target.name + ".partial")
                partial_copy.write_bytes(verified(Path(source)))
                partial_copy.replace(target)
                written.append(target)
    except OSError as error:
        raise CkwatchError(f"cannot write to {folder}: {error.strerror}") from error
    return written
