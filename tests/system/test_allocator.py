"""Memory that is freed goes back to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from ckwatch.system.allocator import return_free_pages, return_freed_memory

FREED = """
import sys, threading
from pathlib import Path
from ckwatch.system.allocator import return_freed_memory

return_freed_memory()

def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])

def use(results):
    kept = [bytearray(300_000) for _ in range(200)]
    results.append(resident_pages())

results = [resident_pages()]
for _ in range(4):
    thread = threading.Thread(target=use, args=(results,))
    thread.start()
    thread.join()
results.append(resident_pages())
print(*results)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="the C library is not glibc")
def test_what_threads_free_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    before, *during, after = map(int, done.stdout.split())
    assert min(during) - before > 10_000
    assert after - before < 1_000


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    return_freed_memory()
    return_free_pages()
