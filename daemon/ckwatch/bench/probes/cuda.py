"""The probe kernels in PTX, which the driver of any NVIDIA GPU since Volta compiles: no compiler is needed."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ckwatch.bench.runtimes.cuda_api import CUDA
from ckwatch.bench.runtimes.device_runtime import DeviceRuntime

FLUSH_INSTRUCTIONS = 16_384
"""Of 16 bytes each, 256 KiB of code: twice the 128 KiB of instruction cache that an SM has (Jia et al., "Dissecting the
NVIDIA Volta GPU architecture via microbenchmarking", 2018; later ones are not known to have more)."""

_CHAINS = 8  # independent ones, so that the code runs as fast as it is fetched
_THREADS = 256
_BLOCKS_PER_UNIT = 8

_KERNELS = """
.visible .entry ckwatch_read(.param .u64 memory, .param .u64 count, .param .u32 passes, .param .u64 sink)
{
    .reg .pred %p;
    .reg .b32 %sum, %pass, %passes, %a, %b, %c, %d, %threads, %block, %thread, %blocks;
    .reg .b64 %memory, %count, %sink, %first, %at, %step, %address, %wide;
    ld.param.u64 %memory, [memory];
    ld.param.u64 %count, [count];
    ld.param.u32 %passes, [passes];
    ld.param.u64 %sink, [sink];
    mov.u32 %threads, %ntid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %first, %block, %threads;
    cvt.u64.u32 %wide, %thread;
    add.s64 %first, %first, %wide;
    mul.wide.u32 %step, %blocks, %threads;
    mov.u32 %sum, 0;
    mov.u32 %pass, 0;
AGAIN:
    setp.ge.u32 %p, %pass, %passes;
    @%p bra DONE;
    mov.u64 %at, %first;
NEXT:
    setp.ge.u64 %p, %at, %count;
    @%p bra ENDED;
    shl.b64 %address, %at, 4;
    add.s64 %address, %memory, %address;
    ld.global.cg.v4.u32 {%a, %b, %c, %d}, [%address];
    xor.b32 %sum, %sum, %a;
    xor.b32 %sum, %sum, %b;
    xor.b32 %sum, %sum, %c;
    xor.b32 %sum, %sum, %d;
    add.s64 %at, %at, %step;
    bra NEXT;
ENDED:
    add.u32 %pass, %pass, 1;
    bra AGAIN;
DONE:
    setp.ne.u32 %p, %sum, 0x9E3779B9;
    @%p bra RETURN;
    st.global.u32 [%sink], %sum;
RETURN:
    ret;
}

.visible .entry ckwatch_spin(.param .u64 cycles)
{
    .reg .pred %p;
    .reg .b64 %cycles, %begin, %now;
    ld.param.u64 %cycles, [cycles];
    mov.u64 %begin, %clock64;
AGAIN:
    mov.u64 %now, %clock64;
    sub.s64 %now, %now, %begin;
    setp.lt.s64 %p, %now, %cycles;
    @%p bra AGAIN;
    ret;
}

.visible .entry ckwatch_fault(.param .u64 address)
{
    .reg .b32 %one;
    .reg .b64 %address;
    ld.param.u64 %address, [address];
    mov.u32 %one, 1;
    st.global.u32 [%address], %one;
    ret;
}

.visible .entry ckwatch_cycles(.param .u64 counters)
{
    .reg .b32 %unit;
    .reg .b64 %now, %address, %offset;
    ld.param.u64 %address, [counters];
    mov.u32 %unit, %smid;
    mul.wide.u32 %offset, %unit, 8;
    add.s64 %address, %address, %offset;
    mov.u64 %now, %clock64;
    st.global.u64 [%address], %now;
    ret;
}
"""

_FLUSH = "ckwatch_flush_instructions"
_NOWHERE = 0x10
"""An address that is never mapped."""


_HEAD = """
.version 7.0
.target sm_70
.address_size 64
"""


def ptx() -> str:
    """The text of the kernels, without the flush."""
    return _HEAD + _KERNELS


@cache
def flush_ptx() -> str:
    """The text of the flush: multiply-adds of values that are known at the launch only, so that none can be left out.

    It is apart because compiling it takes a driver about a second.
    """
    names = [f"%value{chain}" for chain in range(_CHAINS)]
    body = "".join(
        f"    fma.rn.f32 {names[number % _CHAINS]}, {names[number % _CHAINS]}, %factor, %addend;\n"
        for number in range(FLUSH_INSTRUCTIONS)
    )
    start = "".join(f"    add.f32 {name}, %factor, 0f{number:08X};\n" for number, name in enumerate(names))
    total = "".join(f"    add.f32 {names[0]}, {names[0]}, {name};\n" for name in names[1:])
    return f"""{_HEAD}
.visible .entry ckwatch_flush_instructions(.param .f32 factor, .param .f32 addend, .param .u64 sink)
{{
    .reg .pred %p;
    .reg .f32 %factor, %addend, {", ".join(names)};
    .reg .b64 %sink;
    ld.param.f32 %factor, [factor];
    ld.param.f32 %addend, [addend];
    ld.param.u64 %sink, [sink];
{start}{body}{total}    setp.neu.f32 %p, {names[0]}, 0f7F000000;
    @%p bra RETURN;
    st.global.f32 [%sink], {names[0]};
RETURN:
    ret;
}}
"""


class CudaProbes:
    """The kernels, loaded into the present context; launches go to `stream`. Raises BenchmarkError."""

    def __init__(self, stream: int, compute_units: int) -> None:
        self._stream = stream
        self._compute_units = max(1, compute_units)
        self._modules: dict[str, Any] = {}
        self._functions: dict[str, Any] = {}
        self._sink = int(CUDA.call("cuMemAlloc", 256))

    def read(self, address: int, size_bytes: int, passes: int) -> None:
        """Every SM reads its share of each pass, past the L1 cache."""
        self._launch(
            "ckwatch_read",
            self._compute_units * _BLOCKS_PER_UNIT,
            _THREADS,
            ctypes.c_uint64(address),
            ctypes.c_uint64(size_bytes // 16),
            ctypes.c_uint32(passes),
            ctypes.c_uint64(self._sink),
        )

    def spin(self, cycles: int) -> None:
        """One thread looks at its SM's clock."""
        self._launch("ckwatch_spin", 1, 1, ctypes.c_int64(cycles))

    def fault(self) -> None:
        """One thread writes to an address that is never mapped."""
        self._launch("ckwatch_fault", 1, 1, ctypes.c_uint64(_NOWHERE))

    def flush_instructions(self) -> None:
        """A warp on each of an SM's four processors, which have small caches of their own."""
        self._launch(
            _FLUSH,
            *(self._compute_units, 128),
            ctypes.c_float(1.0),
            ctypes.c_float(0.0),
            ctypes.c_uint64(self._sink),
        )

    def count_cycles(self, counters: int) -> None:
        """Write each SM's cycle counter to its place among the 64-bit integers at `counters`."""
        self._launch("ckwatch_cycles", self._compute_units * _BLOCKS_PER_UNIT, 32, ctypes.c_uint64(counters))

    def _module(self, text: str) -> Any:
        if text not in self._modules:
            content = ctypes.create_string_buffer(text.encode())  # ends with a zero
            self._modules[text] = CUDA.call("cuModuleLoadData", ctypes.addressof(content))
        return self._modules[text]

    def _launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        if name not in self._functions:
            text = flush_ptx() if name == _FLUSH else ptx()
            self._functions[name] = CUDA.call("cuModuleGetFunction", self._module(text), name.encode())
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        CUDA.call(
            "cuLaunchKernel",
            self._functions[name],
            *(blocks, 1, 1, threads, 1, 1, 0),
            self._stream,
            ctypes.addressof(places),
            0,
        )


_COUNTER_BYTES = 8


class CycleCounter:
    """Counts cycles between two points of a stream: they repeat where a power limit moves the clock, and times with it.

    Raises BenchmarkError.
    """

    def __init__(self, runtime: DeviceRuntime, probes: CudaProbes) -> None:
        self._runtime = runtime
        self._probes = probes
        self._size = _COUNTER_BYTES * max(1, runtime.facts.compute_units)
        self._first, self._last = (runtime.allocate(self._size) for _ in range(2))

    def begin(self) -> None:
        """Put the first point on the stream."""
        self._probes.count_cycles(self._first)

    def end(self) -> None:
        """Put the other one there."""
        self._probes.count_cycles(self._last)

    def kcycles(self) -> float | None:
        """Thousands of cycles between the two, which the stream has passed: the median of the SMs; None without any."""
        content = [np.zeros(self._size, np.uint8) for _ in range(2)]
        for address, into in zip((self._first, self._last), content, strict=True):
            self._runtime.download(address, into)
        first, last = (one.view(np.int64) for one in content)
        seen = (first > 0) & (last > first)
        return float(np.median((last - first)[seen])) / 1e3 if seen.any() else None
