"""The winners of a tuning run, written into the kernel file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckwatch.model.amounts import time_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Shape
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import read_file
from ckwatch.tuning.dispatch import DispatchSet
from ckwatch.tuning.results import BestInstance, TuningRecord
from ckwatch.tuning.tuned_kernel import TunedKernel
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.shapes import RUNTIME_DEFAULTS
from ckwatch.workspace.toml import instance_table


def write_file(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises CkwatchError."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise CkwatchError(f"{path} cannot be written: {error.strerror or error}") from None


def best_shapes(tuned: TunedKernel, record: TuningRecord) -> list[tuple[Shape, BestInstance]]:
    """The shapes on which something was measured, and the best there; of those that differ in `kBatch` alone the one
    with the fastest instance, as a caller may choose it."""
    found: dict[tuple[object, ...], tuple[Shape, BestInstance]] = {}
    for shape in tuned.shapes:
        fixed = ((name, value) for name, value in shape.runtime.items() if name not in RUNTIME_DEFAULTS)
        key = (*shape.sizes.items(), *fixed)
        best = record.best(shape.name)
        if best is not None and (key not in found or best.median_us < found[key][1].median_us):
            found[key] = shape, best
    return list(found.values())


def write_winners(tuned: TunedKernel, record: TuningRecord, chosen: DispatchSet | None) -> list[str]:
    """Append the instances of the smallest set to the kernel file, but for those that it has; their names.

    Raises CkwatchError where the file was changed so that it does not take them; it is then as it was.
    """
    if chosen is None:
        return []
    path = Path(tuned.kernel.path)
    mine = dict.fromkeys(chosen.instances)
    points = {point.instance: point for point in record.points if point.instance in mine}
    try:
        before = read_file(path)
        values = tomllib.loads(before.decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise CkwatchError(f"{path} cannot be read: {error}", "fix the file: the results are kept") from None
    present = {instance.name for instance in tuned.kernel.instances}
    present |= {str(one.get("name")) for one in values.get("instance", ()) if isinstance(one, dict)}
    new = [name for name in mine if name in points and name not in present]
    if not new:
        return []
    blocks = []
    for name in new:
        fastest = ((shape, record.best(shape)) for shape, own in chosen.choice.items() if own == name)
        best = [f"{shape} ({time_of(found.median_us)})" for shape, found in fastest if found is not None]
        parameters = points[name].parameters
        own = {key: value for key, value in parameters.items() if not _is_default(values, key, value)}
        comment = f"# fastest that was found, or nearly so: {', '.join(best)}\n" if best else ""
        blocks.append(f"\n{comment}{instance_table(name, own)}")
    newline = b"" if before.endswith(b"\n") else b"\n"
    write_file(path, (before + newline).decode("utf-8-sig") + "".join(blocks))
    loaded = {kernel.name: kernel for kernel in load_workspace(tuned.root).kernels}.get(tuned.kernel.name)
    taken = {} if loaded is None else {instance.name: instance.parameters for instance in loaded.instances}
    if any(dict(taken.get(name, {})) != dict(points[name].parameters) for name in new):
        replace_file(path, before)
        raise CkwatchError(
            f"{path} does not take the winners: its tables have changed meanwhile",
            "tune again: what was measured is not measured twice",
        )
    return new


def _is_default(values: Mapping[str, Any], key: str, value: object) -> bool:
    default = values.get("defaults", {}).get(key)
    return default is not None and json.dumps(default) == json.dumps(value)
