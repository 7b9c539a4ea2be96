"""The input of llvm-mca for a loop, and the cycles in its answer.

It gets a loop's body once and twice, in two regions of one file, and runs each the same number of times. The
difference of their cycles is that of as many bodies in their steady state: what starts and ends a run is in both. A
file may hold several loops, by their names.

Its cycles are those of LLVM's scheduling models (SISchedule.td). On GFX9, CDNA too, one is an issue cycle of a SIMD,
four of the clock; later archs issue a wave each clock. The models know the matrix units' passes and the latency of
results, and `s_waitcnt` waits. They take LDS and memory at a fixed latency (80 cycles on GFX9) whatever the caches,
bank conflicts and other waves do, and no wave waits for another at a barrier.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ckwatch.codeobject.disassembly import Instruction, InstructionKind, traits
from ckwatch.model.lazy_dataclass import dataclass

ROUNDS = 2
"""One would do for the loops of the GEMM example: the second body takes as many cycles as the eighth."""
_RETURN_BUS = "HWRC"
_PARSE_ERROR = re.compile(r"^[^\n]*:(\d+):\d+: error: (.*)$", re.MULTILINE)
_NO_MODEL = re.compile(r"^note: instruction:\s*(.*?)\s*$", re.MULTILINE)
_UNKNOWN_CPU = re.compile(r"'(\S+)' is not a recognized processor|unable to find instruction .* for cpu")


@dataclass(frozen=True, slots=True)
class LoopCycles:
    """Cycles of the model for one round. `matrix_cycles` is how many of them the matrix unit is busy, None where the
    model has no unit for the matrix instructions, or there are none."""

    cycles: float
    matrix_cycles: float | None

    @property
    def matrix_use(self) -> float | None:
        """The share of the time that the matrix unit is busy, 0 to 1, with one wave on the SIMD."""
        return None if self.matrix_cycles is None or not self.cycles else min(1.0, self.matrix_cycles / self.cycles)


def clocks_per_cycle(arch: str) -> int:
    """Clocks of the hardware in a cycle of the model. GFX9 runs the 64 lanes of a wave through 16 ALUs, in four."""
    return 4 if arch.startswith("gfx9") else 1


def mca_arguments(arch: str, source: str) -> tuple[str, ...]:
    """llvm-mca's arguments for a file of `mca_source`."""
    return (
        "-mtriple=amdgcn-amd-amdhsa",
        f"-mcpu={arch.partition(':')[0]}",
        f"--iterations={ROUNDS}",
        "--instruction-info=false",
        "--json",
        source,
    )


def mca_source(body: Sequence[Instruction], left_out: Collection[int] = (), *, name: str = "") -> str:
    """The assembly for llvm-mca, without the instructions at the places `left_out`. Texts of loops with different names
    may be put one after the other."""
    kept = [instruction.text for place, instruction in enumerate(body) if place not in left_out]
    lines = []
    for region, texts in ((f"once{name}", kept), (f"twice{name}", [*kept, *kept])):
        lines += [f"# LLVM-MCA-BEGIN {region}", *texts, f"# LLVM-MCA-END {region}"]
    return "\n".join([*lines, ""])


def rejected_instructions(stderr: str, body: Sequence[Instruction], left_out: Collection[int] = ()) -> dict[int, str]:
    """The places in `body` of instructions that llvm-mca rejected, and its message for each."""
    kept = [place for place in range(len(body)) if place not in left_out]
    found: dict[int, str] = {}
    for line, message in _PARSE_ERROR.findall(stderr):
        # the first region begins in line 2, the second after two more lines
        number = int(line) - 2
        if number > len(kept):
            number = (number - len(kept) - 2) % max(1, len(kept))
        if 0 <= number < len(kept):
            found.setdefault(kept[number], message)
    for text in _NO_MODEL.findall(stderr):
        same = " ".join(text.split())
        for place in kept:
            if " ".join(body[place].text.split()) == same:
                found.setdefault(place, "no scheduling information")
    return found


def first_error(stderr: str) -> str:
    """The first error line of llvm-mca, for a run that rejects no instruction and still gives no answer."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no output")


def unknown_cpu(stderr: str) -> bool:
    """Return True if llvm-mca did not know the arch (and took a model of another one)."""
    return _UNKNOWN_CPU.search(stderr) is not None


McaAnswer = Mapping[str, Any]
"""llvm-mca's JSON."""


def parse_answer(output: str) -> McaAnswer:
    """Parse llvm-mca's output. Raises ValueError if it is not JSON."""
    try:
        document: McaAnswer = json.loads(output)
    except json.JSONDecodeError as error:
        raise ValueError(f"llvm-mca's answer is not as expected: {error!r}") from error
    return document


def loop_cycles_of(
    output: str | McaAnswer, body: Sequence[Instruction], left_out: Collection[int] = (), *, name: str = ""
) -> LoopCycles:
    """Return llvm-mca's figures for the body. Raises ValueError for an answer in another form."""
    document = parse_answer(output) if isinstance(output, str) else output
    try:
        regions = {region["Name"]: region for region in document["CodeRegions"]}
        once, twice = (regions[f"{region}{name}"]["SummaryView"] for region in ("once", "twice"))
        cycles = (twice["TotalCycles"] - once["TotalCycles"]) / once["Iterations"]
        kept = [instruction for place, instruction in enumerate(body) if place not in left_out]
        matrix = _matrix_cycles(document["TargetInfo"]["Resources"], regions[f"once{name}"], kept)
    except (KeyError, TypeError, IndexError, ZeroDivisionError) as error:
        raise ValueError(f"llvm-mca's answer is not as expected: {error!r}") from error
    if cycles <= 0:
        raise ValueError("llvm-mca's answer has no cycles")
    return LoopCycles(cycles, matrix)


def unmodelled_matrix(prediction: LoopCycles, body: Sequence[Instruction]) -> bool:
    """Return True if the body has matrix instructions whose time the model does not know, so that its cycles are too
    few.

    LLVM's models of GFX11 and GFX12 give a WMMA the single cycle of any other VALU instruction.
    """
    return prediction.matrix_cycles is None and any(traits(each.mnemonic).kind is InstructionKind.MFMA for each in body)


def _matrix_cycles(resources: Sequence[str], region: Any, kept: Sequence[Instruction]) -> float | None:
    """The cycles that matrix instructions take of the unit that they take the most of.

    A model in which they hold no unit for longer than one cycle does not know how long they take.
    """
    places = {place for place, each in enumerate(kept) if traits(each.mnemonic).kind is InstructionKind.MFMA}
    used: dict[int, float] = {}
    longest = 0.0
    for usage in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if usage["InstructionIndex"] in places and resources[usage["ResourceIndex"]] != _RETURN_BUS:
            taken = float(usage["ResourceUsage"])
            used[usage["ResourceIndex"]] = used.get(usage["ResourceIndex"], 0.0) + taken
            longest = max(longest, taken)
    return max(used.values()) if longest > 1 else None
