"""Figures as text, the same in the command line and in editors: timings, and what a code object tells.

Loads neither pydantic nor rich: every command imports it. `ckwatch.model.amounts` has the plain amounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ckwatch.model.amounts import change, count, digits, short_commit, tflops, time_of
from ckwatch.model.targets import arch_base

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.model.figures import Figures
    from ckwatch.model.timings import Comparison, Timing
    from ckwatch.wire.imported_timings import ImportedTiming
    from ckwatch.wire.state import Unit

STAND_IN = "stand-in"
"""In the description of a device that stands in for a real one; its times are no timings."""

NO_FIGURES = "a stand-in for a device: no figures"

AT_WORK = ("compiling", "rendering", "looking", "queued", "waiting")
"""The phases of a unit that has no fresh result yet, the most advanced first."""


def is_figure(timing: Timing) -> bool:
    """Return True if there is a time, and it is that of a device."""
    return timing.failure is None and STAND_IN not in timing.device_description


def shown_timing(unit: Unit, shape: str = "") -> Timing | None:
    """The first timing of `shape`, or of any, with a cold cache if there is one; None without one of a device."""
    known = [each for each in unit.timings if shape in ("", each.shape) and is_figure(each)]
    return next((each for each in known if each.cache == "cold"), known[0] if known else None)


def comparison_with(comparisons: Sequence[Comparison], kind: str) -> Comparison | None:
    """The comparison with `previous`, `library …` or `baseline …`."""
    return next((each for each in comparisons if each.against.split(" ")[0] == kind), None)


# What others measured.


def imported_on(timings: Iterable[ImportedTiming], shape: str, arch: str) -> list[ImportedTiming]:
    """Those on a shape and an arch, and those on devices whose arch is not known."""
    base = arch_base(arch)
    return [one for one in timings if one.shape == shape and (not one.arch or arch_base(one.arch) == base)]


def best_imported(timings: Iterable[ImportedTiming]) -> list[ImportedTiming]:
    """The fastest of each source and device."""
    found: dict[tuple[str, str], ImportedTiming] = {}
    for timing in timings:
        kept = found.get((timing.source, timing.device))
        if kept is None or timing.time_us < kept.time_us:
            found[timing.source, timing.device] = timing
    return list(found.values())


def imported_words(timing: ImportedTiming, instance: str = "") -> str:
    """`AITER, MI300X: 15.10 µs with v3_128x128x64, kBatch = 2`: the instance here, else its name there.

    `instance` is the one that is spoken of.
    """
    whose = ", ".join(filter(None, (timing.source, timing.device)))
    if instance in timing.instances:
        instance = "this instance"
    else:
        instance = timing.instances[0] if timing.instances else timing.instance
    runtime = [f"{name} = {value:g}" for name, value in timing.runtime.items() if value != 1]
    elsewhere = [] if timing.instances else ["not in the kernel file"]
    return f"{whose}: {time_of(timing.time_us)} with {', '.join([instance, *runtime, *elsewhere])}"


# The cells of a timing.


def timing_cells(timing: Timing) -> list[str]:
    """Median, error, interval, clock, rate and part of the roofline's bound, of a timing that has figures."""
    median, error, interval = time_of(timing.median_us), error_of(timing), interval_of(timing)
    return [median, error, interval, clock_of(timing), rate_of(timing), bound_of(timing)]


def error_of(timing: Timing) -> str:
    """The standard error of the median: `±0.21 %`."""
    error = 100 * timing.relative_error
    return f"±{error:.0f} %" if error >= 10 else f"±{error:.2g} %"


def interval_of(timing: Timing) -> str:
    """`[12.30, 12.41] µs`: minimum and third quartile, in the unit of the median."""
    unit = time_of(timing.median_us).rpartition(" ")[2]
    scale = {"µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    return f"[{digits(timing.minimum_us / scale)}, {digits(timing.q3_us / scale)}] {unit}"


def clock_of(timing: Timing) -> str:
    """`1500 MHz, 482.1 kcycles`, and what held the clock down: `, power`; empty where the clock was not read."""
    if timing.clock_mhz is None:
        return ", ".join(timing.limited_by)
    words = [f"{timing.clock_mhz:.0f} MHz"]
    if timing.cycles is not None:
        words.append(cycles_of(timing.cycles))
    return ", ".join([*words, *(f"{reason} limit" for reason in timing.limited_by)])


def cycles_of(cycles: float) -> str:
    """`482.1 kcycles`, or Mcycles from a million on."""
    return f"{digits(cycles / 1e6, 4)} Mcycles" if cycles >= 1e6 else f"{digits(cycles / 1e3, 4)} kcycles"


def rate_of(timing: Timing, significant: int = 4) -> str:
    """`413.0 TFLOP/s`, or GB/s for what computes nothing; empty where neither is known."""
    if timing.tflops is not None:
        return tflops(timing.tflops, significant)
    return "" if timing.gbps is None else f"{digits(timing.gbps, significant)} GB/s"


def bound_of(timing: Timing) -> str:
    """`61 % of bound (70 % at 1500 MHz)`: how much of the roofline's bound is reached, also at the observed clock."""
    bound = "" if timing.bound_percent is None else f"{timing.bound_percent:.0f} % of bound"
    if timing.observed_percent is not None:
        bound += f" ({timing.observed_percent:.0f} % at {timing.clock_mhz:.0f} MHz)"
    return bound


def comparison_words(found: Comparison) -> str:
    """`SLOW 1.021 × previous`, and how they were timed."""
    return f"{found.verdict} {found.ratio:.3f} × {found.against}{how_compared(found)}"


def how_compared(found: Comparison) -> str:
    """`, in turns` where both were timed by turns, `, the other on hip:1` where that is another device."""
    turns = ", in turns" if found.interleaved else ""
    return f"{turns}, the other on {found.other_device}" if found.other_device else turns


def provenance(timing: Timing) -> list[str]:
    """The cells that say what was timed: artifact, commit, standing."""
    stale = "" if timing.standing == "fresh" else timing.standing
    return [timing.artifact_key[:12], short_commit(timing.commit), stale]


def device_words(timing: Timing) -> str:
    """`hip:0, AMD Instinct MI300X, 0000:c1:00.0`, and `instruction caches flushed` where they were."""
    flushed = "instruction caches flushed" if timing.flushed_instructions else ""
    return ", ".join(part for part in (timing.place, timing.device_description, timing.pci or "", flushed) if part)


def doubts(timing: Timing) -> list[str]:
    """`not verified`, `did not converge`: what speaks against a timing."""
    doubted = (("not verified", not timing.verified), ("did not converge", not timing.converged))
    return [words for words, holds in doubted if holds]


def samples_words(timing: Timing) -> str:
    """`200 samples`, with how many were discarded."""
    discarded = f", {timing.discarded} discarded" if timing.discarded else ""
    return f"{count(timing.samples, 'sample')}{discarded}"


# A unit in a few words.


def state_of(unit: Unit) -> str:
    """The word for the unit's state: its phase while it is at work, else its outcome."""
    if unit.phase in AT_WORK:
        return unit.phase
    if unit.outcome is None or not unit.fresh:
        return "not built"
    return unit.outcome


def timing_words(unit: Unit) -> str:
    """`timing 1024`, or the first shape's time, error, rate, part of the bound and change, and whether it is stale."""
    if unit.measuring is not None:
        return f"timing {unit.measuring}"
    first = shown_timing(unit)
    if first is None:
        return ""
    words = [time_of(first.median_us), error_of(first), rate_of(first, 3)]
    words.append("" if first.bound_percent is None else f"{first.bound_percent:.0f} % of bound")
    previous = comparison_with(first.comparisons, "previous")
    if previous is not None and previous.verdict in ("FAST", "SLOW"):
        words.append(f"{previous.verdict} {change(previous.ratio)}")
    more = len({each.shape for each in unit.timings if is_figure(each)}) - 1
    standing = "" if first.standing == "fresh" else ", stale"
    others = f", {more} more" if more else ""
    return f"{' '.join(filter(None, words))} ({first.shape}{others}{standing})"


def toolchain_words(found: Iterable[tuple[str, str | None, bool]]) -> str:
    """`fails with rocm-6.4, checking with ck-1.1.0`, of names of other toolchains, the outcome with each, and whether
    it is at work; empty where there is nothing to say."""
    failed, working = [], []
    for name, outcome, is_working in found:
        if is_working:
            working.append(name)
        elif outcome in ("failed", "faulted"):
            failed.append(name)
    parts = (("fails with", failed), ("checking with", working))
    return ", ".join(f"{words} {' and '.join(names)}" for words, names in parts if names)


def verification_words(unit: Unit) -> str:
    """`✓ verified (emulated gfx942)` or what is wrong, in one line; `… verifying` while that is found out. Empty for a
    unit that was not verified."""
    found = unit.verification
    if unit.verifying:
        return "… verifying"
    if found is None:
        return ""
    line = found.summary.partition("\n")[0]
    return line if found.standing == "fresh" else f"· {line}, stale"


def verification_sum(units: Iterable[Unit]) -> str:
    """`✓ 17 verified`, `✗ 1 wrong, 16 verified, 2 verifying`: of present artifacts; empty where none was verified."""
    counts: Counter[str] = Counter()
    for unit in units:
        if unit.verifying:
            counts["verifying"] += 1
        elif unit.verification is not None and unit.verification.standing == "fresh":
            counts[unit.verification.outcome] += 1
    names = {"failed": "wrong", "verified": "verified", "not verified": "not verified", "verifying": "verifying"}
    words = ", ".join(f"{counts[outcome]} {name}" for outcome, name in names.items() if counts[outcome])
    mark = "✗ " if counts["failed"] else "✓ " if counts["verified"] else "… " if counts["verifying"] else ""
    return f"{mark}{words}"


def spilled(figures: Figures) -> int:
    """Registers that are spilled."""
    return figures.vgpr_spills + figures.sgpr_spills


def figures_words(figures: Figures | None) -> str:
    """`occupancy 2 (VGPR), 194 VGPR, no spills, MFMA 92 % predicted`, with `stale` if it is; empty without figures."""
    if figures is None:
        return ""
    words = [] if figures.occupancy is None else [f"occupancy {figures.occupancy} ({figures.limited_by})"]
    words.append(f"{figures.vgprs} VGPR")
    if figures.agprs:
        words.append(f"{figures.agprs} AGPR")
    words.append(f"{spilled(figures)} spilled" if spilled(figures) else "no spills")
    if figures.matrix_use is not None:
        words.append(f"MFMA {100 * figures.matrix_use:.0f} % predicted")
    if figures.standing == "stale":
        words.append("stale")
    return ", ".join(words)
