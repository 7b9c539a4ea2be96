"""Loads a code object into the emulator and launches one of its kernels; prints the error, the problem and findings.

python launched_code.py LIBRARY OBJECT KERNEL GRID BLOCK
"""

from __future__ import annotations

import ctypes
import json
import sys

_, name, path, kernel, grid, block = sys.argv
library = ctypes.CDLL(name)
for told in ("hipGetErrorName", "ckwatch_emulator_problem", "ckwatch_emulator_finding"):
    getattr(library, told).restype = ctypes.c_char_p
module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
error = library.hipModuleLoad(ctypes.byref(module), path.encode())
if not error:
    library.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(4096))
    library.hipMemset(memory, 0, ctypes.c_size_t(4096))
    arguments = (ctypes.c_void_p * 512)(*[memory.value] * 512)
    size = ctypes.c_size_t(ctypes.sizeof(arguments))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(arguments), 2, ctypes.addressof(size), 3)
    error = library.hipModuleGetFunction(ctypes.byref(function), module, kernel.encode())
    shape = (int(grid), 1, 1, int(block), 1, 1, 0, None)
    error = error or library.hipModuleLaunchKernel(function, *shape, None, extra) or library.hipDeviceSynchronize()
findings: list[object] = []
while text := library.ckwatch_emulator_finding(len(findings)):
    findings.append(json.loads(text))
problem = (library.ckwatch_emulator_problem() or b"").decode()
print(json.dumps({"error": library.hipGetErrorName(error).decode(), "problem": problem, "findings": findings}))
