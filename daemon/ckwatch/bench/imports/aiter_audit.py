"""Audits AITER's tuned tables: rows that its build would refuse, that launch nothing, or whose times cannot be.

A table is read row by row. What is kept of a row is its key, to find duplicates, and its M and time, to find larger
products that take less. Whatever cannot be judged is counted as that, and never as right: kernels that are in no list
of AITER's, lists that cannot be read, parts without a data sheet.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from ckwatch.bench.imports.aiter import (
    UnusableRowError,
    beyond_peak,
    columns_of,
    part_specs,
    read_record,
    read_time_us,
    whole_number,
)
from ckwatch.bench.imports.aiter_registry import KernelList, Registry, list_of
from ckwatch.bench.imports.aiter_shapes import refusal, tile_depth
from ckwatch.bench.imports.records import PARTS, ImportedTiming, TimingsFileError, shown
from ckwatch.checks.aiter_instances import Fields
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES
from ckwatch.model.text import Position, Span

KEPT = 1000
"""Findings of one kind in one table that are kept; the others are counted."""

LARGEST_BYTES = 256 * 1024 * 1024
MARGIN = 1.25
"""How much longer a product must take than a larger one before it is advised to look."""

ERROR_RATIOS: Mapping[str, float] = {"errRatio": 0.05, "err_ratio": 0.05, "err1": 0.1, "err2": 0.1}
"""Columns with the share of elements that were wrong, and what AITER's tuners accept (`--errRatio`)."""

_KEYS = (
    *(
        "gfx",
        "cu_num",
        "compute_units",
        "B",
        "b",
        "M",
        "m",
        "N",
        "n",
        "K",
        "k",
        "q_dtype_w",
        "bias",
        "dtype",
        "outdtype",
    ),
    *("scaleAB", "bpreshuffle", "token", "model_dim", "inter_dim", "expert", "topk", "shared_expert_id", "act_type"),
    *("q_dtype_a", "q_type", "use_g1u1", "doweight_stage1", "hidden_pad", "intermediate_pad", "gate_mode", "_tag"),
)
"""Columns by which AITER looks up a row, of all its tables (`update_config_files` of `aiter/jit/core.py`)."""

_MERGED = (
    *("a8w8_blockscale_bpreshuffle_tuned_gemm", "a8w8_blockscale_tuned_gemm", "a4w4_blockscale_tuned_gemm"),
    *("a8w8_bpreshuffle_tuned_gemm", "a8w8_tuned_batched_gemm", "bf16_tuned_batched_gemm", "a8w8_tuned_gemm"),
    *("bf16_tuned_gemm", "tuned_fmoe"),
)
"""Parts of names: AITER merges tables of a folder and its `model_configs` that have the same one."""

_PARTITIONS = (1, 2, 3, 4, 6, 8)
"""Into how many devices a part's dies can be divided."""

_MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
_MOE = ("token", "model_dim", "inter_dim", "expert", "topk")
_NAMES = ("kernelName", "instance", "kernelName1", "kernelName2")
_NUMBERS = ("kernelId", "solidx")
_NAMED_BY = {*_NAMES, *_NUMBERS, "libtype"}

NEIGHBOURS = 2
"""Rows with the next smaller and larger M whose kernels may beat a row by prediction, on each side."""

Predicted = Callable[[ImportedTiming, int], float | None]
"""The time of a row's kernel with another M, in microseconds."""

Kind = Literal["gemm", "moe", "other"]
Part = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SampledRow:
    """A row whose kernel a template can build: its place, what it says, and the fields of its instance in AITER's
    words."""

    span: Span
    record: ImportedTiming
    fields: Fields


@dataclass(slots=True, kw_only=True)
class AuditedTable:
    """A table: how many `rows` it has, what was found, how many findings there are by code (more than are kept), and
    how many kernels were not judged, by why."""

    path: str
    kind: Kind = "other"
    rows: int = 0
    findings: list[Diagnostic] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    not_judged: Counter[str] = field(default_factory=Counter)
    judged: int = 0


def known_part(name: str) -> Part | None:
    """Return the arch and the compute units of a part, `MI300X` or `gfx942:304`; None for others."""
    arch, _, units = name.partition(":")
    if arch.startswith("gfx") and re.fullmatch(r"[1-9][0-9]{0,4}", units):
        return arch, int(units)
    named = {"MI325X": "MI300X", "MI350X": "MI355X"}.get(name.upper(), name.upper())
    return next((part for part, known in PARTS.items() if known == named), None)


class TableAudit:
    """Audits tables one after the other; those that AITER merges are compared with each other.

    With `part`, rows of others are reported. `sample`: how many rows are chosen from all, by `seed`, to be built. With
    `predicted`, rows are compared with what kernels of neighbours would take.
    """

    def __init__(
        self, part: Part | None = None, sample: int = 0, seed: int = 0, predicted: Predicted | None = None
    ) -> None:
        self.part = part
        self.predicted = predicted
        self._wanted = sample
        self._random = random.Random(seed)  # noqa: S311  # no secret
        self._seen = 0
        self._keys: dict[tuple[str, str], dict[tuple[str, ...], tuple[str, int, int]]] = defaultdict(dict)
        self.sampled: list[SampledRow] = []

    def table(self, path: str, content: bytes, registry: Registry | None = None) -> AuditedTable:
        """Audit the table that is the file at `path`. `registry`: the kernels of its checkout; without one no name is
        judged."""
        table = AuditedTable(path=path)
        text = _text(table, content)
        if text is not None:
            _Rows(self, table, text, registry).read()
        return table

    def duplicate_of(
        self, table: AuditedTable, key: tuple[str, ...], line: int, row: int
    ) -> tuple[str, int, bool] | None:
        """Return the path and the line of an earlier row with the same key, and whether all of it is the same."""
        folder, _, name = table.path.rpartition("/")
        merged = next((one for one in _MERGED if one in name), name)
        keys = self._keys[folder.removesuffix("/model_configs"), merged]
        earlier = keys.setdefault(key, (table.path, line, row))
        return None if earlier == (table.path, line, row) else (earlier[0], earlier[1], earlier[2] == row)

    def offer(self, row: SampledRow) -> None:
        """Take a row into the sample, each with the same probability."""
        self._seen += 1
        if len(self.sampled) < self._wanted:
            self.sampled.append(row)
        elif self._wanted and (at := self._random.randrange(self._seen)) < self._wanted:
            self.sampled[at] = row


def _text(table: AuditedTable, content: bytes) -> str | None:
    why = ""
    if content[:2] == b"\x1f\x8b":
        why = "it is compressed: AITER reads tables as text; unpack it with gunzip"
    elif len(content) > LARGEST_BYTES:
        why = f"it has {len(content):,} bytes, and a table at most {LARGEST_BYTES:,}"
    elif not content.strip(b"\xef\xbb\xbf \t\r\n"):
        why = "it is empty: write at least the line of column names"
    if why:
        report(table, "table", Severity.ERROR, why, _place(table, 0))
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        line = before.count("\n")
        column = len(before) - before.rfind("\n") - 1
        report(table, "table", Severity.ERROR, "it is not text in UTF-8: save it as such", _place(table, line, column))
        return None
    if text.startswith("\ufeff"):
        message = "the file begins with a byte order mark; save it as UTF-8 without one"
        report(table, "format", Severity.INFORMATION, message, _place(table, 0))
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r"))
        message = "lines end with CR: write LF alone, as AITER's tables do, or each line counts as changed in git"
        report(table, "format", Severity.INFORMATION, message, _place(table, line))
    return text.removeprefix("\ufeff")


def _place(table: AuditedTable, line: int, column: int = 0, end: int | None = None) -> Span:
    return Span(table.path, Position(line, column), Position(line, column if end is None else end))


def report(
    table: AuditedTable, code: str, severity: Severity, message: str, span: Span, related: Sequence[Related] = ()
) -> None:
    """Count a finding, and keep it while there are few of its kind."""
    code = f"audit/{code}"
    table.counts[code] += 1
    if table.counts[code] <= KEPT:
        table.findings.append(Diagnostic(severity, Source.AUDIT, code, message, span, tuple(related)))


class _Lines:
    """Lines of a text, of which the last is remembered."""

    def __init__(self, text: str) -> None:
        self._lines = io.StringIO(text, newline="")
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.last = line
            yield line


def cell_bounds(line: str, wanted: int) -> tuple[int, int]:
    """Return where a cell begins and ends in a line of CSV; the line's end for one that it lacks."""
    at = start = 0
    number = 0
    quoted = False
    bare = line.rstrip("\r\n")
    for at, character in enumerate(bare):
        if character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            if number == wanted:
                return start, at
            number, start = number + 1, at + 1
    return (start, len(bare)) if number == wanted else (len(bare), len(bare))


class _Rows:
    """The rows of one table."""

    def __init__(self, audit: TableAudit, table: AuditedTable, text: str, registry: Registry | None) -> None:
        self._audit = audit
        self._registry = registry
        self._table = table
        self._lines = _Lines(text)
        self._reader = csv.reader(iter(self._lines))
        self._names: list[str] = []
        self._columns: Mapping[str, int] = {}
        self._at: dict[str, int] = {}
        self._keys: list[int] = []
        self._sizes: dict[tuple[str, ...], list[tuple[int, float, int, str]]] = defaultdict(list)
        self._known: dict[tuple[str, ...], list[tuple[ImportedTiming, int, str]]] = defaultdict(list)

    def read(self) -> None:
        """Judge all rows."""
        while True:
            try:
                row = next(self._reader, None)
            except csv.Error as error:
                self._report("row", Severity.ERROR, f"it is not CSV: {error}")
                continue
            if row is None:
                break
            if not any(cell.strip() for cell in row):
                continue
            if not self._names:
                if not self._head(row):
                    return
                continue
            self._table.rows += 1
            self._row(row)
        self._larger_ones_that_take_less()
        if self._audit.predicted is not None:
            self._beaten_by_prediction(self._audit.predicted)

    def _report(
        self, code: str, severity: Severity, message: str, column: str = "", related: Sequence[Related] = ()
    ) -> None:
        start, end = 0, len(self._lines.last.rstrip("\r\n"))
        if column:
            start, end = cell_bounds(self._lines.last, self._at.get(column, 0))
        place = _place(self._table, max(self._reader.line_num - 1, 0), start, end)
        report(self._table, code, severity, message, place, related)

    def _head(self, row: Sequence[str]) -> bool:
        names = [cell.strip() for cell in row]
        if names[0].startswith(_MARKERS):
            self._report("row", Severity.ERROR, "a merge conflict was left here: resolve it")
            return False
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            self._at = {twice: len(names) - 1 - names[::-1].index(twice)}
            self._report("table", Severity.ERROR, f"it has two columns `{shown(twice)}`: remove one", twice)
            return False
        self._names = names
        self._at = {name: at for at, name in enumerate(names)}
        sizes = sum(name in self._at or name.lower() in self._at for name in "MNK")
        if sizes >= 2 and not self._at.keys().isdisjoint(_NAMED_BY):
            self._table.kind = "gemm"
            try:
                self._columns = columns_of(names)
            except TimingsFileError as error:
                self._report("table", Severity.ERROR, f"{error}: add it, or tune again")
                return False
            self._at |= {key: at for key, at in self._columns.items() if key not in self._at}
        elif self._at.keys() >= set(_MOE[:3]):
            self._table.kind = "moe"
            if missing := [name for name in (*_MOE, "kernelName1") if name not in self._at]:
                needed = ", ".join(f"`{name}`" for name in missing)
                self._report("table", Severity.ERROR, f"it has no column {needed}: add it, or tune again")
                return False
        else:
            message = "this is not a table of GEMMs (M, N, K) or MoE (token, model_dim, …): its rows are not judged"
            self._report("not-judged", Severity.INFORMATION, message)
        self._keys = [at for name, at in self._at.items() if name in _KEYS and at < len(names) and names[at] == name]
        return True

    def _cell(self, row: Sequence[str], name: str) -> str:
        at = self._at.get(name)
        return row[at].strip() if at is not None and at < len(row) else ""

    def _row(self, row: Sequence[str]) -> None:
        if row[0].startswith(_MARKERS):
            self._report("row", Severity.ERROR, "a merge conflict was left here: resolve it")
            return
        if len(row) != len(self._names):
            what = f"the row has {len(row)} cells, and the table {len(self._names)} columns"
            if len(row) > len(self._names):
                self._report("row", Severity.ERROR, f"{what}: AITER cannot read the table; remove the others")
                return
            self._report(
                "short-row", Severity.WARNING, f"{what}: those at the end count as empty; add commas, or cells"
            )
            row = [*row, *[""] * (len(self._names) - len(row))]
        if self._table.kind == "other":
            self._table.not_judged["tables of another kind"] += 1
            return
        arch, units = self._part_of(row)
        self._fits_part(arch, units)
        for name in _NAMES:
            if name in self._at:
                self._registered(row, name, arch)
        record = self._gemm(row) if self._table.kind == "gemm" else None
        if record is not None:
            self._computable(record, arch, self._but_for_m(row))
        elif self._table.kind == "moe":
            self._moe(row)
        self._error_ratio(row)
        self._duplicate(row)

    def _part_of(self, row: Sequence[str]) -> Part:
        text = self._cell(row, "units" if self._table.kind == "gemm" else "cu_num").removesuffix(".0")
        units = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
        return self._cell(row, "gfx") or next((known for known, count in PARTS if count == units), ""), units

    def _fits_part(self, arch: str, units: int) -> None:
        column = "units" if "units" in self._at else "cu_num" if "cu_num" in self._at else "gfx"
        wanted = self._audit.part
        if wanted is not None and arch and (arch, units or wanted[1]) != wanted:
            name = PARTS.get(wanted, f"{wanted[0]} with {wanted[1]} compute units")
            message = f"the row is for {arch} with {units} compute units, and the table for {name}: move it elsewhere"
            self._report("part", Severity.WARNING, message, column)
            return
        known = [(count, name) for (one, count), name in PARTS.items() if one == arch]
        if not arch and units:
            message = f"no known part has {units} compute units, and no column `gfx` says which arch it is: add it"
            self._report("part", Severity.WARNING, message, column)
        elif known and units and not any(count == parts * units for count, _ in known for parts in _PARTITIONS):
            names = ", ".join(f"{name} {count}" for count, name in known)
            message = f"no known part of {arch} has {units} compute units ({names}): correct gfx or cu_num"
            self._report("part", Severity.WARNING, message, column)

    def _registered(self, row: Sequence[str], column: str, arch: str) -> None:
        name = self._cell(row, column)
        listed = list_of(name)
        if not name or name == "Null":
            return
        if listed is None:
            self._table.not_judged[f"kernels of {self._cell(row, 'libtype') or shown(name).partition('_')[0]}"] += 1
            return
        registry = self._registry
        kernels = None if registry is None else registry.kernels(listed, name, arch)
        if registry is None or kernels is None:
            why = (
                "no checkout of AITER" if registry is None else f"{listed.path} cannot be read for {arch or 'no arch'}"
            )
            self._table.not_judged[why] += 1
            return
        self._table.judged += 1
        kernel = kernels.get(name)
        if kernel is None:
            others = registry.other_archs(listed, name, arch)
            where = f"; it is a kernel of {', '.join(others)}" if others else ""
            message = (
                f"AITER has no kernel `{name}` for {arch}{where}: tune {self._shape(row)} again, or remove the row"
            )
            self._report(
                "not-registered", Severity.ERROR, message, column, (Related(f"looked up in {listed.path}", None),)
            )
            return
        number_column = next((one for one in _NUMBERS if one in self._at), "")
        text = self._cell(row, number_column)
        if text.isascii() and text.isdigit() and kernel.numbers and not registry.takes_names(listed):
            self._numbered(int(text[:18]), number_column, listed, name, arch)

    def _numbered(self, number: int, column: str, listed: KernelList, name: str, arch: str) -> None:
        kernels = self._registry.kernels(listed, name, arch) if self._registry else None
        if kernels is None or number in kernels[name].numbers:
            return
        other = next((one for one, kernel in kernels.items() if number in kernel.numbers), None)
        own = " or ".join(map(str, sorted(kernels[name].numbers)))
        what = f"is `{other}`" if other else "is not a kernel"
        message = (
            f"AITER takes this kernel by its number, and {number} {what}; `{name}` is {own}: write that, or tune again"
        )
        self._report("kernel-number", Severity.ERROR, message, column, (Related(f"looked up in {listed.path}", None),))

    def _shape(self, row: Sequence[str]) -> str:
        names = _MOE if self._table.kind == "moe" else ("B", "M", "N", "K")
        return ", ".join(f"{name} = {self._cell(row, name)}" for name in names if self._cell(row, name))

    def _gemm(self, row: Sequence[str]) -> ImportedTiming | None:
        """Return what a row says, or None, and report why it says nothing."""
        if self._is_untimed(row):
            return None
        try:
            record = read_record(row, self._columns, self._of_table())
        except UnusableRowError as error:
            self._unusable(error)
            return None
        if why := beyond_peak(record) or _beyond_bandwidth(record):
            self._report("peak", Severity.ERROR, f"{why}: measure it again, or correct the part", "us")
        self._sizes[self._but_for_m(row)].append(
            (record.sizes["M"], record.time_us, self._reader.line_num - 1, self._lines.last)
        )
        return record

    def _but_for_m(self, row: Sequence[str]) -> tuple[str, ...]:
        """The key of a row without M."""
        return tuple(row[at] for at in self._keys if self._names[at] not in ("M", "m"))

    def _is_untimed(self, row: Sequence[str]) -> bool:
        if self._cell(row, "us").strip("0.") or not self._cell(row, "us"):
            return False
        message = "us is 0: it was not measured, and where AITER keeps the fastest row this one wins; measure it"
        self._report("untimed", Severity.WARNING, message, "us")
        return True

    def _of_table(self) -> str:
        name = self._table.path.rpartition("/")[2]
        return next((one for one in ("a8w8", "a4w4", "bf16") if one in name), "")

    def _computable(self, record: ImportedTiming, arch: str, others: tuple[str, ...]) -> None:
        listed = list_of(record.instance)
        kernel = None
        if listed is not None and self._registry is not None:
            kernel = (self._registry.kernels(listed, record.instance, arch) or {}).get(record.instance)
        depth = tile_depth(kernel.fields) if kernel is not None and listed is not None and listed.log2 else 0
        slices = 2 ** _split(record)
        tiles = -(-record.sizes["K"] // depth) if depth else slices
        if (found := refusal(record)) is not None:
            code, reason = found
            message = f"`{record.instance}` computes nothing: {reason}; tune again"
            size = reason[0] if reason[1:4] == " = " and reason[0] in self._columns else "K"
            self._report(code, Severity.ERROR, message, "split" if code == "split" else size)
        elif tiles < slices:
            message = f"K = {record.sizes['K']} has {tiles} tiles of {depth}, too few for {slices} slices: lower splitK"
            self._report("split", Severity.WARNING, message, "split")
        elif record.parameters and kernel is not None:
            start, end = cell_bounds(self._lines.last, self._at["name"])
            place = _place(self._table, self._reader.line_num - 1, start, end)
            fields = {name: tuple(one) if isinstance(one, list) else one for name, one in kernel.fields.items()}
            self._audit.offer(SampledRow(place, record, fields))
            if self._audit.predicted is not None:
                self._known[others].append((record, self._reader.line_num - 1, self._lines.last))

    def _unusable(self, error: UnusableRowError) -> None:
        self._report("row", Severity.ERROR, f"{error}: correct it, or tune again", error.column)

    def _moe(self, row: Sequence[str]) -> None:
        cells = {name: self._cell(row, name) for name in (*_MOE, "us") if name in self._at}
        try:
            for name in _MOE:
                if name != "topk":  # -1 stands for any
                    whole_number(cells, name, 1, 2**31 - 1)
            if "us" in cells and not self._is_untimed(row):
                read_time_us(cells["us"])
        except UnusableRowError as error:
            self._unusable(error)

    def _error_ratio(self, row: Sequence[str]) -> None:
        for name, most in ERROR_RATIOS.items():
            text = self._cell(row, name)
            if not text:
                continue
            try:
                ratio = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
            except ValueError:
                ratio = -1.0
            if not 0 <= ratio <= 1:
                self._report(
                    "row", Severity.ERROR, f"{name} is `{shown(text)}`, no share from 0 to 1: tune again", name
                )
            elif ratio > most:
                message = f"{ratio:.1%} of the elements were wrong, and AITER's tuner accepts {most:.0%}: tune again"
                self._report("error-ratio", Severity.WARNING, message, name)

    def _duplicate(self, row: Sequence[str]) -> None:
        key = tuple(f"{self._names[at].lower()}={_plain(row[at])}" for at in self._keys)
        found = self._audit.duplicate_of(self._table, key, self._reader.line_num, hash(tuple(row)))
        if found is None:
            return
        path, line, same = found
        is_merged = any(one in self._table.path.rpartition("/")[2] for one in _MERGED)
        where = f"line {line}" if path == self._table.path else f"{path.rpartition('/')[2]}:{line}"
        earlier = Related("the other row", Span(path, Position(line - 1, 0), Position(line - 1, 0)))
        if same:
            self._report("duplicate", Severity.WARNING, f"the same row is at {where}: remove one", "", (earlier,))
        else:
            severity = Severity.ERROR if is_merged else Severity.WARNING
            why = "AITER refuses tables with two" if is_merged else "one of the two is never used"
            message = f"{where} is for the same key ({self._shape(row)}), and {why}: keep the faster"
            self._report("duplicate", severity, message, "", (earlier,))

    def _larger_ones_that_take_less(self) -> None:
        """Advise to look at products that take longer than one with a larger M."""
        for group in self._sizes.values():
            best: tuple[int, float, int, str] | None = None
            for one in sorted(group, key=lambda row: (-row[0], row[1])):
                m, time_us, line, text = one
                if best is not None and time_us > MARGIN * best[1] and m < best[0]:
                    start, end = cell_bounds(text, self._at["us"])
                    message = (
                        f"M = {m} takes {time_us:g} µs, and M = {best[0]} of line {best[2] + 1} {best[1]:g}: "
                        "tune it again, or pad M"
                    )
                    report(self._table, "slower", Severity.HINT, message, _place(self._table, line, start, end))
                if best is None or time_us < best[1]:
                    best = one

    def _beaten_by_prediction(self, predicted: Predicted) -> None:
        """Advise to look at rows that the kernel of a neighbour would beat: its time at the row's M is what it took at
        its own, by the ratio of what is predicted for both."""
        for group in self._known.values():
            rows = sorted(group, key=lambda row: row[0].sizes["M"])
            for at, (record, line, text) in enumerate(rows):
                m = record.sizes["M"]
                best: tuple[float, ImportedTiming, int] | None = None
                for other, where, _ in rows[max(at - NEIGHBOURS, 0) : at + NEIGHBOURS + 1]:
                    if other.instance == record.instance or other.sizes["M"] == m:
                        continue
                    here, there = predicted(other, m), predicted(other, other.sizes["M"])
                    ratio = here / there if here and there else record.time_us / other.time_us
                    expected = other.time_us * (max(ratio, 1.0) if m > other.sizes["M"] else ratio)
                    if expected * MARGIN < record.time_us and (best is None or expected < best[0]):
                        best = expected, other, where
                if best is not None:
                    expected, other, where = best
                    start, end = cell_bounds(text, self._at["us"])
                    message = (
                        f"M = {m} takes {record.time_us:g} µs; by prediction `{other.instance}`, which takes "
                        f"{other.time_us:g} at M = {other.sizes['M']} of line {where + 1}, would take {expected:.3g}: "
                        "tune it again"
                    )
                    report(self._table, "beaten", Severity.HINT, message, _place(self._table, line, start, end))


def _plain(cell: str) -> str:
    return cell.strip().removesuffix(".0")


def _split(record: ImportedTiming) -> int:
    """Return the logarithm of kBatch."""
    slices = int(record.runtime.get("kBatch", 0))
    return slices.bit_length() - 1 if slices else min(int(record.runtime.get("splitK", 0)), 30)


def _beyond_bandwidth(record: ImportedTiming) -> str:
    """Return why a time cannot be one of its part: what no cache holds is read from memory."""
    specs = part_specs(record.device)
    dtype = DTYPES.get(record.dtype)
    if specs is None or dtype is None:
        return ""
    sizes = record.sizes
    read = dtype.bytes_for(sizes["M"] * sizes["K"]) + dtype.bytes_for(sizes["K"] * sizes["N"])
    moved = sizes.get("B", 1) * (read + 2 * sizes["M"] * sizes["N"]) - specs.last_level_cache_bytes
    # MI325X and MI300X have the same compute units, and MI325X the faster memory
    bandwidth = 6.0 if record.device == "MI300X" else specs.bandwidth_tbs
    rate = moved / record.time_us / 1e6
    if rate <= bandwidth:
        return ""
    return (
        f"{record.time_us:g} µs would be {rate:.1f} TB/s beyond the cache, of which {record.device} has {bandwidth:g}"
    )
