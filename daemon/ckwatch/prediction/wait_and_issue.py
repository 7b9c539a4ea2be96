"""The cycles of a kernel, instruction by instruction: an estimate from counts, for ranking lines.

A wave of the kernel is walked through, block by block in the order of control flow, and goes on when it can: an issue
takes its clocks, then it waits for what the next instruction needs.

- `s_waitcnt` waits for the operation that its counter names: each memory instruction counts up, they end in order, and
  the time is that of the last one that may not be left (as `codeobject.main_loop` follows them).
- A result that is not there yet: of a matrix instruction, or of one that runs at a fraction of the rate. A sum that
  goes on in the same registers of the next matrix instruction is forwarded.
- A unit that is taken: the matrix unit, the ALU.
- LDS takes the turns that were counted, or what its port takes for the bytes; memory what the counted cache lines take
  on their way from L2. Accesses queue there, which delays their end.

A block begins as the one that comes before it most often has left off, so that loops are as in their steady state. All
this is one wave alone. Others are added:

- A region (a loop without those inside, or what is in none) takes at least as long as its most used unit, for all waves
  that share it: what is missing is added to the instructions that use this unit.
- At a barrier a wave waits for the others of its workgroup. When all begin together, the last one gets through the most
  used unit after all the others; on average a wave waits for half of that.

Not in it: caches (each load is served by L2), what a store takes until it is done, instruction fetch, paths other than
the most frequent one, and waves that start or end.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from math import ceil, inf

from ckwatch.codeobject.control_flow import control_flow_of
from ckwatch.codeobject.disassembly import Instruction, InstructionKind, traits
from ckwatch.codeobject.main_loop import counters_of, wait_limits
from ckwatch.codeobject.report import KernelReport
from ckwatch.model.gpu_specs import AMD_GPUS
from ckwatch.model.instruction_counts import NOTHING_COUNTED, InstructionCounts, KernelCounts
from ckwatch.model.instruction_cycles import CycleEstimate, InstructionCycles, WaitCause
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.prediction.cycle_costs import (
    TWO_PASSES,
    CycleCosts,
    beside_valu,
    costs_of,
    lds_clocks,
    matrix_clocks,
    memory_clocks,
    valu_clocks,
)

WALKS = 4
"""How often blocks are walked through, so that a loop begins as it ends: enough for loops of two levels."""

ALU, MATRIX, SCALAR, LDS, LDS_PORT, MEMORY = "ALU", "matrix unit", "scalar ALU", "LDS", "LDS port", "memory pipe"
BARRIER = WaitCause("others at a barrier")
STORES = "waits for stores and atomics"
UNKNOWN = -inf
"""The end of an operation without a number: nothing waits for it."""

_REGISTER = re.compile(r"\b([vas])(?:(\d+)\b|\[(\d+):(\d+)\])|\b(vcc|scc|exec|m0)\b")
_WORDS = {
    InstructionKind.GLOBAL_LOAD: "load",
    InstructionKind.GLOBAL_STORE: "store",
    InstructionKind.LDS_READ: "LDS read",
    InstructionKind.LDS_WRITE: "LDS write",
    InstructionKind.MFMA: "matrix instruction",
    InstructionKind.VALU: "result",
}
_SLEEP = re.compile(r"s_(nop|sleep) (\d+|0x[0-9a-f]+)")
_SLEEP_CLOCKS = 64
"""Of `s_sleep 1` ("AMD Instinct MI300 ISA", S_SLEEP: about 64 clocks a unit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """Waves of the kernel on a SIMD at a time, and waves of a workgroup; `lanes` of a wave, `line_bytes` of a cache
    line."""

    arch: str
    waves_per_simd: float
    workgroup_waves: int
    lanes: int = 64
    line_bytes: int = 128


def residency_of(kernel: KernelReport, counts: KernelCounts, arch: str, line_bytes: int) -> Residency | None:
    """The waves of a launch: as many as fit, or fewer where the launch does not fill the arch's largest part. None
    without numbers for the arch."""
    costs, parts = costs_of(arch), AMD_GPUS.get(arch.partition(":")[0])
    if costs is None:
        return None
    resources = kernel.resources
    waves = max(1, -(-resources.workgroup_size // resources.wavefront_size))
    most = kernel.occupancy.waves_per_simd if kernel.occupancy is not None else 1
    groups = counts.all_workgroups / max(1, counts.launches)
    on_cu = ceil(groups / parts[0][1].compute_units) if parts else inf
    return Residency(
        arch=arch,
        waves_per_simd=min(max(1, most), on_cu * waves / costs.simds),
        workgroup_waves=waves,
        lanes=resources.wavefront_size,
        line_bytes=line_bytes,
    )


@dataclass(slots=True)
class _Walk:
    """A wave on its way; times in clocks from the beginning of a block."""

    ready: dict[str, tuple[float, int]] = field(default_factory=dict)
    """When a register can be read, and whose result it is."""

    under_way: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By counter, the ends of operations that are not known to have ended, in their order."""

    busy: dict[str, float] = field(default_factory=dict)
    """Until when a unit is taken."""

    since_barrier: dict[str, float] = field(default_factory=dict)
    """Clocks of units since the last barrier."""

    def later(self, clocks: float) -> _Walk:
        """As seen from so many clocks later."""
        return _Walk(
            {name: (at - clocks, by) for name, (at, by) in self.ready.items() if at > clocks},
            {name: [(at - clocks, by) for at, by in queue] for name, queue in self.under_way.items()},
            {unit: at - clocks for unit, at in self.busy.items() if at > clocks},
            dict(self.since_barrier),
        )


def cycles_of(
    instructions: Sequence[Instruction], counts: Mapping[int, InstructionCounts], resident: Residency
) -> CycleEstimate | None:
    """The estimate for the instructions of a kernel with their counts by address; None for an arch without numbers."""
    costs = costs_of(resident.arch)
    return None if costs is None else _Estimator(instructions, counts, resident, costs).estimate()


class _Estimator:
    def __init__(
        self,
        instructions: Sequence[Instruction],
        counts: Mapping[int, InstructionCounts],
        resident: Residency,
        costs: CycleCosts,
    ) -> None:
        self._instructions = instructions
        self._counts = [counts.get(one.address, NOTHING_COUNTED) for one in instructions]
        self._resident, self._costs = resident, costs
        self._arch = resident.arch.partition(":")[0]
        self._flow = control_flow_of(instructions)
        self._sources: list[list[int]] = [[] for _ in self._flow.blocks]
        for number, block in enumerate(self._flow.blocks):
            for successor in block.successors:
                self._sources[successor].append(number)
        self._issue = [0.0] * len(instructions)
        self._waits: list[dict[WaitCause, float]] = [{} for _ in instructions]
        self._uses: list[dict[str, float]] = [self._units_of(index) for index in range(len(instructions))]
        self._unknown: set[str] = set()

    def estimate(self) -> CycleEstimate:
        order = [block for block in self._order() if self._block_count(block)]
        before = self._most_frequent_sources()
        left: dict[int, _Walk] = {}
        for _ in range(WALKS):
            for block in order:
                source = before[block]
                left[block] = self._walk(block, _Walk() if source is None else left.get(source, _Walk()))
        self._add_others()
        found = {}
        for index, instruction in enumerate(self._instructions):
            issued = self._counts[index].issued
            if issued:
                waits = {cause: clocks * issued for cause, clocks in self._waits[index].items() if clocks > 0}
                found[instruction.address] = InstructionCycles(self._issue[index] * issued, waits)
        return CycleEstimate(found, tuple(self._notes()))

    def _notes(self) -> Iterable[str]:
        yield f"of waves, with {self._resident.waves_per_simd:.3g} on a SIMD at a time"
        yield f"each load is served by L2, after {self._costs.memory} cycles ({self._costs.memory_source})"
        if self._unknown:
            yield f"no estimate of {', '.join(sorted(self._unknown))}"

    # ---- Control flow ------------------------------------------------------------------------------------------------
    def _block_count(self, block: int) -> int:
        return self._counts[self._flow.blocks[block].first].issued

    def _order(self) -> list[int]:
        """Blocks so that one comes after those that lead to it, but for loops."""
        seen: set[int] = set()
        found: list[int] = []
        for entry in range(len(self._flow.blocks)):
            stack = [] if entry in seen else [(entry, iter(self._flow.blocks[entry].successors))]
            seen.add(entry)
            while stack:
                block, successors = stack[-1]
                following = next((one for one in successors if one not in seen), None)
                if following is None:
                    found.append(block)
                    stack.pop()
                else:
                    seen.add(following)
                    stack.append((following, iter(self._flow.blocks[following].successors)))
        return found[::-1]

    def _most_frequent_sources(self) -> list[int | None]:
        return [max(sources, key=self._block_count, default=None) for sources in self._sources]

    def _taken(self, index: int, block: int) -> float:
        """The part of a branch's issues that goes elsewhere, as far as counts tell; of what is left, branches backwards
        are taken."""
        instruction, issued = self._instructions[index], self._counts[index].issued
        if not instruction.mnemonic.startswith("s_cbranch"):
            return 1.0
        following, sources = self._flow.blocks[block].successors, self._sources
        elsewhere = [one for one in following if one != block + 1]
        if block + 1 in following and len(sources[block + 1]) == 1:
            return max(0.0, 1.0 - self._block_count(block + 1) / issued)
        if elsewhere and len(sources[elsewhere[0]]) == 1:
            return min(1.0, self._block_count(elsewhere[0]) / issued)
        return float(instruction.target is not None and instruction.target <= instruction.address)

    # ---- One wave ----------------------------------------------------------------------------------------------------
    def _units_of(self, index: int) -> dict[str, float]:
        """Clocks that an instruction takes of each unit that waves share."""
        instruction, counts, costs = self._instructions[index], self._counts[index], self._costs
        kind = traits(instruction.mnemonic).kind
        if kind is InstructionKind.MFMA:
            return {MATRIX: matrix_clocks(instruction.text, costs) or 0.0}
        if kind is InstructionKind.VALU:
            return {ALU: valu_clocks(instruction.mnemonic, costs)[0]}
        if kind is InstructionKind.SALU:
            return {SCALAR: costs.issue}
        if kind in (InstructionKind.LDS_READ, InstructionKind.LDS_WRITE):
            turns = counts.turns / counts.accesses if counts.accesses else 1.0
            port = lds_clocks(instruction.mnemonic, 0.0, self._resident.lanes, costs)
            return {LDS: turns, LDS_PORT: port}
        if kind in (InstructionKind.GLOBAL_LOAD, InstructionKind.GLOBAL_STORE):
            lines = counts.cache_lines / counts.requests if counts.requests else 1.0
            clocks = memory_clocks(lines, self._resident.line_bytes, self._resident.lanes, costs)
            return {} if clocks is None else {MEMORY: clocks}
        return {}

    def _sharing(self, unit: str) -> float:
        """Waves of the kernel that share a unit."""
        return max(1.0, self._resident.waves_per_simd * self._simds(unit))

    def _simds(self, unit: str) -> int:
        return {LDS: self._costs.simds, MEMORY: self._costs.simds, LDS_PORT: self._costs.lds_port_simds}.get(unit, 1)

    def _walk(self, block: int, begin: _Walk) -> _Walk:
        """Walk through a block and note what each instruction takes; return how it is left."""
        walk, now = begin.later(0.0), 0.0
        found = self._flow.blocks[block]
        for index in range(found.first, found.last + 1):
            instruction = self._instructions[index]
            waits: dict[WaitCause, float] = {}
            for until, cause in sorted(self._needs(index, walk), key=lambda one: one[0]):
                if until > now:
                    waits[cause] = waits.get(cause, 0.0) + until - now
                    now = until
            if instruction.mnemonic.startswith("s_barrier"):
                waits[BARRIER] = self._spread(walk)
                now += waits[BARRIER]
                walk.since_barrier.clear()
            self._waits[index] = waits
            self._issue[index] = self._issue_clocks(index, block)
            self._begin(index, walk, now)
            now += self._issue[index]
        return walk.later(now)

    def _needs(self, index: int, walk: _Walk) -> Iterable[tuple[float, WaitCause]]:
        """When what an instruction needs is there, and what that is."""
        instruction = self._instructions[index]
        mnemonic = instruction.mnemonic
        if mnemonic.startswith("s_wait"):
            for counter, left in wait_limits(instruction):
                queue = walk.under_way.get(counter, [])
                ended = queue[: max(0, len(queue) - left)]
                if ended:
                    until, by = max(ended)
                    yield until, self._cause(by)
                    if min(ended)[0] == UNKNOWN:
                        self._unknown.add(STORES)
                    del queue[: len(ended)]
            return
        kind = traits(mnemonic).kind
        forwarded = instruction.operands[0] if kind is InstructionKind.MFMA else ""
        for operand in _read_operands(instruction):
            if operand.partition(" ")[0] == forwarded:
                continue  # the sum goes on in the matrix unit
            for register in registers(operand):
                if register in walk.ready:
                    until, by = walk.ready[register]
                    yield until, self._cause(by)
        if kind is InstructionKind.MFMA:
            yield walk.busy.get(MATRIX, 0.0), WaitCause(MATRIX)
        if kind is InstructionKind.VALU:
            yield walk.busy.get(ALU, 0.0), WaitCause(ALU)

    def _cause(self, by: int) -> WaitCause:
        instruction = self._instructions[by]
        kind = traits(instruction.mnemonic).kind
        what = "scalar load" if instruction.mnemonic.startswith("s_") else _WORDS.get(kind, "LDS operation")
        return WaitCause(what, instruction.address)

    def _issue_clocks(self, index: int, block: int) -> float:
        instruction = self._instructions[index]
        idle = _SLEEP.match(instruction.text)
        if idle is not None:
            number = int(idle[2], 0)
            return self._costs.issue * (number + 1) if idle[1] == "nop" else max(_SLEEP_CLOCKS * number, 1)
        if traits(instruction.mnemonic).kind is InstructionKind.BRANCH:
            taken = self._taken(index, block)
            return taken * self._costs.branch + (1 - taken) * self._costs.issue
        return self._costs.issue

    def _begin(self, index: int, walk: _Walk, now: float) -> None:
        """Start what an instruction leaves under way."""
        instruction, uses = self._instructions[index], self._uses[index]
        mnemonic, kind, costs = instruction.mnemonic, traits(instruction.mnemonic).kind, self._costs
        for unit, taken in uses.items():
            walk.since_barrier[unit] = walk.since_barrier.get(unit, 0.0) + taken
        if kind is InstructionKind.MFMA:
            clocks = matrix_clocks(instruction.text, costs)
            if clocks is None:
                self._unknown.add(mnemonic)
                return
            walk.busy[MATRIX] = now + clocks
            if not beside_valu(mnemonic, self._arch):
                walk.busy[ALU] = max(walk.busy.get(ALU, 0.0), now + clocks)
            result = costs.matrix_result_short if clocks <= TWO_PASSES else costs.matrix_result
            self._write(instruction, walk, now + clocks + result, index)
        elif kind is InstructionKind.VALU:
            busy, result = valu_clocks(mnemonic, costs)
            walk.busy[ALU] = max(walk.busy.get(ALU, 0.0), now + busy)
            self._write(instruction, walk, now + result, index)
        else:
            self._count_up(index, walk, self._end(index, walk, now))

    def _write(self, instruction: Instruction, walk: _Walk, until: float, index: int) -> None:
        for register in registers(instruction.operands[0]) if instruction.operands else ():
            walk.ready[register] = (until, index)

    def _end(self, index: int, walk: _Walk, now: float) -> float:
        """When an operation of memory ends."""
        instruction, uses, costs = self._instructions[index], self._uses[index], self._costs
        kind = traits(instruction.mnemonic).kind
        if instruction.mnemonic.startswith("s_"):
            return now + costs.scalar_load
        if kind in (InstructionKind.LDS_READ, InstructionKind.LDS_WRITE) or instruction.mnemonic.startswith("ds_"):
            clocks = max(uses.values(), default=1.0)
            walk.busy[LDS] = max(now, walk.busy.get(LDS, 0.0)) + clocks
            return walk.busy[LDS] + costs.lds - 1
        clocks = uses.get(MEMORY, 1.0)
        walk.busy[MEMORY] = max(now, walk.busy.get(MEMORY, 0.0)) + clocks
        return walk.busy[MEMORY] + costs.memory - 1 if kind is InstructionKind.GLOBAL_LOAD else UNKNOWN

    def _count_up(self, index: int, walk: _Walk, end: float) -> None:
        counters = counters_of(self._instructions[index].mnemonic, self._arch)
        for counter in counters:
            queue = walk.under_way.setdefault(counter, [])
            queue.append((end, index))
            del queue[:-64]  # no counter counts further

    def _spread(self, walk: _Walk) -> float:
        """How long a wave waits at a barrier for the others of its workgroup, on average."""
        waves = self._resident.workgroup_waves / self._costs.simds
        others = {unit: max(0.0, waves * self._simds(unit) - 1) for unit in walk.since_barrier}
        return max((clocks * others[unit] / 2 for unit, clocks in walk.since_barrier.items()), default=0.0)

    # ---- The others --------------------------------------------------------------------------------------------------
    def _add_others(self) -> None:
        inside: dict[int, int | None] = dict.fromkeys(range(len(self._flow.blocks)))
        for number, loop in enumerate(self._flow.loops):
            inside.update(dict.fromkeys(loop.own, number))
        regions: dict[int | None, list[int]] = defaultdict(list)
        for block, loop_number in inside.items():
            regions[loop_number] += self._flow.members([block])
        for members in regions.values():
            alone = 0.0
            used: dict[str, float] = defaultdict(float)
            for index in members:
                issued = self._counts[index].issued
                alone += issued * (self._issue[index] + sum(self._waits[index].values()))
                for unit, clocks in self._uses[index].items():
                    used[unit] += issued * clocks * self._sharing(unit)
            unit, needed = max(used.items(), key=lambda one: one[1], default=("", 0.0))
            for index in members if needed > alone and self._sharing(unit) > 1 else ():
                part = self._uses[index].get(unit, 0.0) * self._sharing(unit) / needed
                if part:
                    cause = WaitCause(unit)
                    self._waits[index][cause] = self._waits[index].get(cause, 0.0) + part * (needed - alone)


_NO_RESULT = ("ds_write", "ds_store", "s_wait", "s_barrier", "s_nop", "s_cbranch", "s_branch", "exp")


def _read_operands(instruction: Instruction) -> tuple[str, ...]:
    """The operands that an instruction reads; those of memory that has none to write are all."""
    operands = instruction.operands
    if "_store" in instruction.mnemonic or instruction.mnemonic.startswith(_NO_RESULT):
        return operands
    return operands[1:]


@cache
def registers(operand: str) -> tuple[str, ...]:
    """Each register of an operand: `v[2:3]` has v2 and v3."""
    found: list[str] = []
    for file, single, first, last, special in _REGISTER.findall(operand):
        if special:
            found.append(special)
        elif single:
            found.append(f"{file}{single}")
        else:
            found += (f"{file}{number}" for number in range(int(first), int(last) + 1))
    return tuple(found)
