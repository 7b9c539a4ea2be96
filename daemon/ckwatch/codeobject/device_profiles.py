"""Reads profiles that rocprofv3 and ncu write; ncu's pages by `ncu_pages`, rocpd databases by `tools.rocpd`.

PC sampling: "Using PC sampling" of rocprofiler-sdk's documentation. Each row is a sample: the instruction at which a
wave was, its source line as a comment `PATH:LINE` where the code object has line tables, and with stochastic sampling
whether it was issued and why not. In JSON instructions and comments are strings that samples refer to by `inst_index`,
-1 for code that the tool does not know.

Thread trace: `code.json` of a `ui_output` folder, a row per instruction with the columns that its `header` names: how
often it was executed, with cycles, or samples of it, with their stalls by reason in the order of
`rocprofiler_pc_sampling_instruction_not_issued_reason_t` (rocprofiler-sdk's `pc_sampling.h`).

Counters: in CSV a row for each launch and counter; in JSON `counter_collection` has for each launch a record for each
instance of a counter. "Kernel counter collection" of "Using rocprofv3".
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ckwatch.codeobject import ncu_pages
from ckwatch.codeobject.launch_counters import LaunchCounters
from ckwatch.model.device_profiles import (
    COUNTERS,
    HOST_TRAP,
    STOCHASTIC,
    THREAD_TRACE,
    DeviceProfile,
    MeasuredKernel,
    NoProfileError,
    ProfiledPlace,
)
from ckwatch.model.lazy_dataclass import dataclass

_COMMENT = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?::\d+)?$")
_REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
_CSV_COLUMNS = ("Instruction", "Instruction_Comment")
_ALL_LANES = (1 << 64) - 1
_COUNTER_COLUMNS = ("Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value")
_CODE_COLUMNS = ("ISA", "Source", "Vaddr", "Hit", "Latency")
_REASONS = (
    *("not said", "no instruction available", "alu dependency", "waitcnt", "internal instruction", "barrier wait"),
    *("arbiter not win", "arbiter win ex stall", "other wait", "sleep wait"),
)


def read_profile(content: bytes) -> DeviceProfile:
    """The profile in a text file. Raises NoProfileError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NoProfileError(
            "it is not text; name a CSV or JSON file or rocpd database of rocprofv3, a trace's code.json, or ncu's CSV"
        ) from None
    try:
        if ncu_pages.is_page(text):
            return ncu_pages.read_page(text)
        if not text.lstrip().startswith("{"):
            return _of_csv(text)
    except csv.Error as error:
        raise NoProfileError(f"it is not CSV: {error}") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoProfileError(f"it is not JSON: {error}") from None
    if isinstance(found.get("code"), list):
        return _of_code(found)
    if isinstance(found.get("rocprofiler-sdk-tool"), list):
        return _of_tool(found["rocprofiler-sdk-tool"])
    raise NoProfileError("it has neither `rocprofiler-sdk-tool`, of rocprofv3, nor `code`, of a thread trace")


@dataclass(slots=True)
class _Samples:
    """Samples by instruction and line."""

    samples: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    issued: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    lanes: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    stalls: dict[tuple[Any, ...], Counter[str]] = field(default_factory=dict)

    def add(self, key: tuple[Any, ...], mask: int, issued: bool | None, reason: str) -> None:
        self.samples[key] += 1
        self.lanes[key] += mask.bit_count()
        if issued:
            self.issued[key] += 1
        elif issued is not None:
            self.stalls.setdefault(key, Counter())[reason_words(reason)] += 1

    def places(self) -> Iterator[ProfiledPlace]:
        for key, count in self.samples.most_common():
            text, comment, address, kernel = key
            path, line = place_of(comment)
            yield ProfiledPlace(
                text=text,
                path=path,
                line=line,
                address=address,
                kernel=kernel,
                samples=count,
                issued=self.issued[key],
                lanes=self.lanes[key],
                stalls=dict(self.stalls.get(key, Counter()).most_common()),
            )


def reason_words(reason: str) -> str:
    """`ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_WAITCNT` → `waitcnt`."""
    return reason.removeprefix(_REASON).replace("_", " ").lower() or "not said"


def place_of(comment: str) -> tuple[str, int | None]:
    """The path and line (from zero) of a comment; "" and None for one that names none."""
    found = _COMMENT.match(comment.strip())
    return (found["path"], int(found["line"]) - 1) if found is not None and int(found["line"]) else ("", None)


def _of_csv(text: str) -> DeviceProfile:
    rows = csv.DictReader(io.StringIO(text))
    names = rows.fieldnames or ()
    if "Counter_Name" in names:
        return _of_counter_rows(rows, names)
    if missing := [name for name in _CSV_COLUMNS if name not in names]:
        raise NoProfileError(f"it has no column {missing[0]}, which rocprofv3's PC sampling has")
    return sampled_rows(rows, stochastic="Stall_Reason" in names)


def _of_counter_rows(rows: Iterable[Mapping[str, str]], names: Sequence[str]) -> DeviceProfile:
    if missing := [name for name in _COUNTER_COLUMNS if name not in names]:
        raise NoProfileError(f"it has no column {missing[0]}, which rocprofv3's counters have")
    found, broken = LaunchCounters(), 0
    for row in rows:
        try:
            launch = (row.get("Process_Id"), row.get("Agent_Id"), row["Dispatch_Id"])
            value = float(row["Counter_Value"])
            times = row.get("Start_Timestamp"), row.get("End_Timestamp")
            time_ns = int(times[1]) - int(times[0]) if times[0] and times[1] else None
            found.add(launch, row["Kernel_Name"], row["Counter_Name"], value, time_ns)
        except (ValueError, TypeError):
            broken += 1
    return _counted(found.kernels(), broken)


def _counted(kernels: tuple[MeasuredKernel, ...], broken: int) -> DeviceProfile:
    notes = (f"{broken} values of counters could not be read",) if broken else ()
    return DeviceProfile(method=COUNTERS, unit="samples", places=(), kernels=kernels, notes=notes)


def sampled_rows(rows: Iterable[Mapping[str, Any]], *, stochastic: bool) -> DeviceProfile:
    """The profile of samples with the columns of rocprofv3's CSV."""
    found = _Samples()
    broken = 0
    for row in rows:
        try:
            mask = int(row.get("Exec_Mask") or 0) & _ALL_LANES  # SQLite's integers have a sign
            issued = bool(int(row["Wave_Issued_Instruction"])) if stochastic else None
            key = (row["Instruction"].strip(), row["Instruction_Comment"] or "", None, "")
        except (ValueError, TypeError, AttributeError, KeyError):
            broken += 1
            continue
        found.add(key, mask, issued, row.get("Stall_Reason") or "")
    return _sampled(STOCHASTIC if stochastic else HOST_TRAP, found, broken)


def _of_tool(tools: Sequence[Any]) -> DeviceProfile:
    found, broken, methods = _Samples(), 0, set()
    counters = LaunchCounters()
    uncounted = sum(_add_counters(counters, number, _table(tool)) for number, tool in enumerate(tools))
    for tool in tools:
        records, strings = _table(_table(tool).get("buffer_records")), _table(_table(tool).get("strings"))
        texts, comments = (_rows(strings.get(f"pc_sample_{what}")) for what in ("instructions", "comments"))
        kernels = _kernels(_table(tool), records)
        for method, name in ((HOST_TRAP, "pc_sample_host_trap"), (STOCHASTIC, "pc_sample_stochastic")):
            for sample in _rows(records.get(name)):
                methods.add(method)
                try:
                    at, record = int(sample["inst_index"]), sample["record"]
                    known = 0 <= at < len(texts)
                    counter = _table(record.get("pc"))
                    offset = counter.get("code_object_offset")
                    key = (
                        str(texts[at]) if known else "",
                        str(comments[at]) if known and at < len(comments) else "",
                        None if offset is None else int(offset),
                        kernels.get(str(record.get("dispatch_id")), ""),
                    )
                    issued = bool(record["wave_issued"]) if method is STOCHASTIC else None
                    reason = _table(record.get("snapshot")).get("stall_reason") or record.get("stall_reason") or ""
                    found.add(key, int(record.get("exec_mask") or 0), issued, str(reason))
                except (KeyError, TypeError, ValueError, AttributeError):
                    broken += 1
    if not methods and not counters:
        raise NoProfileError(
            "it has no samples and no counters: `rocprofv3 --pc-sampling-beta-enabled` and `--pmc` take them"
        )
    counted = _counted(counters.kernels(), uncounted)
    if not methods:
        return counted
    sampled = _sampled(", ".join(sorted(methods)), found, broken)
    return replace(sampled, kernels=counted.kernels, notes=(*sampled.notes, *counted.notes))


def _add_counters(found: LaunchCounters, process: int, tool: Mapping[str, Any]) -> int:
    """Add the counters of a process's launches; return how many could not be read."""
    names = {
        str(_table(one.get("id")).get("handle")): str(one.get("name"))
        for one in map(_table, _rows(tool.get("counters")))
    }
    kernels, broken = _symbol_names(tool), 0
    for launch in map(_table, _rows(_table(tool.get("callback_records")).get("counter_collection"))):
        data = _table(launch.get("dispatch_data"))
        info = _table(data.get("dispatch_info"))
        for record in map(_table, _rows(launch.get("records"))):
            try:
                counter = names[str(_table(record.get("counter_id"))["handle"])]
                number, kernel = int(info["dispatch_id"]), kernels.get(str(info.get("kernel_id")), "")
                begin, end = data.get("start_timestamp"), data.get("end_timestamp")
                time_ns = int(end) - int(begin) if begin and end else None
                found.add((process, number), kernel, counter, float(record["value"]), time_ns)
            except (KeyError, TypeError, ValueError):
                broken += 1
    return broken


def _kernels(tool: Mapping[str, Any], records: Mapping[str, Any]) -> dict[str, str]:
    """By dispatch, the readable names of kernels."""
    names = _symbol_names(tool)
    dispatches = [_table(_table(one).get("dispatch_info")) for one in _rows(records.get("kernel_dispatch"))]
    return {str(one.get("dispatch_id")): names.get(str(one.get("kernel_id")), "") for one in dispatches}


def _symbol_names(tool: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(one.get("kernel_id")): str(one.get("formatted_kernel_name") or one.get("kernel_name") or "")
        for one in map(_table, _rows(tool.get("kernel_symbols")))
    }


def _table(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _rows(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _sampled(method: str, found: _Samples, broken: int) -> DeviceProfile:
    places = tuple(found.places())
    notes = [f"{broken} samples could not be read"] if broken else []
    if unknown := sum(one.samples for one in places if not one.text):
        notes.append(f"{unknown} samples are of code that the tool did not know")
    if without := sum(one.samples for one in places if one.text and one.line is None):
        total = sum(found.samples.values())
        notes.append(f"{without} of {total} samples have no source line: the code object has no line tables")
    return DeviceProfile(method=method, unit="samples", places=places, notes=tuple(notes))


def _of_code(found: Mapping[str, Any]) -> DeviceProfile:
    header = found.get("header")
    columns = {name: at for at, name in enumerate(header)} if isinstance(header, list) else {}
    if isinstance(header, str):
        columns = {name.strip(): at for at, name in enumerate(header.split(","))}
    if missing := [name for name in _CODE_COLUMNS if name not in columns]:
        raise NoProfileError(f"its header has no {missing[0]}, which a thread trace's code.json has")
    places, broken, kernel = [], 0, ""

    def number(row: list[Any], name: str) -> int:
        return int(row[columns[name]]) if name in columns else 0

    for row in found["code"]:
        try:
            text = str(row[columns["ISA"]])
            if text.startswith(";"):  # the head of a function
                kernel = str(row[columns["Source"]]) or text.removeprefix(";").strip()
                continue
            path, line = place_of(str(row[columns["Source"]]))
            issued = number(row, "PC_Issued")
            reasons = row[columns["Stall_Reasons"]] if "Stall_Reasons" in columns else ()
            places.append(
                ProfiledPlace(
                    text=text,
                    path=path,
                    line=line,
                    address=number(row, "Vaddr"),
                    kernel=kernel,
                    samples=issued + number(row, "PC_Stalled"),
                    issued=issued,
                    stalls={reason: int(count) for reason, count in zip(_REASONS, reasons, strict=False) if count},
                    hits=number(row, "Hit"),
                    latency=number(row, "Latency"),
                    stalled=number(row, "Stall"),
                    idle=number(row, "Idle"),
                )
            )
        except (IndexError, ValueError, TypeError):
            broken += 1
    traced = any(one.latency for one in places)
    profile = DeviceProfile(
        method=THREAD_TRACE if traced else f"{STOCHASTIC}, of a trace's code.json",
        unit="cycles" if traced else "samples",
        places=tuple(places),
    )
    notes = [f"{broken} rows could not be read"] if broken else []
    if without := sum(profile.weight(one) for one in places if one.line is None):
        notes.append(f"{without} of {profile.total} {profile.unit} have no source line")
    return replace(profile, notes=tuple(notes))
