"""AITER's tables of tuned GEMMs, `aiter/configs/*_tuned_gemm.csv`: the fastest kernel that its tuner found for a shape.

The columns have changed with AITER's versions: `cu_num` or `compute_units`, with or without `gfx`, `q_dtype_w` or
`dtype`, `kernelName` or `instance`, `splitK` or `splitK_log2`. All are taken, in any order, and others are passed over.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckwatch.bench.imports.records import PARTS, ImportedTiming, LeftOut, ReadTimings, TimingsFileError, shown
from ckwatch.checks.aiter_instances import LISTS, read_name
from ckwatch.model.gpu_specs import DeviceFacts, GpuSpecs, specs_of

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "M": ("M",),
    "N": ("N",),
    "K": ("K",),
    "us": ("us",),
    "name": ("kernelName", "instance"),
    "B": ("B", "batch"),
    "gfx": ("gfx",),
    "units": ("cu_num", "compute_units"),
    "split": ("splitK", "splitK_log2"),
    "dtype": ("q_dtype_w", "dtype"),
}
_NEEDED = ("M", "N", "K", "us", "name")

_DTYPES = (
    *((re.compile(r"float8_e4m3\w*|fp8"), "f8"), (re.compile(r"float8_e5m2\w*|bf8"), "bf8")),
    *((re.compile(r"int8|i8"), "i8"), (re.compile(r"bfloat16|bf16"), "bf16"), (re.compile(r"float16|fp16"), "f16")),
    *((re.compile(r"float4_e2m1\w*|fp4x2"), "f4"), (re.compile(r"float32|fp32"), "f32")),
)
"""Names of torch and of AITER."""

_DTYPE_OF_PREFIX = {"a8w8": "f8", "a4w4": "f4", "bf16": "bf16"}
_MOST_SPLITS_LOG2 = 20
_LARGEST_SIZE = 2**31 - 1


class UnusableRowError(ValueError):
    """A row says nothing: the message is why, and `column` the key of the cell."""

    def __init__(self, message: str, column: str = "") -> None:
        super().__init__(message)
        self.column = column


def read_aiter(text: str) -> ReadTimings:
    """The timings in a table of AITER's. Raises TimingsFileError for another text.

    A kernel's operation follows from the list that its name begins with, or else from the other names of the table. A
    time that would be more operations per second than the part's peak is no time of this product, and is left out.
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    records: list[ImportedTiming] = []
    left_out: list[LeftOut] = []
    columns: Mapping[str, int] | None = None
    while True:
        try:
            row = next(rows, None)
            if row is None:
                break
            if not any(cell.strip() for cell in row):
                continue
            if columns is None:
                columns = columns_of(row)
                continue
            record = read_record(row, columns)
            if why := beyond_peak(record):
                raise UnusableRowError(why)
            records.append(record)
        except (csv.Error, UnusableRowError) as error:
            left_out.append(LeftOut(rows.line_num, str(error)))
    if columns is None:
        raise TimingsFileError("it is empty")
    lists = {one.kernel for one in records if one.kernel}
    if len(lists) == 1:
        (known,) = lists
        records = [one if one.kernel else _of_list(one, known) for one in records]
    return ReadTimings(tuple(records), tuple(left_out))


def columns_of(row: Sequence[str]) -> Mapping[str, int]:
    """Return where the columns are in a table with this heading. Raises TimingsFileError where some are missing."""
    names = [cell.strip() for cell in row]
    names = [one.upper() if len(one) == 1 else one for one in names]
    found = {
        key: names.index(name)
        for key, spellings in _COLUMNS.items()
        if (name := next((one for one in spellings if one in names), None)) is not None
    }
    missing = [" or ".join(f"`{one}`" for one in _COLUMNS[key]) for key in _NEEDED if key not in found]
    if missing:
        raise TimingsFileError(f"it has no column {', '.join(missing)}")
    return found


def read_record(row: Sequence[str], columns: Mapping[str, int], of_table: str = "") -> ImportedTiming:
    """Return the timing in a row; `of_table` is the list that the table is about. Raises UnusableRowError."""
    cells = {key: row[at].strip() if at < len(row) else "" for key, at in columns.items()}
    name = cells["name"]
    if not name:
        raise UnusableRowError("no kernel is named", "name")
    sizes = {key: whole_number(cells, key, 1, _LARGEST_SIZE) for key in ("M", "N", "K")}
    named = read_name(name)
    of_list = "" if named is None else named.list
    batch = whole_number(cells, "B", 1, _LARGEST_SIZE) if cells.get("B") else 1
    if batch > 1 or "batched" in of_list.split("_"):
        sizes = {"B": batch, **sizes}
    arch, units = cells.get("gfx", ""), whole_number(cells, "units", 1, 10_000) if cells.get("units") else 0
    arch = arch or next((known for known, count in PARTS if count == units), "")
    part = PARTS.get((arch, units), "")
    split = whole_number(cells, "split", 0, _MOST_SPLITS_LOG2 if named else _LARGEST_SIZE) if cells.get("split") else 0
    return ImportedTiming(
        kernel=of_list,
        instance=name,
        time_us=read_time_us(cells["us"]),
        device=part or ", ".join(filter(None, (arch, f"{units} compute units" if units else ""))),
        arch=arch,
        parameters={} if named is None else named.parameters,
        sizes=sizes,
        # of Composable Kernel's instances it is the logarithm, of others their own affair
        runtime={"kBatch": 2**split} if named is not None else {"splitK": split} if split else {},
        dtype=_dtype(cells.get("dtype", "")) or _dtype_of(of_list or of_table),
    )


def beyond_peak(record: ImportedTiming) -> str:
    """Return why a time cannot be one of its part, empty where it can: more operations per second than its peak."""
    specs = part_specs(record.device)
    peak = None if specs is None else specs.peak_tflops.get(record.dtype)
    rate = 2 * math.prod(record.sizes.values()) / record.time_us / 1e6
    if peak is None or rate <= peak:
        return ""
    return f"{record.time_us:g} µs would be {rate:,.0f} TFLOP/s, of which {record.device} has {peak:,.0f}"


def _of_list(record: ImportedTiming, name: str) -> ImportedTiming:
    return replace(record, kernel=name, dtype=record.dtype or _dtype_of(name))


def whole_number(cells: Mapping[str, str], key: str, least: int, most: int) -> int:
    """Return the number in a cell. Raises UnusableRowError."""
    text = cells.get(key, "")
    # pandas writes whole numbers of a column that lacks some as 16.0
    digits = text.removesuffix(".0")
    is_whole = digits.isascii() and digits.isdigit()
    number = -1 if not is_whole else int(digits) if len(digits) < 19 else most + 1
    if not least <= number <= most:
        column = " or ".join(_COLUMNS.get(key, (key,)))
        wrong = f"{column} is `{shown(text)}`, no whole number from {least}" + (f" to {most}" if number > most else "")
        raise UnusableRowError(wrong if text else f"{column} is empty", key)
    return number


def read_time_us(text: str, column: str = "us") -> float:
    """Return the time in a cell. Raises UnusableRowError."""
    try:
        time_us = float(text)
    except ValueError:
        message = f"{column} is `{shown(text)}`, no time" if text else f"{column} is empty"
        raise UnusableRowError(message, column) from None
    if not (math.isfinite(time_us) and time_us > 0):
        raise UnusableRowError(f"{column} is `{shown(text)}`, no time", column)
    return time_us


def _dtype(text: str) -> str:
    name = text.rpartition(".")[2]
    if not name:
        return ""
    found = next((dtype for pattern, dtype in _DTYPES if pattern.fullmatch(name)), None)
    if found is None:
        raise UnusableRowError(f"unknown dtype `{shown(text)}`", "dtype")
    return found


def _dtype_of(of_list: str) -> str:
    """Return the dtype that AITER's tuner multiplied if its table does not name it: `csrc/ck_*/*_tune.py` of 0.1.7."""
    family = LISTS.get(of_list)
    if family is not None:
        return str(next(iter(family.operations.values()))["a"]["dtype"])
    return _DTYPE_OF_PREFIX.get(of_list.partition("_")[0], "")


@functools.cache
def part_specs(part: str) -> GpuSpecs | None:
    """Return a part's data sheet, with the peaks at its specified clock; None for parts that are not in `PARTS`. MI308X
    is an MI300X with 80 of its compute units."""
    arch, units = next((key for key, name in PARTS.items() if name == part), ("", 0))
    described = "MI300X" if part == "MI308X" else part
    return specs_of(DeviceFacts(name="hip:0", description=described, arch=arch, compute_units=units)) if arch else None
