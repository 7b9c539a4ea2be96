"""The probe kernels for AMD GPUs: HIP source, which hipcc makes a shared object of, and its functions.

Composable Kernel's own kernels are launched in the same way: by a C function of a shared object, on the stream.
"""

from __future__ import annotations

import ctypes

from ckwatch.bench.kernel_abi import loaded_from_memory
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError

SYMBOL = "ckwatch_probe_read"
MORE_SYMBOLS = ("ckwatch_probe_spin", "ckwatch_probe_fault", "ckwatch_probe_flush_instructions")

FLUSH_BYTES = 256 * 1024
"""Code of the flush: four times the 64 KiB of instruction cache that two compute units of CDNA3 share (AMD's CDNA 3
white paper), eight times the 32 KiB of CDNA2."""

HIP_SOURCE = f"""#include <cstdint>
#include <hip/hip_runtime.h>

#define PROBE extern "C" __attribute__((visibility("default"))) int

namespace {{

__global__ void read_memory(const uint4* memory, uint64_t count, uint32_t passes, uint32_t* sink) {{
    uint32_t sum = 0;
    const uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    for (uint32_t pass = 0; pass < passes; ++pass)
        for (uint64_t at = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {{
            const uint4 value = memory[at];
            sum ^= value.x ^ value.y ^ value.z ^ value.w;
            asm volatile("" : "+v"(sum));
        }}
    if (sum == 0x9E3779B9u) *sink = sum;
}}

__global__ void spin(int64_t cycles) {{
    const int64_t begin = clock64();
    while (int64_t(clock64()) - begin < cycles) {{}}
}}

__global__ void fault(uint32_t* address) {{ *address = 1; }}

__global__ void flush_instructions(uint32_t value, uint32_t* sink) {{
    uint32_t sum = value + threadIdx.x;
    // eight bytes each: the long encoding
    asm volatile(".rept {FLUSH_BYTES // 8}\\n v_xor_b32_e64 %0, %1, %0\\n .endr" : "+v"(sum) : "v"(value));
    if (sum == 0x9E3779B9u) *sink = sum;
}}

}}  // namespace

PROBE {SYMBOL}(
    void* memory, uint64_t size_bytes, uint32_t passes, void* sink, int blocks, void* stream) {{
    read_memory<<<blocks, 256, 0, hipStream_t(stream)>>>(
        static_cast<const uint4*>(memory), size_bytes / 16, passes, static_cast<uint32_t*>(sink));
    return hipGetLastError();
}}

PROBE {MORE_SYMBOLS[0]}(int64_t cycles, void* stream) {{
    spin<<<1, 1, 0, hipStream_t(stream)>>>(cycles);
    return hipGetLastError();
}}

PROBE {MORE_SYMBOLS[1]}(void* address, void* stream) {{
    fault<<<1, 1, 0, hipStream_t(stream)>>>(static_cast<uint32_t*>(address));
    return hipGetLastError();
}}

PROBE {MORE_SYMBOLS[2]}(void* sink, int blocks, void* stream) {{
    flush_instructions<<<blocks, 256, 0, hipStream_t(stream)>>>(0, static_cast<uint32_t*>(sink));
    return hipGetLastError();
}}
"""
"""Its functions return the error of their launch."""

_NOWHERE = 0x10
_SINK_BYTES = 256
_BLOCKS_PER_UNIT = 8


class HipProbes:
    """The functions of the shared object made of `HIP_SOURCE`; launches go to `stream`. Raises BenchmarkError."""

    def __init__(self, shared_object: bytes, stream: int, compute_units: int) -> None:
        self._stream = ctypes.c_void_p(stream)
        self._compute_units = max(1, compute_units)
        try:
            self._library = loaded_from_memory(shared_object, "ckwatch-probes")
        except OSError as error:
            raise BenchmarkError(FailureKind.UNLOADABLE, "the probe kernels cannot be loaded", "", str(error)) from None
        from ckwatch.bench.runtimes.hip_api import HIP

        self._sink = ctypes.c_void_p(int(HIP.call("hipMalloc", _SINK_BYTES)))

    def read(self, address: int, size_bytes: int, passes: int) -> None:
        """Every compute unit reads its share of each pass."""
        blocks = ctypes.c_int(self._compute_units * _BLOCKS_PER_UNIT)
        memory, size = ctypes.c_void_p(address), ctypes.c_uint64(size_bytes)
        self._call(SYMBOL, memory, size, ctypes.c_uint32(passes), self._sink, blocks)

    def spin(self, cycles: int) -> None:
        """One thread looks at the clock."""
        self._call(MORE_SYMBOLS[0], ctypes.c_int64(cycles))

    def fault(self) -> None:
        """One thread writes to an address that is never mapped."""
        self._call(MORE_SYMBOLS[1], ctypes.c_void_p(_NOWHERE))

    def flush_instructions(self) -> None:
        """Workgroups on every compute unit."""
        self._call(MORE_SYMBOLS[2], self._sink, ctypes.c_int(self._compute_units))

    def _call(self, symbol: str, *arguments: object) -> None:
        status = getattr(self._library, symbol)(*arguments, self._stream)
        if status:
            raise BenchmarkError(FailureKind.BROKEN, f"{symbol} failed with HIP's error {status}")
