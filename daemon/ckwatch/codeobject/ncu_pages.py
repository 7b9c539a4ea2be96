"""Reads the source page of ncu (Nsight Compute) as CSV: samples of warps by stall reason, and executed instructions.

`ncu --import REPORT --csv --page source` prints a block for each kernel. With `--print-source sass` it begins with
`"Kernel Name",NAME`, and each row is an instruction. With `cuda,sass` there is a block for each source file, which
begins with `"File Path",PATH` and `"Function Name",NAME`; the rows of instructions follow the row of their line, which
has a number, the line's text and the sums of its instructions. `...` stands for instructions of other lines. Before the
first block a log has lines of its own (`==PROF== …`).
An instruction of an inlined function can stand at several lines: it counts once here, at the line that is listed first.

The columns `stall_*` hold the samples by what the warp waited for; `stall_selected` are those in which it issued, and
all of them together are `# Samples`. Of shared memory there are the wavefronts that an access took and those of an
ideal one; of global memory sectors of 32 bytes. Seen with Nsight Compute 2025.3 on an H200; "Source Page" of its
documentation.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from ckwatch.model.device_profiles import WARP_SAMPLING, DeviceProfile, MeasuredKernel, NoProfileError, ProfiledPlace
from ckwatch.model.instruction_counts import InstructionCounts

_BLOCK = re.compile(
    r'^"?(?:Kernel Name|File Path)"?,.+\n(?:"?Function Name"?,.+\n)?"?(?:Line No|Address|#)"?,', re.MULTILINE
)
_SAMPLES = "# Samples"
_NEEDED = ("Address", _SAMPLES, "Instructions Executed")
_STALL = "stall_"
_SELECTED = "stall_selected"
_NOT_ISSUED = "(Not Issued)"
_REASONS = {
    "barrier": "barrier", "branch_resolving": "branch", "dispatch": "dispatch", "drain": "stores to drain",
    "gmma": "warpgroup matrix instructions", "imc": "constants", "lg": "queue of memory instructions",
    "long_sb": "memory", "math": "busy math pipe", "membar": "memory fence", "mio": "queue of LDS instructions",
    "misc": "other", "no_inst": "instruction fetch", "not_selected": "other warps", "short_sb": "shared memory",
    "sleep": "sleep", "tex": "queue of textures", "wait": "fixed latency", "warpgroup_arrive": "warpgroup",
}  # fmt: skip


def is_page(text: str) -> bool:
    """Return True for text with such a page."""
    return _BLOCK.search(text) is not None


def read_page(text: str) -> DeviceProfile:
    """The profile in a page. Raises NoProfileError."""
    found: dict[tuple[str, str], ProfiledPlace] = {}
    broken = repeated = 0
    for place in _places(text):
        if place is None:
            broken += 1
        elif (key := (place.kernel, f"{place.address}")) in found:
            repeated += 1
        else:
            found[key] = place
    places = tuple(sorted(found.values(), key=lambda one: (one.kernel, one.address or 0)))
    notes = [f"{broken} rows could not be read"] if broken else []
    if repeated:
        notes.append(f"{repeated} instructions of inlined functions stand at several lines: each counts at the first")
    total = sum(one.samples for one in places)
    if without := sum(one.samples for one in places if one.line is None):
        notes.append(f"{without} of {total} samples have no source line")
    return DeviceProfile(method=f"{WARP_SAMPLING} (ncu)", unit="samples", places=places, notes=tuple(notes))


def read_launches(text: str) -> tuple[MeasuredKernel, ...]:
    """The kernels of a report's raw page (`--page raw`), with the workgroups of all launches."""
    launches: Counter[str] = Counter()
    workgroups: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(text)):
        name, grid = row.get("Kernel Name"), re.findall(r"\d+", row.get("Grid Size") or "")
        if name and grid:
            launches[name] += 1
            workgroups[name] += prod(map(int, grid))
    return tuple(MeasuredKernel(name=one, launches=launches[one], workgroups=workgroups[one]) for one in launches)


def _places(text: str) -> Iterator[ProfiledPlace | None]:
    """The instructions of all blocks; None for a row that cannot be read."""
    kernel = path = source = ""
    line: int | None = None
    columns: Mapping[str, int] = {}
    begin = _BLOCK.search(text)
    try:
        for row in csv.reader(io.StringIO(text[0 if begin is None else begin.start() :])):
            if len(row) < 2:
                continue
            head = row[0]
            if head == "File Path":
                path, line, columns = row[1], None, {}
            elif head in ("Kernel Name", "Function Name"):
                kernel, line, columns = row[1], None, {}
                path = "" if head == "Kernel Name" else path
            elif head in ("Line No", "Address", "#"):
                columns = _columns(row)
            elif not columns:
                continue
            elif "Line No" in columns and row[0]:
                line, source = int(row[0]) - 1, row[1].strip()
            elif (address := row[columns["Address"]]) not in ("...", "-", ""):
                yield _place(row, columns, address, kernel, (path, line, source))
    except (csv.Error, ValueError, IndexError) as error:
        raise NoProfileError(f"it is not a page of ncu's: {error}") from None


def _columns(row: Sequence[str]) -> dict[str, int]:
    """The column of each name; of two with the same the last, which is the instruction's."""
    columns = {name: at for at, name in enumerate(row)}
    if missing := [name for name in _NEEDED if name not in columns]:
        raise NoProfileError(
            f"its source page has no column `{missing[0]}`: ncu takes it with `--section SourceCounters`, and shows it "
            "with `--print-source sass` or `cuda,sass`"
        )
    return columns


def _place(
    row: Sequence[str], columns: Mapping[str, int], address: str, kernel: str, at: tuple[str, int | None, str]
) -> ProfiledPlace | None:
    def number(name: str) -> int:
        text = row[columns[name]] if name in columns else ""
        return int(text.replace(",", "")) if text not in ("", "-") else 0

    try:
        stalls = {name: number(name) for name in columns if name.startswith(_STALL) and _NOT_ISSUED not in name}
        issued = stalls.pop(_SELECTED, 0)
        waits = sorted(stalls.items(), key=lambda one: -one[1])
        return ProfiledPlace(
            text=row[columns["Source"]].strip(),
            path=at[0] if at[1] is not None else "",
            line=at[1],
            address=int(address, 16),
            kernel=kernel,
            samples=number(_SAMPLES),
            issued=issued,
            lanes=number("Thread Instructions Executed"),
            stalls={reason_words(name): count for name, count in waits if count},
            hits=number("Instructions Executed"),
            counts=_counts(number, row[columns["Address Space"]] if "Address Space" in columns else ""),
            source=at[2] if at[1] is not None else "",
        )
    except (ValueError, KeyError, IndexError):
        return None


SECTOR_BYTES = 32


def _counts(number: Callable[[str], int], space: str) -> InstructionCounts:
    issued, ideal = number("Instructions Executed"), number("L2 Theoretical Sectors Global Ideal")
    return InstructionCounts(
        issued=issued,
        lanes=number("Predicated-On Thread Instructions Executed"),
        requests=issued if space == "Global" else 0,
        cache_lines=number("L2 Theoretical Sectors Global"),
        least_lines=ideal,
        bytes=ideal * SECTOR_BYTES,
        accesses=issued if space == "Shared" else 0,
        turns=number("L1 Wavefronts Shared"),
        phases=number("L1 Wavefronts Shared Ideal"),
        fullest=number("L1 Conflicts Shared N-Way"),
    )


def reason_words(name: str) -> str:
    """`stall_long_sb` → `memory`; of a reason that is not known, its own words."""
    short = name.removeprefix(_STALL)
    return _REASONS.get(short, short.replace("_", " "))
