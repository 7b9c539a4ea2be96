"""Results of Kernel Tuner: its cache files, and its files in the T4 format of the FAIR toolchain.

A cache file (`kernel_tuner.util.process_cache` of 1.5) is one object with a `cache` of configurations; the brackets
that close it are missing where tuning was interrupted. A T4 file (`kernel_tuner.file_utils.get_t4_results`) is an
object with `results`; it names neither the kernel nor the device. Times are in milliseconds in both.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ckwatch.bench.imports.records import ImportedTiming, LeftOut, ReadTimings, TimingsFileError, arch_of, shown
from ckwatch.model.kernels import ParameterValue

_AXES = ("x", "y", "z")
_TIMES_US = {"ms": 1e3, "milliseconds": 1e3, "us": 1.0, "microseconds": 1.0, "s": 1e6, "seconds": 1e6, "ns": 1e-3}
_LONGEST = 1e300
_T4_FAILURES = ("timeout", "compile", "runtime", "correctness", "constraints")


class _UnusableResultError(ValueError):
    """A result that says nothing; the message is why."""


def read_kernel_tuner(text: str, kernel: str = "", device: str = "") -> ReadTimings:
    """The timings in a file of Kernel Tuner's. Raises TimingsFileError for another text.

    `kernel`: which kernel here they are about, by default that of the name in the file. `device`: where they were
    measured, for a file that does not say it. Configurations that failed are counted by how they did.
    """
    content = _object(text.removeprefix("\ufeff"))
    if isinstance(content.get("cache"), dict):
        return _read_cache(text, content, kernel, device)
    if isinstance(content.get("results"), list):
        if not kernel:
            raise TimingsFileError("it does not name its kernel")
        return _read_t4(content, kernel, device)
    raise TimingsFileError("it has neither `cache` nor `results`")


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = _json(text)
    except (ValueError, RecursionError) as error:
        try:
            found = _json(text.rstrip().rstrip(",") + "}\n}")
        except (ValueError, RecursionError):
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise TimingsFileError(f"it is not JSON: {why}") from None
    if not isinstance(found, dict):
        raise TimingsFileError("it is not a JSON object")
    return found


def _json(text: str) -> Any:
    """Python's JSON, with an infinite number for an integer that is too long to be read."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 400 else float(digits))


def _read_cache(text: str, content: Mapping[str, Any], kernel: str, device: str) -> ReadTimings:
    named = str(content.get("kernel_name") or "")
    keys = content.get("tune_params_keys")
    where = str(content.get("device_name") or device)
    arch, sizes, for_kernel = arch_of(where), _sizes(content.get("problem_size")), kernel or named
    if not for_kernel:
        raise TimingsFileError("it does not name its kernel")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise TimingsFileError("it has no `tune_params_keys`")
    records: list[ImportedTiming] = []
    left_out: list[LeftOut] = []
    failed: Counter[str] = Counter()
    at = line = 0
    for key, result in content["cache"].items():
        place = text.find(json.dumps(key), at)  # each configuration has a line of its own
        line, at = (line, at) if place < 0 else (line + text.count("\n", at, place), place)
        try:
            if not isinstance(result, dict):
                raise _UnusableResultError(f"the result of `{shown(key)}` is not an object")
            time = result.get("__error__", result.get("time"))
            if isinstance(time, str):
                failed[shown(time)] += 1
                continue
            missing = [name for name in keys if name not in result]
            if missing:
                raise _UnusableResultError(f"`{shown(key)}` has no value for {shown(', '.join(missing))}")
            records.append(
                ImportedTiming(
                    kernel=named,
                    instance=key,
                    time_us=_time_us(time, 1e3),
                    device=where,
                    arch=arch,
                    parameters={name: _value(name, result[name]) for name in keys},
                    sizes=sizes,
                    for_kernel=for_kernel,
                )
            )
        except _UnusableResultError as error:
            left_out.append(LeftOut(line + 1, str(error)))
    return ReadTimings(tuple(records), tuple(left_out), dict(failed))


def _read_t4(content: Mapping[str, Any], kernel: str, device: str) -> ReadTimings:
    metadata = content.get("metadata")
    unit = metadata.get("timeunit") if isinstance(metadata, dict) else None
    records: list[ImportedTiming] = []
    left_out: list[LeftOut] = []
    failed: Counter[str] = Counter()
    for number, result in enumerate(content["results"], 1):
        try:
            configuration = result.get("configuration") if isinstance(result, dict) else None
            if not isinstance(configuration, dict) or not configuration:
                raise _UnusableResultError("it has no `configuration`")
            if result.get("invalidity") in _T4_FAILURES:
                failed[str(result["invalidity"])] += 1
                continue
            parameters = {name: _value(name, value) for name, value in configuration.items()}
            records.append(
                ImportedTiming(
                    kernel="",
                    instance=",".join(map(str, configuration.values())),
                    time_us=_t4_time_us(result, str(unit or "milliseconds")),
                    device=device,
                    arch=arch_of(device),
                    parameters=parameters,
                    for_kernel=kernel,
                )
            )
        except _UnusableResultError as error:
            left_out.append(LeftOut(1, f"result {number}: {error}"))
    return ReadTimings(tuple(records), tuple(left_out), dict(failed))


def _t4_time_us(result: Mapping[str, Any], unit: str) -> float:
    measurements = result.get("measurements")
    for one in measurements if isinstance(measurements, list) else ():
        if isinstance(one, dict) and one.get("name") == "time":
            of_unit = str(one.get("unit") or unit)
            if of_unit not in _TIMES_US:
                raise _UnusableResultError(f"unknown unit `{shown(of_unit)}`")
            return _time_us(one.get("value"), _TIMES_US[of_unit])
    raise _UnusableResultError("it has no measurement `time`")


def _time_us(time: object, factor: float) -> float:
    is_number = isinstance(time, int | float) and not isinstance(time, bool) and abs(time) < _LONGEST
    if not (is_number and 0 < (time_us := float(time) * factor) < math.inf):  # type: ignore[arg-type]
        raise _UnusableResultError("it has no time" if time is None else f"its time is {shown(str(time))}")
    return time_us


def _sizes(problem: object) -> Mapping[str, int]:
    """`problem_size`: the size of the domain along x, y and z; nothing where a function made it."""
    if isinstance(problem, int) and not isinstance(problem, bool):
        return {"x": problem}
    whole = isinstance(problem, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in problem)
    return dict(zip(_AXES, problem, strict=False)) if whole and isinstance(problem, list) else {}


def _value(name: str, value: object) -> ParameterValue:
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return tuple(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _UnusableResultError(f"{shown(name)} is {shown(json.dumps(value))}, which no parameter is")
