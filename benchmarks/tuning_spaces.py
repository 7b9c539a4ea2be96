"""Writes tuning spaces as `benchmarks.search` reads them: synthetic ones, each of another kind, and a measured one.

    python -m benchmarks.tuning_spaces FOLDER

The measured one is what `benchmarks.tuning` kept of all its CUTLASS instances. The others' costs come from formulas,
never from a device, and are made uneven by a factor of each configuration's own, as measured
spaces are. The kinds are what searches differ on: separable axes, axes that depend on each other, an optimum apart
from the broad basin, conditions that leave little, failures beside the best, names without order, axes that do not
matter, and models of a GEMM, a stencil over several steps and a streaming kernel on two processors each.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reporting import RESULTS

CUTLASS_AXES = ("ThreadblockM", "ThreadblockN", "ThreadblockK", "WarpM", "WarpN", "Stages", "SwizzleSize")

Values = Mapping[str, Any]
Cost = Callable[[Values], float]
"""Milliseconds; infinite where a configuration does not run."""


@dataclass(frozen=True, slots=True)
class SyntheticSpace:
    """Axes, the conditions on them, and for each processor the cost before the unevenness, of which `noise` is the
    deviation of the logarithm."""

    axes: Mapping[str, Sequence[Any]]
    costs: Mapping[str, Cost]
    is_allowed: Callable[[Values], bool] = lambda _: True
    noise: float = 0.03

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """The allowed configurations with their times."""
        for values in itertools.product(*self.axes.values()):
            own = dict(zip(self.axes, values, strict=True))
            if not self.is_allowed(own):
                continue
            row = dict(own)
            for processor, cost in self.costs.items():
                milliseconds = cost(own) * math.exp(self.noise * _normal(f"{name} {processor} {own}"))
                row[f"{processor}_ms"] = f"{milliseconds:.6g}" if math.isfinite(milliseconds) else ""
            yield row


def _uniform(text: str) -> float:
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") + 0.5) / 2**56


def _normal(text: str) -> float:
    """Normally distributed, by the text alone (Box and Muller)."""
    return math.sqrt(-2 * math.log(_uniform(text))) * math.cos(2 * math.pi * _uniform(f"{text} angle"))


def _away(value: float, best: float) -> float:
    return abs(math.log2(value / best))


def separable(values: Values) -> float:
    """A factor for each axis."""
    weights = {"a": (32, 0.3), "b": (4, 0.2), "c": (8, 0.06), "d": (64, 0.03), "e": (2, 0.15)}
    return math.exp(sum(weight * _away(values[name], best) for name, (best, weight) in weights.items()))


def interacting(values: Values) -> float:
    """The best of each axis depends on another one: a bent valley."""
    threads = values["x"] * values["y"]
    work = values["tile_x"] * values["tile_y"]
    return math.exp(
        0.45 * _away(threads, 256)
        + 0.35 * _away(work * threads, 4096)
        + 0.25 * _away(values["x"] * values["tile_x"], 64)
        + (0.3 if values["unroll"] > values["tile_x"] else 0.06 * _away(values["unroll"], values["tile_x"]))
    )


def deceptive(values: Values) -> float:
    """A broad basin at small tiles; the best lies apart, where a switch and two large sizes come together."""
    basin = 2 * math.exp(0.2 * sum(_away(values[name], 2) for name in ("a", "b", "c")))
    apart = sum(_away(values[name], 64) for name in ("a", "b", "c"))
    hidden = 1.2 * math.exp(0.6 * apart) if values["staged"] and values["order"] == "swizzled" else math.inf
    return min(basin * (1.15 if values["staged"] else 1.0), hidden) * (1 + 0.05 * _away(values["d"], 8))


def named(values: Values) -> float:
    """Names whose effects belong to pairs, as those of pipelines and schedulers."""
    own = sum(0.35 * _uniform(f"{name} {value}") for name, value in values.items())
    pairs = itertools.combinations(sorted(values.items()), 2)
    return math.exp(own + sum(0.25 * _uniform(str(pair)) for pair in pairs))


def mostly_idle(values: Values) -> float:
    """Two of seven axes matter."""
    return math.exp(0.5 * _away(values["block"], 128) + 0.4 * _away(values["items"], 8))


def at_the_edge(values: Values) -> float:
    """Larger is faster until it does not run: the best lies beside failures."""
    registers = 20 + 3 * values["tm"] * values["tn"] + 8 * values["stages"]
    shared = (values["bm"] + values["bn"]) * values["bk"] * values["stages"] * 2
    if registers * values["bm"] * values["bn"] / (values["tm"] * values["tn"]) > 65536 or shared > 65536:
        return math.inf
    reuse = values["bm"] * values["bn"] / (values["bm"] + values["bn"])
    inner = values["tm"] * values["tn"] / (values["tm"] + values["tn"])
    return float(10 + 20 / reuse + 2 / inner + 0.6 / values["stages"] + 4 / values["bk"])


def gemm(units: int, bandwidth: float, shared_kib: int) -> Cost:
    """A tiled GEMM of 1024 × 2048 × 1024: waves of blocks, occupancy, reads and bank conflicts."""

    def cost(values: Values) -> float:
        mwg, nwg, kwg = values["MWG"], values["NWG"], values["KWG"]
        threads = values["MDIMC"] * values["NDIMC"]
        per_thread = mwg * nwg / threads
        shared = (values["SA"] * mwg + values["SB"] * nwg) * kwg * 4
        registers = 24 + per_thread + (mwg / values["MDIMC"] + nwg / values["NDIMC"]) * 2
        if registers > 255 or shared > shared_kib * 1024:
            return math.inf
        resident = max(1, min(2048 // threads, 65536 // int(registers * threads), shared_kib * 1024 // max(shared, 1)))
        blocks = (1024 // mwg) * (2048 // nwg)
        waves = math.ceil(blocks / (units * resident)) * resident / (blocks / units)
        hiding = min(1.0, resident * threads / 512 * (1 + 0.1 * math.log2(per_thread)))
        issue = (1 + 4 / per_thread) * (1 + 0.3 / values["KWI"]) / hiding
        for width, staged, span in (("VWM", "SA", mwg), ("VWN", "SB", nwg)):
            issue *= 1 + (0.05 if values[staged] else 0.12) * abs(math.log2(values[width]) - 1) + 4 / span
        reads = (2048 / nwg * (1 if values["SA"] else 1.4) + 1024 / mwg * (1 if values["SB"] else 1.4)) / bandwidth
        return float(max(issue, reads) * waves + 0.15 * min(issue, reads))

    return cost


def stencil(units: int, bandwidth: float) -> Cost:
    """Several time steps in one launch: fewer reads, a wider halo, more registers."""

    def cost(values: Values) -> float:
        steps, threads = values["steps"], values["block_x"] * values["block_y"]
        wide, high = values["block_x"] * values["tile_x"], values["block_y"] * values["tile_y"]
        inner = (wide - 2 * steps) * (high - 2 * steps)
        shared = 8 * wide * high * (1 + values["power_in_shared"])
        if inner <= 0 or shared > 65536:
            return math.inf
        resident = min(2048 // threads, 65536 // shared)
        hiding = min(1.0, resident * threads / 1024)
        redundant = wide * high / inner
        lines = 1 + 8 / values["block_x"]
        memory = redundant / steps * lines * (2 if values["power_in_shared"] else 2.4) / bandwidth
        compute = redundant * (1.3 - 0.1 * math.log2(values["unroll"])) / hiding / units * 60
        return float(max(memory, compute) + 0.3 * min(memory, compute) + 0.02 * values["unroll"] / steps)

    return cost


def streaming(bandwidth: float, best_items: int) -> Cost:
    """Bound by memory: many configurations are nearly as good, few are best."""

    def cost(values: Values) -> float:
        in_flight = values["block"] * values["per_unit"] * values["items"] * values["width"]
        time = 1 / bandwidth * (1 + 3000 / in_flight) * (1 + 0.04 * _away(values["items"], best_items))
        time *= 1 + 0.05 * (4 - values["width"]) / 4 + (0.03 if values["stride"] == "blocked" else 0.0)
        return float(time * (1.0 if values["cached"] else 1.02) * (1 + 0.02 * _away(values["block"], 256)))

    return cost


def _powers(low: int, high: int) -> list[int]:
    return [1 << at for at in range(low, high + 1)]


def _gemm_fits(values: Values) -> bool:
    mdim, ndim = values["MWG"] // values["MDIMC"], values["NWG"] // values["NDIMC"]
    return bool(
        values["KWG"] % values["KWI"] == 0
        and mdim > 0
        and mdim % values["VWM"] == 0
        and ndim > 0
        and ndim % values["VWN"] == 0
        and 64 <= values["MDIMC"] * values["NDIMC"] <= 1024
    )


def _tied(values: Values) -> bool:
    """Allows about one in three hundred of what the axes give."""
    block = values["block_m"] * values["block_n"]
    waves = block // (values["wave_m"] * values["wave_n"])
    return bool(
        values["wave_m"] * values["wave_n"] * waves == block
        and waves in (1, 2, 4)
        and values["thread_k"] * values["thread_m"] == waves * 64
        and values["block_k"] == values["thread_k"] * values["vector"]
        and values["block_m"] % values["thread_m"] == 0
    )


def _tied_cost(values: Values) -> float:
    reuse = values["block_m"] * values["block_n"] / (values["block_m"] + values["block_n"])
    return float(
        30 / reuse
        + 0.4 * _away(values["block_k"], 64)
        + 0.3 * _away(values["wave_m"] / values["wave_n"], 2)
        + 0.1 * _away(values["vector"], 8)
        + 4 * abs(reuse - 40) / 80
    )


SPACES: Mapping[str, SyntheticSpace] = {
    "separable": SyntheticSpace(
        {
            "a": _powers(0, 8),
            "b": _powers(0, 4),
            "c": _powers(0, 5),
            "d": _powers(2, 7),
            "e": _powers(0, 2),
        },
        {"formula": separable},
    ),
    "interacting": SyntheticSpace(
        {
            "x": _powers(2, 8),
            "y": _powers(0, 5),
            "tile_x": [1, 2, 3, 4, 6, 8],
            "tile_y": [1, 2, 3, 4, 6, 8],
            "unroll": [1, 2, 4, 8],
        },
        {"formula": interacting},
        lambda values: 32 <= values["x"] * values["y"] <= 1024,
        noise=0.05,
    ),
    "deceptive": SyntheticSpace(
        {
            "a": _powers(0, 7),
            "b": _powers(0, 7),
            "c": _powers(0, 7),
            "d": _powers(2, 4),
            "staged": [0, 1],
            "order": ["linear", "swizzled"],
        },
        {"formula": deceptive},
    ),
    "named": SyntheticSpace(
        {
            "pipeline": ["v1", "v2", "v3", "v4", "v5"],
            "scheduler": ["intrawave", "interwave"],
            "order": ["m", "n", "snake", "hilbert"],
            "epilogue": ["direct", "shuffle", "store"],
            "prefetch": ["none", "one", "two", "far"],
            "priority": ["low", "normal", "high"],
        },
        {"formula": named},
    ),
    "mostly_idle": SyntheticSpace(
        {
            "block": _powers(5, 10),
            "items": _powers(0, 5),
            **{name: [0, 1, 2] for name in ("p", "q", "r")},
            **{name: ["off", "on"] for name in ("s", "t")},
        },
        {"formula": mostly_idle},
        noise=0.06,
    ),
    "at_the_edge": SyntheticSpace(
        {
            "bm": _powers(4, 8),
            "bn": _powers(4, 8),
            "bk": _powers(3, 6),
            "tm": _powers(0, 4),
            "tn": _powers(0, 4),
            "stages": [1, 2, 3, 4],
        },
        {"formula": at_the_edge},
        lambda values: 32 <= values["bm"] * values["bn"] / (values["tm"] * values["tn"]) <= 1024,
    ),
    "tied": SyntheticSpace(
        {
            "block_m": [32, 64, 96, 128, 192, 256],
            "block_n": [32, 64, 96, 128, 192, 256],
            "block_k": _powers(4, 8),
            "wave_m": [16, 32, 64, 96, 128],
            "wave_n": [16, 32, 64, 96, 128],
            "thread_k": _powers(2, 6),
            "thread_m": _powers(2, 6),
            "vector": _powers(1, 4),
        },
        {"formula": _tied_cost},
        _tied,
    ),
    "gemm": SyntheticSpace(
        {
            "MWG": [16, 32, 64, 128],
            "NWG": [16, 32, 64, 128],
            "KWG": [16, 32],
            "MDIMC": [8, 16, 32],
            "NDIMC": [8, 16, 32],
            "KWI": [2, 8],
            "VWM": [1, 2, 4, 8],
            "VWN": [1, 2, 4, 8],
            "SA": [0, 1],
            "SB": [0, 1],
        },
        {"wide": gemm(100, 20, 64), "narrow": gemm(24, 60, 32)},
        _gemm_fits,
    ),
    "stencil": SyntheticSpace(
        {
            "block_x": [16, 32, 64, 96, 128, 192, 256],
            "block_y": [1, 2, 4, 8, 16],
            "tile_x": [1, 2, 3, 4],
            "tile_y": [1, 2, 3, 4, 6],
            "steps": [1, 2, 3, 4, 5, 6],
            "unroll": [1, 2, 4],
            "power_in_shared": [0, 1],
        },
        {"fast_memory": stencil(100, 3), "slow_memory": stencil(60, 0.6)},
        lambda values: 64 <= values["block_x"] * values["block_y"] <= 1024 and values["unroll"] <= values["steps"],
        noise=0.04,
    ),
    "streaming": SyntheticSpace(
        {
            "block": [64, 96, 128, 192, 256, 384, 512, 768, 1024],
            "items": [1, 2, 3, 4, 6, 8, 12, 16],
            "width": [1, 2, 4],
            "per_unit": [1, 2, 3, 4, 6, 8],
            "stride": ["blocked", "interleaved"],
            "cached": [0, 1],
        },
        {"wide": streaming(2, 4), "narrow": streaming(0.3, 8)},
        noise=0.02,
    ),
}


def write(folder: Path) -> list[Path]:
    """Write each space into a file of `folder`; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, space in SPACES.items():
        rows = list(space.rows(name))
        path = folder / f"space_{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        paths.append(path)
    return [*paths, _write_measured(folder)]


def _write_measured(folder: Path) -> Path:
    """The CUTLASS instances of `benchmarks.tuning`, by the names that their sweep gives them."""
    found = json.loads((RESULTS / "tuning.json").read_text())["one device"]["exhaustive"]["times_us"]
    names = sorted({name for times in found.values() for name in times})
    path = folder / "space_cutlass.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*CUTLASS_AXES, *(f"{shape}_ms" for shape in found)))
        for name in names:
            times_us = (times.get(name) for times in found.values())
            writer.writerow((*name.split("_")[1:], *("" if one is None else one / 1e3 for one in times_us)))
    return path


def main() -> None:
    """Write all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for path in write(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
