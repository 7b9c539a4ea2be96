"""`ckwatch audit FILE…`: what is wrong with AITER's tuned tables, without a compiler unless a sample is to be built."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import anyio

from ckwatch.bench.imports.aiter_audit import KEPT, LARGEST_BYTES, AuditedTable, TableAudit, known_part
from ckwatch.bench.imports.aiter_registry import Registry
from ckwatch.cli.audited_builds import built_rows
from ckwatch.cli.audited_predictions import RowPredictions
from ckwatch.cli.command_words import workspace_if_any
from ckwatch.cli.diagnostic_text import display_path
from ckwatch.cli.output import Output
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import read_file
from ckwatch.workspace.discovery import working_folder

SHOWN = 10
"""Findings of one kind in one table that are printed; `--json` has more."""


class AiterCheckout:
    """The files of AITER below a folder that has its `csrc`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> str | None:
        """Return the text of a file; None where there is none that can be read."""
        try:
            return read_file(self.root / path).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return None

    def csv_files(self, folder: str) -> Iterator[str]:
        """Yield the paths of the CSV files below a folder."""
        for path in sorted((self.root / folder).rglob("*.csv")):
            yield path.relative_to(self.root).as_posix()


def checkout_at(folder: Path) -> Path | None:
    """Return the folder of AITER's sources in a checkout or beside an installed package; None where there is none."""
    return next((one for one in (folder, folder / "aiter_meta") if (one / "csrc").is_dir()), None)


class _Registries:
    """The registry of each file: that of `--registry`, of the checkout around it, or of the installed package."""

    def __init__(self, given: Path | None) -> None:
        self._known: dict[Path, Registry] = {}
        self._given = None
        self._installed: Path | None = None
        if given is not None:
            self._given = checkout_at(given)
            if self._given is None:
                raise CkwatchError(
                    f"{given} is not a checkout of AITER: it has no csrc", "name the folder that has csrc/ and hsa/"
                )
        else:
            found = find_spec("aiter")
            places = [Path(one).parent for one in (found.submodule_search_locations or ())] if found else []
            self._installed = next((one for place in places if (one := checkout_at(place))), None)

    def of(self, path: Path) -> tuple[Registry | None, str | None]:
        """Return a file's registry, and its folder."""
        around = (one for parent in path.parents if (one := checkout_at(parent)))
        root = self._given or next(around, None) or self._installed
        if root is None:
            return None, None
        if root not in self._known:
            self._known[root] = Registry(AiterCheckout(root))
        return self._known[root], str(root)


def run(options: argparse.Namespace) -> int:
    """Audit tables: 1 where one has errors."""
    part = None
    if options.part is not None and (part := known_part(options.part)) is None:
        raise CkwatchError(f"no part is called '{options.part[:40]}'", "name one as MI300X, or as gfx942:304")
    builds = options.build or options.verify
    for name, what in (("sample", "how many"), ("seed", "which")):
        if getattr(options, name) is not None and not builds:
            raise CkwatchError(f"--{name} says {what} rows to build, and none is built", "add --build or --verify")
    registries = _Registries(options.registry)
    predicted = RowPredictions().time_us if options.advice else None
    audit = TableAudit(part, (options.sample or 5) if builds else 0, options.seed or 0, predicted)
    output = Output(options, working_folder())
    tables, roots = [], []
    for path in dict.fromkeys(Path(os.path.abspath(file)) for file in options.files):  # noqa: PTH100  # links stay
        registry, root = registries.of(path)
        tables.append(audit.table(str(path), _content(path), registry))
        roots.append(root)
    built: Sequence[Diagnostic] = ()
    if builds:
        with output.working("building a sample"):
            built = anyio.run(built_rows, audit.sampled, options.verify, workspace_if_any(options))
    findings = [one for table in tables for one in table.findings]
    status = int(any(one.severity is Severity.ERROR for one in (*findings, *built)))
    if output.json:
        output.answer(
            tables=[
                {
                    "path": table.path, "kind": table.kind, "registry": root, "rows": table.rows,
                    "judged": table.judged, "not_judged": dict(table.not_judged), "counts": dict(table.counts),
                }
                for table, root in zip(tables, roots, strict=True)
            ],
            diagnostics=[*findings, *built], built=len(audit.sampled) if builds else 0, exit_status=status,
        )  # fmt: skip
        return status
    output.diagnostics([*_shown(tables, advice=options.advice), *built])
    output.lines((line, "") for line in _summary(tables, roots, output.root, advice=options.advice))
    if builds:
        how = "verified" if options.verify else "built"
        wrong = sum(one.severity is Severity.ERROR for one in built)
        output.text(f"{count(len(audit.sampled), 'row')} {how}, {wrong} of them with errors")
    return status


def _content(path: Path) -> bytes:
    try:
        return read_file(path, LARGEST_BYTES)
    except OSError as error:
        raise CkwatchError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None


def _shown(tables: Iterable[AuditedTable], *, advice: bool) -> Iterator[Diagnostic]:
    """Yield the first findings of each kind."""
    for table in tables:
        printed: Counter[str] = Counter()
        for one in table.findings:
            printed[one.code] += 1
            if printed[one.code] <= SHOWN and (advice or one.severity is not Severity.HINT):
                yield one


def _summary(
    tables: Sequence[AuditedTable], roots: Sequence[str | None], root: str | None, *, advice: bool
) -> Iterator[str]:
    rows = sum(table.rows for table in tables)
    totals: Counter[str] = Counter()
    for table in tables:
        totals.update(table.counts)
        for code, number in table.counts.items():
            if number > SHOWN and (advice or code != "audit/slower"):
                yield f"{display_path(table.path, root)}: {number - SHOWN:,} more of {code}; --json has up to {KEPT:,}"
    words = ", ".join(f"{number:,} {code}" for code, number in sorted(totals.items())) or "nothing found"
    yield f"{count(len(tables), 'table')}, {count(rows, 'row')}: {words}"
    if totals["audit/slower"] and not advice:
        yield "audit/slower is advice; --advice shows it"
    not_judged = sum((table.not_judged for table in tables), Counter[str]())
    judged = sum(table.judged for table in tables)
    if not_judged:
        why = ", ".join(f"{number:,} {what}" for what, number in not_judged.most_common())
        yield f"{judged:,} names of kernels were looked up, {not_judged.total():,} were not judged: {why}"
    if None in roots and rows:
        yield "no checkout of AITER was found for some tables: --registry names one, and kernels are looked up in it"
