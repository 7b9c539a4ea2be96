"""Shapes of GEMMs from logs and traces, with how often each was called.

The content says which of these a file is:

- a trace of PyTorch's profiler (`record_shapes=True`, `export_chrome_trace`): the sizes of `aten::mm`, `addmm`, `bmm`,
  `baddbmm`, `_scaled_mm` and `_int_mm`, by which linear layers and products end;
- lines that call `hipblaslt-bench` or `rocblas-bench`, as `HIPBLASLT_LOG_MASK=32` and `ROCBLAS_LAYER=2` print them;
  these libraries count in columns, so that their m and n are N and M of a row-major GEMM;
- CSV with columns M, N, K, and if there are any B and count;
- JSON, an array or one object a line, with the same keys.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import INT32_MAX

SIZES = ("B", "M", "N", "K")

PRODUCTS: Mapping[str, tuple[int, int]] = {
    "aten::mm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::bmm": (0, 1),
    "aten::baddbmm": (1, 2),
    "aten::_scaled_mm": (0, 1),
    "aten::_int_mm": (0, 1),
}
"""Operators of PyTorch, with the places of the two factors among their inputs."""

COUNT = ("count", "calls", "weight")


@dataclass(frozen=True, slots=True)
class LoggedShape:
    """Sizes (M, N, K, and B of several matrices) and how often they were called."""

    sizes: Mapping[str, int]
    count: int

    @property
    def name(self) -> str:
        """`1x4096x512`."""
        return "x".join(map(str, self.sizes.values()))


def read_shape_log(text: str, path: str) -> tuple[LoggedShape, ...]:
    """The distinct shapes of a log, the most frequent first. Raises CkwatchError where nothing can be read."""
    counts: Counter[tuple[int, ...]] = Counter()
    for sizes, count in _rows(text.removeprefix("\ufeff"), path):
        counts[sizes] += count
    if not counts:
        raise CkwatchError(f"{path} has no shape of a GEMM", "see docs/tuning.md for what is read")
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(LoggedShape(dict(zip(SIZES[-len(own) :], own, strict=True)), count) for own, count in ordered)


def _rows(text: str, path: str) -> Iterator[tuple[tuple[int, ...], int]]:
    start = text.lstrip()[:1]
    if start in ("{", "["):
        yield from _json_rows(text, path)
    elif "-bench " in text:
        yield from _bench_rows(text, path)
    else:
        try:
            yield from _csv_rows(text, path)
        except csv.Error as error:
            raise CkwatchError(f"{path} is not CSV: {error}") from None


def _json_rows(text: str, path: str) -> Iterator[tuple[tuple[int, ...], int]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        whole = error
        content = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                content += [json.loads(line)] if line.strip() else []
            except (ValueError, RecursionError):
                where = f"{path}:{whole.lineno}" if isinstance(whole, json.JSONDecodeError) and number == 1 else ""
                raise CkwatchError(
                    f"{where or f'{path}:{number}'} is not JSON: {whole if where else line[:60]}"
                ) from None
    if isinstance(content, dict) and isinstance(content.get("traceEvents"), list):
        yield from _trace_rows(content["traceEvents"])
        return
    for number, one in enumerate(content if isinstance(content, list) else [content], 1):
        if not isinstance(one, dict):
            raise CkwatchError(f"{path}: entry {number} is not an object with M, N and K")
        yield _row(one, f"{path}: entry {number}")


def _trace_rows(events: Sequence[Any]) -> Iterator[tuple[tuple[int, ...], int]]:
    for event in events:
        factors = PRODUCTS.get(event.get("name", "")) if isinstance(event, dict) else None
        arguments = event.get("args") if factors is not None else None
        dims = arguments.get("Input Dims") if isinstance(arguments, dict) else None
        if factors is None or not isinstance(dims, list) or len(dims) <= max(factors):
            continue
        left, right = (dims[place] for place in factors)
        if not (_are_sizes(left) and _are_sizes(right) and len(left) == len(right) and len(left) in (2, 3)):
            continue
        sizes = (*left[:-1], right[-1], left[-1])
        if left[-1] == right[-2] and min(sizes) > 0:
            yield sizes, 1


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)


def _bench_rows(text: str, path: str) -> Iterator[tuple[tuple[int, ...], int]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not any(word.endswith("-bench") for word in words):
            continue
        given = dict(pairwise(words))
        own: dict[str, Any] = {
            size: next((given[option] for option in options if option in given), None)
            for size, options in (("M", ("-n", "--sizen")), ("N", ("-m", "--sizem")), ("K", ("-k", "--sizek")))
        }
        if None in own.values():
            continue
        batches = given.get("--batch_count", "1")
        own |= {"B": batches} if batches != "1" else {}
        yield _row(own, f"{path}:{number}")


def _csv_rows(text: str, path: str) -> Iterator[tuple[tuple[int, ...], int]]:
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    heads = [name.strip().upper() for name in next(reader, ())]
    missing = [size for size in "MNK" if size not in heads]
    if missing:
        raise CkwatchError(
            f"{path}:1: no column {', '.join(missing)}",
            "a log has columns M, N, K with commas between them, or is a trace: see docs/tuning.md",
        )
    wanted = {name: heads.index(name.upper()) for name in (*SIZES, *COUNT) if name.upper() in heads}
    if twice := [name for name in wanted if heads.count(name.upper()) > 1]:
        raise CkwatchError(f"{path}:1: two columns are called {twice[0]}", "leave one out")
    alike: Counter[tuple[str, ...]] = Counter()  # logs repeat themselves
    lines: dict[tuple[str, ...], int] = {}
    for row in reader:
        if row:
            own = tuple(row[place] if place < len(row) else "" for place in wanted.values())
            alike[own] += 1
            lines.setdefault(own, reader.line_num)
    for own, number in alike.items():
        sizes, count = _row(dict(zip(wanted, own, strict=True)), f"{path}:{lines[own]}")
        yield sizes, count * number


def _row(given: Mapping[str, Any], where: str) -> tuple[tuple[int, ...], int]:
    """The sizes and the count of a row. Raises CkwatchError."""
    own = {str(name).upper(): value for name, value in given.items()}
    sizes = tuple(
        _integer(own.get(size), f"{where}: {size}", INT32_MAX)
        for size in SIZES
        if size != "B" or own.get("B") not in (None, "")
    )
    count = next((value for name in COUNT if (value := own.get(name.upper())) not in (None, "")), 1)
    return sizes, _integer(count, f"{where}: count", 10**15)


def _integer(value: object, where: str, limit: int) -> int:
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not (1 <= number <= limit and number == int(number)):
        what = "is missing" if value in (None, "") else f"is {value!r}"
        raise CkwatchError(f"{where} {what}: expected a whole number from 1 to {limit}")
    return int(number)
