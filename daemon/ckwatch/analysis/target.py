"""The part that a prediction is for, and what its caches and its LDS move at best."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.timing.parts import AMD_PARTS, Part, part_of
from ckwatch.timing.report import DeviceFacts

SIMDS_PER_CU = 4
"""Of every CDNA compute unit (AMD Instinct MI200, MI300 and CDNA4 instruction set architecture manuals)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes per clock: of the LDS and the vector L1 cache of a CU, of an L2 channel; how many CUs share how many
    channels (of a die)."""

    lds: int
    l1: int
    l2_channel: int
    channels_per_die: int
    cus_per_die: int


RATES: Mapping[str, Rates] = {
    "gfx90a": Rates(lds=128, l1=64, l2_channel=128, channels_per_die=32, cus_per_die=110),
    "gfx942": Rates(lds=128, l1=128, l2_channel=128, channels_per_die=16, cus_per_die=38),
    "gfx950": Rates(lds=128, l1=128, l2_channel=128, channels_per_die=16, cus_per_die=32),
}
"""By arch. LDS, L1, and L2 of gfx942 and gfx950: the peaks in ROCm Compute Profiler's panels
(analysis_configs/ARCH/0200_system-speed-of-light.yaml: LDS 0.128 KB, vL1D 64 or 128 B, an L2 channel 128 B a clock). Of
gfx90a's L2 the panel says 64 B a channel; the CDNA 2 white paper's 128 B in 32 slices (4,096 B a clock) are taken.
Channels of gfx942 and gfx950: the profiler's mi_gpu_spec.yaml. CUs of a die: "AMD GPU specifications" in ROCm's
documentation (38 and 32 per XCD)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A part, as `timing.bound` wants it, and its rates."""

    arch: str
    part: Part
    facts: DeviceFacts
    rates: Rates

    @property
    def clock_mhz(self) -> float:
        """The clock of the prediction: the highest by data sheet or device."""
        return max(self.part.clock_mhz, self.facts.clock_mhz)

    @property
    def l2_bytes_per_clock(self) -> float:
        """Of all dies together."""
        dies = max(1, round(self.part.compute_units / self.rates.cus_per_die))
        return dies * self.rates.channels_per_die * self.rates.l2_channel


def targets(arch: str) -> tuple[str, ...]:
    """The names of the parts that predictions can be for, the default first; none for an arch that is not known."""
    base = arch.partition(":")[0]
    return tuple(part.name for _, part in AMD_PARTS.get(base, ())) if base in RATES else ()


def target_of(arch: str, name: str = "") -> Target | None:
    """The part called `name` (`MI300X`, in any case) of `arch`, or the arch's first, which is the fastest: its bound is
    one for the others too. None for an arch without known parts. Raises ValueError when the arch has no such part."""
    base = arch.partition(":")[0]
    rows = AMD_PARTS.get(base, ())
    if not rows or base not in RATES:
        return None
    if not name:
        part = rows[0][1]
    else:
        found = next((part for pattern, part in rows if re.fullmatch(pattern, name, re.IGNORECASE)), None)
        if found is None:
            raise ValueError(f"no part of {base} is called '{name}': there are {', '.join(targets(base))}")
        part = found
    facts = DeviceFacts(
        name="hip:0",
        description=part.name,
        arch=base,
        compute_units=part.compute_units,
        clock_mhz=part.clock_mhz,
        last_level_cache_bytes=part.last_level_cache_bytes,
        local_memory_bytes=part.local_memory_bytes,
    )
    return Target(arch=base, part=part, facts=facts, rates=RATES[base])


def target_of_device(facts: DeviceFacts) -> Target | None:
    """The target that a device at hand is; None where its part is not known."""
    part, base = part_of(facts), facts.arch.partition(":")[0]
    if part is None or base not in RATES:
        return None
    return Target(arch=base, part=part, facts=facts, rates=RATES[base])
