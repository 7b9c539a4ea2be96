"""Every instruction of memory by the ISA documents, byte by byte: buffer, global, flat, scratch, LDS and scalar ones.

Registers of the recorded lines: results from v10 (s24), addresses in v20 (s20, buffers in s8), data from v30 and v40.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from references.instruction_text import Text, parse
from references.wave_emulator import LANES, M0, PRIVATE_BASE, SHARED_BASE, Bytes, WaveState

RESULT, ADDRESS, DATA, DATA_2 = 10, 20, 30, 40
SCALAR_RESULT, SCALAR_BASE, RESOURCE, SCALAR_OFFSET, SCALAR_ADDRESS = 24, 20, 8, 16, 18

LOADS = {
    "ubyte": (1, False), "sbyte": (1, True), "ushort": (2, False), "sshort": (2, True), "short": (2, False),
    "dword": (4, False), "dwordx2": (8, False), "dwordx3": (12, False), "dwordx4": (16, False), "dwordx8": (32, False),
    "dwordx16": (64, False), "u8": (1, False), "i8": (1, True), "u16": (2, False), "i16": (2, True), "b8": (1, False),
    "b16": (2, False), "b32": (4, False), "b64": (8, False), "b96": (12, False), "b128": (16, False), "byte": (1, False),
}  # fmt: skip
"""Bytes, and whether these are sign-extended."""

HALVES = [f"{kind}_d16{half}" for kind in ("ubyte", "sbyte", "short") for half in ("", "_hi")]
VECTOR_LOADS = [*("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx2", "dwordx3", "dwordx4"), *HALVES]
VECTOR_STORES = ["byte", "byte_d16_hi", "short", "short_d16_hi", "dword", "dwordx2", "dwordx3", "dwordx4"]
INTEGER_ATOMICS = ["swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec"]
FLOAT_ATOMICS = ["add_f32", "pk_add_f16", "pk_add_bf16", "add_f64", "min_f64", "max_f64"]
CACHES = [
    *("buffer_inv sc1", "buffer_wbl2 sc0 sc1", "buffer_invl2", "buffer_wbl2", "buffer_wbinvl1", "buffer_wbinvl1_vol"),
    *("s_dcache_inv", "s_dcache_inv_vol", "s_dcache_wb", "s_dcache_wb_vol", "s_atc_probe 2, s[20:21], 0x0", "ds_nop"),
    *("s_dcache_discard s[20:21], 0x0", "s_dcache_discard_x2 s[20:21], 0x0", "s_atc_probe_buffer 2, s[8:11], 0x0"),
]
"""Of these nothing is seen."""

AROUND = [
    *("global_load_dwordx4 v[30:33], v[60:61], off", "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt vmcnt(0)"),
    *("s_waitcnt lgkmcnt(0)", "global_store_dwordx4 v[60:61], v[10:13], off offset:1024"),
]
"""Instructions that tests execute before and after the one under test."""

PREFIXES = ("buffer_", "tbuffer_", "global_", "flat_", "scratch_", "ds_", "s_load", "s_store", "s_buffer", "s_scratch",
            "s_atomic", "s_mem", "s_dcache", "s_atc")  # fmt: skip
NOTHING = {line.split()[0] for line in CACHES}
TIMES = {"s_memtime", "s_memrealtime"}


def is_refused(line: str) -> bool:
    """Instructions that the emulator does not know: global data share, formats that are converted or go to LDS."""
    text = parse(line)
    unknown = text.base in ("buffer_load_format_d16_hi_x", "ds_ordered_count", "ds_gws_barrier")
    return unknown or text.has("gds") or "_d16_xyz " in line or ("format" in line and text.has("lds"))


def has_reference(line: str) -> bool:
    text, is_memory = line.partition(" // ")[0], line.startswith(PREFIXES)
    return is_memory and text not in AROUND and parse(line).base not in NOTHING | TIMES and not is_refused(line)


# ---- The lines that are recorded -----------------------------------------------------------------------------------


def registers(first: int, size: int, letter: str = "v") -> str:
    """Those that hold as many bytes."""
    count = -(-size // 4)
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


BUFFER_FORMS = [
    *("off, s[8:11], 0 offset:16", "v20, s[8:11], s16 offen offset:8", "v20, s[8:11], 0 idxen"),
    "v[20:21], s[8:11], s16 idxen offen offset:8",
]
ADDRESSES = {
    "buffer": BUFFER_FORMS,
    "global": ["v[20:21], {}off offset:-16", "v20, {}s[18:19] offset:24"],
    "flat": ["v[20:21]{} offset:8"],
    "scratch": ["v20, {}off offset:4", "off, {}s16 offset:8", "v20, {}s16 offset:-4", "off, {}off offset:20"],
}


def memory_lines() -> Iterator[str]:
    for space, forms in ADDRESSES.items():
        for form in forms:
            before, brace, after = form.partition("{}")
            for kind in VECTOR_LOADS:
                result = registers(RESULT, LOADS[kind.split("_")[0]][0])
                yield f"{space}_load_{kind} {result}, {form.format('')}"
                yield f"{space}_load_{kind} {form.format('').removeprefix('off, ')} lds"
                yield f"{space}_load_lds_{kind} {form.format('')}"
            for kind in VECTOR_STORES:
                data = registers(DATA, LOADS[kind.split("_")[0]][0])
                yield f"{space}_store_{kind} " + (
                    f"{before.rstrip(', ')}, {data}{', ' * before.endswith(', ')}{after}"
                    if brace
                    else f"{data}, {form}"
                )
            for name in [*INTEGER_ATOMICS, *(f"{n}_x2" for n in INTEGER_ATOMICS), *FLOAT_ATOMICS]:
                size = 8 if name.endswith(("x2", "f64")) else 4
                data = registers(DATA, 2 * size if "cmp" in name else size)
                where = (
                    f"{before.rstrip(', ')}, {data}{', ' * before.endswith(', ')}{after}"
                    if brace
                    else f"{data}, {form}"
                )
                yield f"{space}_atomic_{name} {where}"
                for returns in ("sc0", "glc"):
                    yield (
                        f"{space}_atomic_{name} {where} {returns}"
                        if space == "buffer"
                        else (f"{space}_atomic_{name} {registers(RESULT, size)}, {where} {returns}")
                    )
    for space in ("buffer", "tbuffer"):
        for n, kind in enumerate(("x", "xy", "xyz", "xyzw")):
            for half in ("", "d16_"):
                words = n + 1 if not half else n // 2 + 1
                typed = ["32", "32_32", "32_32_32", "32_32_32_32"] if not half else ["16", "16_16", "", "16_16_16_16"]
                suffix = f" format:[BUF_DATA_FORMAT_{typed[n]},BUF_NUM_FORMAT_FLOAT]" if space == "tbuffer" else ""
                yield f"{space}_load_format_{half}{kind} {registers(RESULT, 4 * words)}, v20, s[8:11], s16{suffix} offen"
                yield f"{space}_store_format_{half}{kind} {registers(DATA, 4 * words)}, v20, s[8:11], s16{suffix} idxen"
    yield from scalar_memory_lines()
    yield from lds_lines()
    yield from CACHES
    yield from AROUND
    yield from ("buffer_load_format_d16_hi_x v10, v20, s[8:11], s16 offen", "ds_ordered_count v10, v20 gds")
    yield from ("ds_gws_barrier v10 gds", "ds_add_u32 v20, v30 gds", "buffer_load_format_x v20, s[8:11], s16 offen lds")


def scalar_memory_lines() -> Iterator[str]:
    for space, base in (("s", "s[20:21]"), ("s_buffer", "s[8:11]"), ("s_scratch", "s[20:21]")):
        for offset in ("0x14", "s16", "s16 offset:0x8", "-0x8"):
            for kind in ("dword", "dwordx2", "dwordx4", "dwordx8", "dwordx16"):
                for way in ("load", "store"):
                    yield f"{space}_{way}_{kind} {registers(SCALAR_RESULT, LOADS[kind][0], 's')}, {base}, {offset}"
            for name in INTEGER_ATOMICS if space != "s_scratch" and offset[0] == "0" else ():
                for size, suffix in ((4, ""), (8, "_x2")):
                    data = registers(SCALAR_RESULT, 2 * size if "cmp" in name else size, "s")
                    for returns in ("", " glc"):
                        yield f"{space}_atomic_{name}{suffix} {data}, {base}, 0x10{returns}"
    yield from ("s_memtime s[24:25]", "s_memrealtime s[26:27]")


def lds_lines() -> Iterator[str]:
    for kind in (
        *("u8", "i8", "u16", "i16", "u8_d16", "u8_d16_hi", "i8_d16", "i8_d16_hi", "u16_d16", "u16_d16_hi"),
        *("b32", "b64", "b96", "b128"),
    ):
        yield from (
            f"ds_read_{kind} {registers(RESULT, LOADS[kind.split('_')[0]][0])}, v20{at}" for at in ("", " offset:16")
        )
    for kind in ("b8", "b8_d16_hi", "b16", "b16_d16_hi", "b32", "b64", "b96", "b128"):
        yield from (
            f"ds_write_{kind} v20, {registers(DATA, LOADS[kind.split('_')[0]][0])}{at}" for at in ("", " offset:32")
        )
    for size in (4, 8):
        one, two, result = registers(DATA, size), registers(DATA_2, size), registers(RESULT, size)
        for stride in ("", "st64"):
            yield f"ds_read2{stride}_b{8 * size} {registers(RESULT, 2 * size)}, v20 offset0:1 offset1:3"
            yield f"ds_write2{stride}_b{8 * size} v20, {one}, {two} offset0:2 offset1:1"
            yield f"ds_wrxchg2{stride}_rtn_b{8 * size} {registers(RESULT, 2 * size)}, v20, {one}, {two} offset0:2 offset1:1"
        for name in ("add_u", "sub_u", "rsub_u", "inc_u", "dec_u", "min_i", "max_i", "min_u", "max_u", "and_b", "or_b",
                     "xor_b", "mskor_b", "add_f", "min_f", "max_f", "cmpst_b", "cmpst_f", "wrxchg_b", "pk_add_f16",
                     "pk_add_bf16", "wrap_b"):  # fmt: skip
            operation, _, kind = name.rpartition("_")
            kind = kind if "16" in kind else f"{kind}{8 * size}"
            data = f"{one}, {two}" if operation in ("mskor", "cmpst", "wrap") else one
            yield f"ds_{operation}_{kind} v20, {data}"
            yield f"ds_{operation}_rtn_{kind} {result}, v20, {data} offset:8"
    yield from ("ds_condxchg32_rtn_b64 v[10:11], v20, v[30:31]", "ds_append v10 offset:8", "ds_consume v10 offset:12")
    yield from ("ds_read_addtid_b32 v10 offset:16", "ds_write_addtid_b32 v30 offset:32")
    yield from (f"ds_read_b64_tr_b{bits} v[10:11], v20 offset:16" for bits in (4, 8, 16))
    yield from ("ds_read_b96_tr_b6 v[10:12], v20 offset:16", "ds_bpermute_b32 v10, v20, v30")
    yield from (
        "ds_bpermute_b32 v10, v20, v30 offset:8",
        "ds_permute_b32 v10, v20, v30",
        "ds_permute_b32 v10, v20, v30 offset:12",
    )
    for pattern in (
        0x041F,
        0x7C1F,
        0x001C,
        0x801B,
        0x80E4,
        0x401F,
        0xC0E3,
        0xC460,
        0xC7E0,
        0xE000,
        0xE003,
        0xE015,
        0xE01F,
    ):
        yield f"ds_swizzle_b32 v10, v30 offset:{pattern:#x}"


# ---- Where a lane's bytes are --------------------------------------------------------------------------------------


BEYOND: set[int] = set()
"""First bytes of the accesses of the last reference that were not of the space as a whole; these do nothing."""


@dataclass
class Bytewise:
    """Bytes of the state; a place of -1 is beyond a buffer, where 0 is read and nothing is written."""

    space: Bytes
    at: list[int]

    def within(self) -> bool:
        good = max(self.at) < len(self.space)
        if not good:
            BEYOND.add(self.at[0])
        return good

    def get(self) -> int:
        within = self.within()
        return int.from_bytes(bytes(int(self.space[n]) if within and n >= 0 else 0 for n in self.at), "little")

    def put(self, value: int) -> None:
        data = (value & (1 << 8 * len(self.at)) - 1).to_bytes(len(self.at), "little")
        for n, byte in zip(self.at, data, strict=True) if self.within() else ():
            if n >= 0:
                self.space[n] = byte


def offset_of(text: Text, name: str = "offset") -> int:
    return int(text.modifiers.get(name, "0"), 0)


def lane_scratch(state: WaveState, lane: int, at: int, size: int) -> Bytewise:
    return Bytewise(state.scratch[lane], list(range(at, at + size)))


def in_memory(state: WaveState, address: int, base: int, size: int) -> Bytewise:
    return Bytewise(state.memory, list(range(address - base, address - base + size)))


def buffer_places(text: Text, state: WaveState, lane: int, base: int, size: int, *, whole: bool) -> Bytewise:
    at = next(n for n, operand in enumerate(text.operands) if operand.text == "s[8:11]")
    words = [int(word) for word in state.scalars[RESOURCE : RESOURCE + 4]]
    buffer = words[0] | (words[1] & 0xFFFF) << 32
    stride, swizzled, records = words[1] >> 16 & 0x3FFF, words[1] >> 31, words[2]
    index_stride, by_lane = 8 << (words[3] >> 21 & 3), words[3] >> 23 & 1
    values = iter(state.vectors[ADDRESS : ADDRESS + 2, lane].tolist())
    index = next(values) if text.has("idxen") else 0
    offset = (next(values) if text.has("offen") else 0) + offset_of(text) & 0xFFFFFFFF
    structured = text.has("idxen") and stride
    swizzled &= by_lane
    by_lane &= swizzled or not text.has("idxen")
    further = int(state.scalars[SCALAR_OFFSET]) if text.operands[at + 1].text == "s16" else 0
    record, found = index + lane * by_lane, []
    for n in range(size):
        end = size if whole else min(n // 4 * 4 + 4, size)
        within = index < records if structured else offset + further + end <= records
        place = offset + n
        if swizzled:
            rows = record // index_stride * stride + place // 4 * 4
            place = rows * index_stride + record % index_stride * 4 + place % 4
        else:
            place += record * stride
        found.append(buffer + further + place - base if within else -1)
    return Bytewise(state.memory, found)


def places(text: Text, state: WaveState, lane: int, base: int, size: int, *, whole: bool = False) -> Bytewise:
    """Of a vector instruction that is none of LDS."""
    space, offset = text.base.split("_")[0], offset_of(text)
    if "buffer" in space:
        return buffer_places(text, state, lane, base, size, whole=whole)
    words = [int(word) for word in state.vectors[ADDRESS : ADDRESS + 2, lane]]
    printed = [operand.text for operand in text.operands]
    if space == "scratch":
        first = words[0] if "v20" in printed else 0
        further = int(state.scalars[SCALAR_OFFSET]) if "s16" in printed else 0
        return lane_scratch(state, lane, first + further + offset, size)
    if "s[18:19]" in printed:
        return in_memory(state, state.pair(SCALAR_ADDRESS) + words[0] + offset, base, size)
    if space == "flat" and words[1] == state.scalars[SHARED_BASE + 1]:
        return Bytewise(state.lds, list(range(words[0] + offset, words[0] + offset + size)))
    if space == "flat" and words[1] == state.scalars[PRIVATE_BASE + 1]:
        return lane_scratch(state, lane, words[0] + offset, size)
    return in_memory(state, (words[0] | words[1] << 32) + offset, base, size)


# ---- What is done there --------------------------------------------------------------------------------------------


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def bfloat_sum(m: int, d: int) -> int:
    exact = np.uint32(m << 16).view(np.float32) + np.uint32(d << 16).view(np.float32)
    bits = int(exact.view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


def half_sum(m: int, d: int) -> int:
    with np.errstate(over="ignore"):
        return int((np.uint16(m).view(np.float16) + np.uint16(d).view(np.float16)).view(np.uint16))


def floating(size: int, value: int) -> Any:
    return np.uint32(value).view(np.float32) if size == 4 else np.uint64(value).view(np.float64)


def number(size: int, value: Any) -> int:
    return int(value.view(np.uint32 if size == 4 else np.uint64))


def chosen(size: int, m: int, d: int, sign: int) -> int:
    """The smaller or larger one; a quiet NaN is none, and -0 is less than +0."""
    candidates = [x for x in (m, d) if not math.isnan(floating(size, x))]
    return min(candidates, key=lambda x: (sign * float(floating(size, x)), sign * math.copysign(1, floating(size, x))))


def condition(m: int, d: int) -> int:
    return d & 0x7FFFFFFF if d >> 31 else m


def combined(name: str, size: int, m: int, d: int, s: int) -> int:
    """Return the new contents of memory from its old contents and the two operands."""
    kind, _, of = name.partition("_")
    if of in ("add_f16", "add_bf16"):
        compute = half_sum if of == "add_f16" else bfloat_sum
        return compute(m & 0xFFFF, d & 0xFFFF) | compute(m >> 16, d >> 16) << 16
    if of.startswith("f"):
        x, y = floating(size, m), floating(size, d)
        if kind == "add":
            return number(size, x + y)
        if kind == "cmpst":
            return s if x == y else m
        return chosen(size, m, d, 1 if kind == "min" else -1)
    if kind == "condxchg32":
        return condition(m & 0xFFFFFFFF, d & 0xFFFFFFFF) | condition(m >> 32, d >> 32) << 32
    by_sign = kind.startswith("sm") or of.startswith("i")
    larger = max(m, d, key=lambda x: signed(x, 8 * size) if by_sign else x)
    smaller = m + d - larger
    return {
        "add": m + d, "sub": m - d, "rsub": d - m, "inc": 0 if m >= d else m + 1, "and": m & d, "or": m | d,
        "dec": d if m == 0 or m > d else m - 1, "xor": m ^ d, "swap": d, "wrxchg": d, "mskor": m & ~d | s,
        "min": smaller, "umin": smaller, "smin": smaller, "max": larger, "umax": larger, "smax": larger,
        "cmpswap": d if m == s else m, "cmpst": s if m == d else m, "wrap": m - d if m >= d else m + s,
    }[kind]  # fmt: skip


def register_value(state: WaveState, row: int, lane: int, size: int) -> int:
    words = state.vectors[row : row + -(-size // 4), lane]
    return sum(int(word) << 32 * n for n, word in enumerate(words)) & (1 << 8 * size) - 1


def put_register(state: WaveState, row: int, lane: int, size: int, value: int) -> None:
    for n in range(-(-size // 4)):
        state.vectors[row + n, lane] = value >> 32 * n & 0xFFFFFFFF


def as_loaded(value: int, size: int, is_signed: bool, half: str) -> int:
    """In a register: those with ECC are written as a whole, the other half of a d16 with 0."""
    value = signed(value, 8 * size) & 0xFFFFFFFF if is_signed else value
    return value if not half else (value & 0xFFFF) << 16 * (half == "hi")


def half_of(kind: str) -> str:
    return "hi" if kind.endswith("_hi") else "lo" if "d16" in kind else ""


def active(state: WaveState) -> list[int]:
    return [lane for lane in range(LANES) if state.exec_mask >> lane & 1]


def returns(text: Text) -> bool:
    return text.has("sc0") or text.has("glc")


def vector_memory(text: Text, state: WaveState, want: WaveState, base: int) -> None:
    space, way, kind = text.base.split("_", 2)
    typed = kind.startswith("format")
    to_lds = text.has("lds") or kind.startswith("lds_")
    kind = kind.removeprefix("lds_")
    for lane in active(state):
        if way == "atomic":
            size = 8 if kind.endswith(("x2", "f64")) else 4
            place = places(text, state, lane, base, size, whole=True)
            place.space = {id(state.memory): want.memory, id(state.lds): want.lds}[id(place.space)]
            old, data = place.get(), register_value(state, DATA, lane, size)
            second = register_value(state, DATA + size // 4, lane, size)
            place.put(combined(kind.removesuffix("_x2"), size, old, data, second))
            if returns(text):
                put_register(want, DATA if space == "buffer" else RESULT, lane, size, old)
            continue
        components = len(kind.rpartition("_")[2])
        element = 2 if "d16" in kind else 4
        size, is_signed = (components * element, False) if typed else LOADS[kind.split("_")[0]]
        place = places(text, state, lane, base, size, whole=typed)
        if way == "load" and to_lds:
            written, step = max(size, 4), 4 if size <= 4 else 16
            at = int(state.scalars[M0]) + offset_of(text) + lane * step
            Bytewise(want.lds, list(range(at, at + written))).put(as_loaded(place.get(), size, is_signed, ""))
        elif way == "load":
            half = "" if typed else half_of(kind)
            put_register(want, RESULT, lane, size, as_loaded(place.get(), size, is_signed, half))
        else:
            place.space = {id(state.memory): want.memory, id(state.lds): want.lds}.get(
                id(place.space), want.scratch[lane]
            )
            place.put(register_value(state, DATA, lane, max(size, 4)) >> 16 * ("_hi" in kind))


def scalar_memory(text: Text, state: WaveState, want: WaveState, base: int) -> None:
    name = text.base.removeprefix("s_")
    space, way, kind = name.split("_", 2) if name.startswith(("buffer", "scratch")) else ("", *name.split("_", 1))
    printed = text.operands[2].text
    offset = (
        int(state.scalars[SCALAR_OFFSET]) * (64 if space == "scratch" else 1) if printed == "s16" else int(printed, 0)
    )
    offset = offset + offset_of(text) & ~3
    size = LOADS[kind][0] if way != "atomic" else 8 if kind.endswith("x2") else 4
    first = state.pair(RESOURCE if space == "buffer" else SCALAR_BASE)
    limit = 1 << 40
    if space == "buffer":
        stride, first = first >> 48 & 0x3FFF, first & (1 << 48) - 1
        limit = int(state.scalars[RESOURCE + 2]) * (stride or 1)
    end = [size if way == "atomic" else n // 4 * 4 + 4 for n in range(size)]
    place = Bytewise(want.memory, [first - base + offset + n if offset + end[n] <= limit else -1 for n in range(size)])
    data, second = (
        int.from_bytes(state.scalars[at : at + size // 4].tobytes(), "little")
        for at in (SCALAR_RESULT, SCALAR_RESULT + size // 4)
    )
    old = place.get()
    if way == "store":
        place.put(data)
    if way == "atomic":
        place.put(combined(kind.removesuffix("_x2"), size, old, data, second))
    if way == "load" or (way == "atomic" and returns(text)):
        want.scalars[SCALAR_RESULT : SCALAR_RESULT + size // 4] = np.frombuffer(old.to_bytes(size, "little"), np.uint32)


def lds(text: Text, state: WaveState, want: WaveState) -> None:
    name = text.base.removeprefix("ds_")
    way, _, kind = name.partition("_")
    on, offset = active(state), offset_of(text)
    if way in ("append", "consume"):
        place = Bytewise(want.lds, [int(state.scalars[M0]) + offset + n for n in range(4)])
        want.vectors[RESULT, on] = place.get()
        place.put(place.get() + (len(on) if way == "append" else -len(on)))
        return
    if "_tr_" in name:
        transposing_read(int(name.rpartition("_b")[2]), state, want, offset)
        return
    two, stride = way.endswith(("2", "2st64")) and "32" not in way, 64 if "st64" in way else 1
    size = LOADS[f"b{name[-2:]}"][0] if two else 4
    for lane in on:
        first = int(state.vectors[ADDRESS, lane])
        if "addtid" in kind:
            first = int(state.scalars[M0]) + 4 * lane
        if two:
            spots = [Bytewise(want.lds, list(range(at, at + size))) for key in ("offset0", "offset1")
                     for at in [first + offset_of(text, key) * size * stride]]  # fmt: skip
            if not way.startswith("write"):
                for n, spot in enumerate(spots):
                    put_register(want, RESULT + n * size // 4, lane, size, spot.get())
            for spot, row in zip(spots, (DATA, DATA_2), strict=True) if not way.startswith("read") else ():
                spot.put(register_value(state, row, lane, size))
        elif way in ("read", "write"):
            size, is_signed = LOADS[kind.removeprefix("addtid_").split("_")[0]]
            place = Bytewise(want.lds, list(range(first + offset, first + offset + size)))
            if way == "read":
                put_register(want, RESULT, lane, size, as_loaded(place.get(), size, is_signed, half_of(kind)))
            else:
                place.put(register_value(state, DATA, lane, max(size, 4)) >> 16 * kind.endswith("hi"))
        else:
            returned, operation = "rtn_" in name, name.replace("rtn_", "")
            size = 8 if name.endswith("64") else 4
            place = Bytewise(want.lds, list(range(first + offset, first + offset + size)))
            old = place.get()
            data, second = (register_value(state, row, lane, size) for row in (DATA, DATA_2))
            place.put(combined(operation, size, old, data, second))
            if returned:
                put_register(want, RESULT, lane, size, old)


def transposing_read(bits: int, state: WaveState, want: WaveState, offset: int) -> None:
    """16 lanes read the rows of a matrix one after the other, 16 elements each; each lane gets a column."""
    size = 12 if bits == 6 else 8
    elements = size * 8 // bits
    for lane in active(state):
        rows = []
        for n in range(16):
            at = int(state.vectors[ADDRESS, lane // 16 * 16 + n]) + offset
            on = state.exec_mask >> lane // 16 * 16 + n & 1
            whole = Bytewise(state.lds, list(range(at, at + size))).get() if on else 0
            rows += [whole >> bits * e & (1 << bits) - 1 for e in range(elements)]
        matrix = np.array(rows, object).reshape(elements, 16)
        put_register(want, RESULT, lane, size, sum(int(x) << bits * n for n, x in enumerate(matrix[:, lane % 16])))


def swizzle_source(pattern: int, lane: int) -> int:
    half, within = lane & 32, lane & 31
    if pattern >= 0xE000:  # FFT: bits in reverse order
        reverse = int(f"{within:05b}"[::-1], 2)
        return half | reverse >> (pattern & 31).bit_count() | within & pattern & 31
    if pattern >= 0xC000:  # rotation
        by = (pattern >> 5 & 31) * (-1 if pattern >> 10 & 1 else 1)
        return half | within & pattern & 31 | (within + by) & ~pattern & 31
    if pattern & 0x8000:  # four lanes
        return lane & ~3 | pattern >> 2 * (lane & 3) & 3
    return half | ((within & pattern | pattern >> 5 & 31) ^ pattern >> 10 & 31) & 31


def permuted(text: Text, state: WaveState, want: WaveState, pattern: int) -> None:
    on = active(state)
    addresses = [(int(a) + offset_of(text)) // 4 % LANES for a in state.vectors[ADDRESS]] if pattern < 0 else []
    if text.base == "ds_permute_b32":
        pushed = {addresses[lane]: state.vectors[DATA, lane] for lane in on}
        want.vectors[RESULT, on] = [pushed.get(lane, 0) for lane in on]
        return
    sources = addresses or [swizzle_source(pattern, lane) for lane in range(LANES)]
    want.vectors[RESULT, on] = [state.vectors[DATA, sources[lane]] if sources[lane] in on else 0 for lane in on]


def reference(line: str, state: WaveState, base: int) -> WaveState:
    """The state afterwards; memory begins at `base`."""
    text, want = parse(line), state.copy()
    BEYOND.clear()
    if text.base in ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32"):
        pattern = int(line.split(" // ")[1].split()[0], 16) & 0xFFFF if "swizzle" in text.base else -1
        permuted(text, state, want, pattern)
    elif text.base.startswith("ds_"):
        lds(text, state, want)
    elif text.base.startswith("s_"):
        scalar_memory(text, state, want, base)
    else:
        vector_memory(text, state, want, base)
    return want
