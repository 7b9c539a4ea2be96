"""HIP's functions that need no kernel: graphs and captured streams, arrays, pools, contexts, and names of the rest."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckwatch.verification.library import SOURCES

INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT, NOT_SUPPORTED = 1, 101, 201, 801
CAPTURE_UNSUPPORTED, CAPTURE_UNJOINED, CAPTURE_IMPLICIT, CAPTURED_EVENT = 900, 904, 906, 907
UPDATE_FAILURE, INVALID_CHANNELS = 910, 911
TO_DEVICE, TO_HOST = 1, 2
GLOBAL, RELAXED = 0, 2
SIZE = 64


class FillNode(ctypes.Structure):
    """A hipMemsetParams."""

    _fields_ = [
        ("target", ctypes.c_void_p), ("element", ctypes.c_uint), ("height", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t), ("value", ctypes.c_uint), ("width", ctypes.c_size_t),
    ]  # fmt: skip


class Channels(ctypes.Structure):
    """A hipChannelFormatDesc."""

    _fields_ = [(name, ctypes.c_int) for name in "xyzwf"]


class Hip:
    """Calls of the library: with addresses and numbers, and an error of another kind than `fails` is none expected."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def __call__(self, name: str, *arguments: Any, fails: int = 0) -> None:
        plain = [ctypes.c_size_t(value) if isinstance(value, int) else value for value in arguments]
        assert getattr(self._library, name)(*plain) == fails, name

    def made(self, name: str, *arguments: Any) -> int:
        """Return the handle that a function writes to its first argument."""
        handle = ctypes.c_size_t()
        self(name, ctypes.byref(handle), *arguments)
        return handle.value

    def number(self, name: str, *arguments: Any) -> int:
        """Return the number that a function writes to its last argument."""
        value = ctypes.c_size_t()
        self(name, *arguments, ctypes.byref(value))
        return value.value

    def content(self, address: int, size: int = SIZE) -> bytes:
        there = ctypes.create_string_buffer(size)
        self("hipMemcpy", there, address, size, TO_HOST)
        return there.raw

    def memory(self, value: int = 0, size: int = SIZE) -> int:
        address = self.made("hipMalloc", size)
        self("hipMemset", address, value, size)
        return address


@pytest.fixture(scope="module")
def hip(library: Path) -> Hip:
    return Hip(library)


def fill(address: int, value: int, width: int = SIZE) -> FillNode:
    return FillNode(address, 1, 1, 0, value, width)


def test_a_graph_of_nodes_runs_in_the_order_of_its_dependencies(hip: Hip) -> None:
    a, b, graph = hip.memory(), hip.memory(), hip.made("hipGraphCreate", 0)
    copy = hip.made("hipGraphAddMemcpyNode1D", graph, None, 0, b, a, SIZE, 3)
    first = hip.made("hipGraphAddMemsetNode", graph, None, 0, ctypes.byref(fill(a, 5)))
    second = hip.made("hipGraphAddMemsetNode", graph, (ctypes.c_size_t * 1)(copy), 1, ctypes.byref(fill(a, 9)))
    hip("hipGraphAddDependencies", graph, ctypes.byref(ctypes.c_size_t(first)), ctypes.byref(ctypes.c_size_t(copy)), 1)
    runs = hip.made("hipGraphInstantiate", graph, None, None, 0)
    hip("hipGraphLaunch", runs, None)
    assert (hip.content(a), hip.content(b)) == (b"\x09" * SIZE, b"\x05" * SIZE)

    hip("hipGraphExecMemsetNodeSetParams", runs, first, ctypes.byref(fill(a, 6)))
    hip("hipGraphLaunch", runs, None)
    assert hip.content(b) == b"\x06" * SIZE
    hip("hipGraphNodeSetEnabled", runs, first, 0)
    hip("hipGraphLaunch", runs, None)
    assert hip.content(b) == b"\x09" * SIZE  # of the launch before

    hip(
        "hipGraphAddDependencies", graph, ctypes.byref(ctypes.c_size_t(second)), ctypes.byref(ctypes.c_size_t(first)), 1
    )
    hip("hipGraphInstantiate", ctypes.byref(ctypes.c_size_t()), graph, None, None, 0, fails=INVALID_VALUE)  # a circle
    hip("hipGraphDestroyNode", second)
    count = ctypes.c_size_t()
    hip("hipGraphGetEdges", graph, None, None, ctypes.byref(count))
    assert count.value == 1
    hip("hipGraphDestroy", graph)
    hip("hipGraphDestroy", graph, fails=INVALID_VALUE)
    hip("hipGraphLaunch", runs, None)


def test_a_clone_updates_what_was_instantiated(hip: Hip) -> None:
    a, graph = hip.memory(), hip.made("hipGraphCreate", 0)
    node = hip.made("hipGraphAddMemsetNode", graph, None, 0, ctypes.byref(fill(a, 1)))
    runs, clone = hip.made("hipGraphInstantiate", graph, None, None, 0), hip.made("hipGraphClone", graph)
    twin = hip.made("hipGraphNodeFindInClone", node, clone)
    hip("hipGraphMemsetNodeSetParams", twin, ctypes.byref(fill(a, 2)))
    failed, result = ctypes.c_size_t(), ctypes.c_int()
    hip("hipGraphExecUpdate", runs, clone, ctypes.byref(failed), ctypes.byref(result))
    hip("hipGraphLaunch", runs, None)
    assert hip.content(a) == b"\x02" * SIZE
    hip.made("hipGraphAddEmptyNode", clone, None, 0)
    hip("hipGraphExecUpdate", runs, clone, ctypes.byref(failed), ctypes.byref(result), fails=UPDATE_FAILURE)
    assert result.value == 2  # hipGraphExecUpdateErrorTopologyChanged


def test_a_stream_and_what_forks_from_it_are_captured(hip: Hip) -> None:
    a, b = hip.memory(), hip.memory()
    main, side = hip.made("hipStreamCreate"), hip.made("hipStreamCreate")
    fork, join = hip.made("hipEventCreate"), hip.made("hipEventCreate")
    hip("hipStreamBeginCapture", main, GLOBAL)
    hip("hipMemsetAsync", a, 3, SIZE, main)
    hip("hipEventRecord", fork, main)
    hip("hipStreamWaitEvent", side, fork, 0)
    hip("hipMemcpyAsync", b, a, SIZE, 3, side)
    hip("hipEventRecord", join, side)
    hip("hipStreamWaitEvent", main, join, 0)
    hip("hipMemsetAsync", a, 4, SIZE, main)
    hip("hipMalloc", ctypes.byref(ctypes.c_size_t()), SIZE, fails=CAPTURE_UNSUPPORTED)
    hip("hipEventQuery", join, fails=CAPTURED_EVENT)
    assert hip.number("hipStreamIsCapturing", side) == 1
    graph = ctypes.c_size_t()
    hip("hipStreamEndCapture", main, ctypes.byref(graph))
    assert hip.content(a) == bytes(SIZE)  # nothing has run
    runs = hip.made("hipGraphInstantiate", graph.value, None, None, 0)
    hip("hipGraphLaunch", runs, main)
    hip("hipStreamSynchronize", main)
    assert (hip.content(a), hip.content(b)) == (b"\x04" * SIZE, b"\x03" * SIZE)


def test_mistakes_while_capturing(hip: Hip) -> None:
    a, main, side, fork = (
        hip.memory(),
        hip.made("hipStreamCreate"),
        hip.made("hipStreamCreate"),
        hip.made("hipEventCreate"),
    )
    graph = ctypes.byref(ctypes.c_size_t())
    hip("hipStreamBeginCapture", None, RELAXED, fails=CAPTURE_UNSUPPORTED)
    hip("hipStreamBeginCapture", main, RELAXED)
    hip("hipFree", hip.made("hipMalloc", SIZE))  # which a relaxed capture allows
    hip("hipEventRecord", fork, main)
    hip("hipStreamWaitEvent", side, fork, 0)
    hip("hipMemsetAsync", a, 1, SIZE, side)
    hip("hipStreamEndCapture", main, graph, fails=CAPTURE_UNJOINED)
    hip("hipStreamBeginCapture", main, RELAXED)
    hip("hipMemsetAsync", a, 1, SIZE, None, fails=CAPTURE_IMPLICIT)
    hip("hipStreamEndCapture", main, graph, fails=901)  # hipErrorStreamCaptureInvalidated
    assert hip.content(a) == bytes(SIZE)


def test_memory_of_a_captured_stream(hip: Hip) -> None:
    b, stream, graph, taken = hip.memory(), hip.made("hipStreamCreate"), ctypes.c_size_t(), ctypes.c_size_t()
    hip("hipStreamBeginCapture", stream, GLOBAL)
    hip("hipMallocAsync", ctypes.byref(taken), SIZE, stream)
    hip("hipMemsetAsync", taken.value, 8, SIZE, stream)
    hip("hipMemcpyAsync", b, taken.value, SIZE, 3, stream)
    hip("hipFreeAsync", taken.value, stream)
    hip("hipStreamEndCapture", stream, ctypes.byref(graph))
    runs = hip.made("hipGraphInstantiate", graph.value, None, None, 0)
    for _ in range(2):
        hip("hipMemset", b, 0, SIZE)
        hip("hipGraphLaunch", runs, stream)
        hip("hipStreamSynchronize", stream)
        assert hip.content(b) == b"\x08" * SIZE


def test_functions_of_the_host_and_children(hip: Hip) -> None:
    seen: list[int] = []
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(data or 0))
    graph, outer = hip.made("hipGraphCreate", 0), hip.made("hipGraphCreate", 0)
    host = (ctypes.c_void_p * 2)(ctypes.cast(call, ctypes.c_void_p), 7)
    hip.made("hipGraphAddHostNode", graph, None, 0, host)
    child = hip.made("hipGraphAddChildGraphNode", outer, None, 0, graph)
    hip.made("hipGraphAddChildGraphNode", outer, ctypes.byref(ctypes.c_size_t(child)), 1, graph)
    hip("hipGraphDestroy", graph)
    runs = hip.made("hipGraphInstantiate", outer, None, None, 0)
    hip("hipGraphLaunch", runs, None)
    hip("hipDeviceSynchronize")
    assert seen == [7, 7]

    kept = hip.made("hipUserObjectCreate", 1, call, 1, 1)
    hip("hipGraphRetainUserObject", outer, kept, 1, 1)
    assert seen == [7, 7]
    hip("hipGraphDestroy", outer)
    assert seen == [7, 7, 1]


def test_arrays_are_rows(hip: Hip) -> None:
    whole = bytes(range(8 * 4))
    array = hip.made("hipMallocArray", ctypes.byref(Channels(16, 16, 0, 0, 1)), 2, 4, 0)  # 4 rows of 8 bytes
    hip("hipMemcpy2DToArray", array, 0, 0, whole, 8, 8, 4, TO_DEVICE)
    part = ctypes.create_string_buffer(12)
    hip("hipMemcpy2DFromArray", part, 6, array, 4, 1, 4, 2, TO_HOST)
    assert part.raw == whole[12:16] + b"\0\0" + whole[20:24] + b"\0\0"
    hip("hipMemcpy2DFromArray", part, 8, array, 4, 1, 8, 1, TO_HOST, fails=INVALID_VALUE)
    channels = Channels()
    hip("hipGetChannelDesc", ctypes.byref(channels), array)
    assert (channels.x, channels.y, channels.z, channels.w, channels.f) == (16, 16, 0, 0, 1)
    hip("hipFreeArray", array)
    hip("hipFreeArray", array, fails=INVALID_CONTEXT)
    odd = ctypes.byref(Channels(16, 8, 0, 0, 1))
    hip("hipMallocArray", ctypes.byref(ctypes.c_size_t()), odd, 2, 4, 0, fails=INVALID_CHANNELS)


def test_pools_count_what_was_taken(hip: Hip) -> None:
    used, high = 7, 8
    stream, pool = hip.made("hipStreamCreate"), hip.made("hipDeviceGetDefaultMemPool", 0)
    before = hip.number("hipMemPoolGetAttribute", pool, used)
    taken = hip.made("hipMallocAsync", 1000, stream)
    assert hip.number("hipMemPoolGetAttribute", pool, used) == before + 1000
    hip("hipFreeAsync", taken, stream)
    hip("hipStreamSynchronize", stream)
    assert hip.number("hipMemPoolGetAttribute", pool, used) == before
    assert hip.number("hipMemPoolGetAttribute", pool, high) >= before + 1000


def test_managed_memory_keeps_what_is_said_of_it(hip: Hip) -> None:
    preferred, last_prefetch, nowhere = 2, 4, -2
    managed, plain, value = hip.made("hipMallocManaged", SIZE, 1), hip.memory(), ctypes.c_int()

    def said(attribute: int) -> int:
        hip("hipMemRangeGetAttribute", ctypes.byref(value), 4, attribute, managed, SIZE)
        return value.value

    assert said(preferred) == nowhere
    hip("hipMemAdvise", managed, SIZE, 3, 0)
    hip("hipMemPrefetchAsync", managed, SIZE, ctypes.c_int(-1), None)
    assert (said(preferred), said(last_prefetch)) == (0, -1)
    hip("hipMemAdvise", plain, SIZE, 3, 0, fails=INVALID_VALUE)


def test_contexts_are_a_stack(hip: Hip) -> None:
    primary = hip.made("hipCtxGetCurrent")
    context = hip.made("hipCtxCreate", 0, 0)
    assert hip.made("hipCtxGetCurrent") == context
    assert hip.made("hipCtxPopCurrent") == context
    assert hip.made("hipCtxGetCurrent") == primary
    hip("hipCtxDestroy", context)
    hip("hipCtxDestroy", context, fails=INVALID_CONTEXT)


def test_hip_5_reads_properties_where_it_had_them(hip: Hip) -> None:
    into = [ctypes.create_string_buffer(b"\xff" * 2048, 2048) for _ in range(2)]
    hip("hipGetDevicePropertiesR0600", into[0], 0)
    hip("hipGetDeviceProperties", into[1], 0)
    new, old = (one.raw for one in into)
    assert old[792:] == b"\xff" * (2048 - 792)
    assert old[396:652].rstrip(b"\0") == b"gfx942:sramecc+:xnack-"
    for name, (before, since, size) in {
        "name": (0, 0, 256), "totalGlobalMem": (256, 288, 8), "sharedMemPerBlock": (264, 296, 8),
        "warpSize": (276, 308, 4), "maxThreadsDim[2]": (292, 332, 4), "maxGridSize[0]": (296, 336, 4),
        "clockRate": (308, 348, 4), "memoryClockRate": (312, 608, 4), "totalConstMem": (320, 352, 8),
        "major": (328, 360, 4), "multiProcessorCount": (336, 388, 4), "l2CacheSize": (340, 616, 4),
        "maxThreadsPerMultiProcessor": (344, 624, 4), "clockInstructionRate": (352, 1424, 4),
        "memPitch": (712, 312, 8), "isLargeBar": (764, 1464, 4),
    }.items():  # fmt: skip
        assert any(old[before : before + size]), name
        assert old[before : before + size] == new[since : since + size], name
    assert int.from_bytes(old[264:272], "little") == 65536
    assert int.from_bytes(old[276:280], "little") == 64
    assert int.from_bytes(old[392:396], "little") == 942  # gcnArch
    assert int.from_bytes(old[336:340], "little") == 304
    hip("hipGetDeviceProperties", into[1], 99, fails=INVALID_DEVICE)
    hip("hipGetDeviceProperties", None, 0, fails=INVALID_VALUE)
    assert hip.made("hipChooseDevice", into[1]) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hipImportExternalMemory", "hipImportExternalMemory is not emulated"),
        ("hipCreateTextureObject", "hipCreateTextureObject is refused: there are no textures and surfaces"),
    ],
)
def test_what_is_missing_says_its_name_once(library: Path, name: str, said: str) -> None:
    program = f"import ctypes; f = ctypes.CDLL({str(library)!r}).{name}; print(f(), f())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{NOT_SUPPORTED} {NOT_SUPPORTED}\n"
    assert done.stderr.startswith(f"emulated gfx942: {said}")
    assert done.stderr.count("\n") == 1


def test_all_names_are_exported(hip: Hip) -> None:
    names = re.findall(r"^EXPORTED\((\w+)\)$", (SOURCES / "hip_exports.inc").read_text(), re.MULTILINE)
    assert len(names) == len(set(names)) == 520
    for name in names:
        assert getattr(hip._library, name)
