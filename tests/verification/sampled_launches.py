"""Launches functions of a shared object with a sample of their workgroups, and prints what the emulator says of each.

python sampled_launches.py LIBRARY OBJDUMP OBJECT FUNCTION…
"""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import suppress

import numpy as np

from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.verification.device import EmulatedDevice

BYTES = 256 * 64 * 4
_, library, objdump, path, *names = sys.argv
device = EmulatedDevice(library, objdump, "gfx942")
kernels = ctypes.CDLL(path)
found = {}
for name in names:
    device.clear()
    device.configure(checked=True, traced=False, workgroups=None, seed=1)
    x, y = device.allocate(BYTES), device.allocate(BYTES)
    device.upload(x, np.zeros(BYTES, np.uint8))
    device.mark_undefined(y, BYTES)
    if name == "atomics":
        device.upload(y, np.zeros(BYTES, np.uint8))
    launch = getattr(kernels, name)
    launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    device.begin_sample(20, 1)
    with suppress(BenchmarkError):
        launch(x, y)
        device.synchronize()
    why = device.end_sample()
    written = device.sampled(y, BYTES)
    told = {"why": why, "workgroups": device.workgroups(), "written": int(written.sum())}
    told |= {"first": bool(written[0]), "last": bool(written[-1])}
    device.clear()
    device.watch(y + (3 * 64 + 5) * 4, 4)
    with suppress(BenchmarkError):
        launch(x, y)
        device.synchronize()
    device.watch(0, 0)
    found[name] = told | {"watched": [one for one in device.findings() if one["kind"] == "wrong-result"]}
    device.free(x)
    device.free(y)
print(json.dumps(found))
