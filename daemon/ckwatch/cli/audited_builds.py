"""Builds and verifies rows of AITER's tables: each becomes a kernel file of a workspace that lasts as long."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio

from ckwatch.bench.imports.aiter_audit import SampledRow
from ckwatch.bench.imports.aiter_shapes import gemm_spec
from ckwatch.checks.aiter_instances import LISTS, parameters_of, with_blocks
from ckwatch.cli.imports.files import without_kernels
from ckwatch.cli.imports.kernel_texts import kernel_text
from ckwatch.client import connect
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.workspace.toml import table_text
from ckwatch.workspace.trust import distrust, trust

_SHAPE = "row"


async def built_rows(rows: Sequence[SampledRow], verify: bool, around: Path | None) -> list[Diagnostic]:
    """Build rows, or `verify` them by emulation at their shapes too, with the toolchain of the workspace `around`.

    Return what is wrong at the rows' places.
    """
    toolchain = ""
    if around is not None:
        settings = (await anyio.to_thread.run_sync(without_kernels, around)).settings.toolchain
        given = settings.model_dump(exclude_unset=True, exclude_defaults=True, mode="json")
        toolchain = f"[toolchain]\n{table_text(given)}" if given else ""
    found: list[Diagnostic] = []
    by_arch: dict[str, list[SampledRow]] = defaultdict(list)
    for row in rows:
        by_arch[row.record.arch].append(row)
    for arch, some in by_arch.items():
        with tempfile.TemporaryDirectory(prefix="ckwatch-audit-") as folder:
            root = Path(folder)
            named = {f"row_{number}": row for number, row in enumerate(some, 1)}
            await anyio.to_thread.run_sync(partial(_write, root, arch, named, toolchain))
            try:
                found += await _results(root, named, verify=verify)
            finally:
                await anyio.to_thread.run_sync(distrust, root)
    return found


def _write(root: Path, arch: str, rows: Mapping[str, SampledRow], toolchain: str) -> None:
    (root / "ckwatch.toml").write_text(f'[workspace]\narchs = ["{arch}"]\n{toolchain}')
    folder = root / "kernels"
    folder.mkdir()
    for name, row in rows.items():
        (folder / f"{name}.kernel.toml").write_text(row_text(row))
    trust(root)  # all that is in it was written here


def row_text(row: SampledRow) -> str:
    """Return the text of a kernel file with a row's instance and shape."""
    record = row.record
    family = LISTS[record.kernel]
    slices = 1 if "batched" in record.kernel.split("_") else int(record.runtime.get("kBatch", 1))
    parameters = parameters_of(family, row.fields, gemm_spec(family, record, slices))
    block = [int(str(parameters.pop(f"ScaleBlock{axis}"))) for axis in "MNK"] if family.scale_blocks else []
    suffix = record.dtype if record.dtype in family.operations else next(iter(family.operations))
    operation = with_blocks(family.operations[suffix], block)
    shape: dict[str, int | str] = {"name": _SHAPE, **record.sizes, **({"kBatch": slices} if slices > 1 else {})}
    comment = "A row of one of AITER's tables."
    return kernel_text(comment, family.template, table_text(operation), (shape,), {"instance": parameters}, ())


async def _results(root: Path, rows: Mapping[str, SampledRow], *, verify: bool) -> list[Diagnostic]:
    found: list[Diagnostic] = []

    def add(unit: str, what: str, details: Sequence[str], severity: Severity = Severity.ERROR) -> None:
        row = rows.get(unit.partition("/")[0])
        if row is not None:
            message = f"`{row.record.instance}` {what}"
            related = tuple(Related(one, None) for one in details)
            found.append(Diagnostic(severity, Source.AUDIT, "audit/built", message, row.span, related))

    async with connect(root, client_name="audit", private=True) as client:
        if verify:
            async with client.verifying(shapes=[_SHAPE]) as verified:
                async for line in verified:
                    if line.event == "unit" and line.result is not None and line.result.outcome != "verified":
                        broken = line.result.outcome == "failed" or line.outcome == "failed"
                        severity = Severity.ERROR if broken else Severity.WARNING
                        add(line.result.unit, f"is not right at this shape: {line.result.summary}", (), severity)
            return found
        async with client.building(finish=True) as built:
            async for one in built:
                if one.event == "unit" and one.unit is not None:
                    errors = [each.message for each in one.diagnostics if each.severity is Severity.ERROR]
                    if errors or one.unit.outcome != "built":
                        add(
                            one.unit.id,
                            "does not build",
                            errors[:3] or [one.problem or one.unit.outcome or "no result"],
                        )
    return found
