"""One line on what an AMDGPU instruction does.

Names of memory accesses and of matrix products are built by rule and are read by rule here; the others stand in
`mnemonic_table`. GFX11 renamed many instructions (`ds_read_b128` is `ds_load_b128` there) without changing what they
do: both names get the same sentence, and `source` names one document that defines the operation, not one for each
arch. A name that is not known gets no explanation rather than a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ckwatch.analysis import mnemonic_table as table
from ckwatch.analysis.instructions import matrix_shape, traits

_ENCODING = re.compile(r"(?:_e32|_e64|_dpp8|_dpp|_sdwa|_w32|_w64)+$")
_COMPILED = tuple(
    (source, re.compile(f"(?:{pattern})"), sentence) for source, rows in table.TABLE for pattern, sentence in rows
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One line, and the document (with its chapter) to look it up in."""

    text: str
    source: str


_RESULT = re.compile(r"_(?P<result>b?[fi]\d+)_\d+x\d+x\d+")

_ELEMENT = re.compile(r"(?P<count>dword|[us]?byte|[us]?short|[biu](?P<bits>\d+))(?:x(?P<times>\d+))?")
_MEMORY = re.compile(
    r"(?P<space>s_buffer|s_scratch|s|buffer|global|flat|scratch|cluster)_(?P<way>load|store)_(?P<to_lds>lds_)?"
    r"(?P<asynchronous>async_(?:to|from)_lds_)?(?P<transposed>tr\d*_)?(?P<monitored>monitor_)?(?:addtid_)?"
    r"(?:(?P<half>d16_(?:hi_)?))?"
    r"(?P<element>block|dword(?:x\d+)?|[us]?byte|[us]?short|[biu]\d+)(?P<half_after>_d16(?:_hi)?)?(?:_addtid)?"
)
_DS = re.compile(
    r"ds_(?P<way>read|load|write|store)(?P<two>2(?:st64)?|_2addr(?:_stride64)?)?(?P<thread>_addtid)?(?P<source>_src2)?"
    r"(?P<transposed>_tr\d+)?_(?P<element>[biu]\d+)(?P<half>_d16(?:_hi)?)?(?P<transposed_after>_tr_b\d+)?"
)
_SPACES = {
    "s": ("scalar: ", "memory (constants, kernel arguments)", table.SCALAR_MEMORY),
    "s_buffer": ("scalar: ", "memory by a buffer descriptor", table.SCALAR_MEMORY),
    "s_scratch": ("scalar: ", "scratch", table.SCALAR_MEMORY),
    "buffer": ("", "memory by a buffer descriptor", table.VECTOR_MEMORY),
    "global": ("", "memory", table.FLAT),
    "flat": ("", "memory, LDS or scratch, as the address says", table.FLAT),
    "scratch": ("", "scratch (spilled registers, local arrays)", table.FLAT),
    "cluster": ("", "memory, for several workgroups", table.FLAT),
}
_NAMED_BYTES = {"dword": 4, "byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2}

_COUNTER = re.compile(r"(vmcnt|lgkmcnt|expcnt|vscnt)\((\d+)\)")
_COUNTED = {
    "vmcnt": ("vector memory operation", "vector memory operations"),
    "lgkmcnt": ("LDS or scalar memory operation", "LDS or scalar memory operations"),
    "expcnt": ("export", "exports"),
    "vscnt": ("store", "stores"),
}
_NUMBER = re.compile(r"\s*(0x[0-9a-fA-F]+|\d+)")
_TO_LDS = re.compile(r"\blds\b")
_NONTEMPORAL = re.compile(r"\bnt\b|\bth:TH_\w*NT\b")
_CROSS_LANE = re.compile(r"\b(?:row_\w+|wave_\w+|quad_perm|dpp8):?(?:\[[^]]*\]|\w+)?")


def explain(mnemonic: str, operands: str = "") -> Explanation | None:
    """What an instruction does; None when its name is not known.

    `operands` is the rest of the disassembled line: counters and modifiers make the sentence more precise and may be
    left out. A dual instruction is `v_dual_a::v_dual_b`, or has its second half in `operands`.
    """
    if mnemonic.startswith("v_dual_"):
        return _dual(mnemonic, operands)
    base = _ENCODING.sub("", mnemonic)
    found = _by_operands(base, operands) or _known(base)
    if found is None:
        return None
    text = found.text
    if mnemonic.startswith("buffer_load") and _TO_LDS.search(operands):
        text = text.replace("→ registers", "→ LDS, not through registers")
    return Explanation(text + _modified(mnemonic, operands), found.source)


@lru_cache(maxsize=4096)
def _known(base: str) -> Explanation | None:
    return _matrix(base) or _memory(base) or _lds(base) or _from_table(base)


def _from_table(base: str) -> Explanation | None:
    for source, pattern, sentence in _COMPILED:
        match = pattern.fullmatch(base)
        if match is not None:
            spoken = {
                name: table.WORDS.get(name, {}).get(value, value) for name, value in match.groupdict(default="").items()
            }
            return Explanation(sentence.format_map(spoken), source)
    return None


def _matrix(base: str) -> Explanation | None:
    shape, result = matrix_shape(base), _RESULT.search(base)
    if shape is None or result is None:
        return None
    types = shape.operands.removesuffix("_1k")
    a, _, b = types.partition("_")
    sources = f"{a} · {b}" if b and b != a else a
    if types == "f8f6f4":
        sources = "floats of 8, 6 or 4 bits"
    blocks = f"{shape.blocks} blocks of " if shape.blocks > 1 else ""
    sparse = base.startswith(("v_smfmac", "v_swmmac"))
    scaled = "_scale" in base
    text = (
        f"matrix unit: D = A · B + C, {blocks}{shape.m}×{shape.n}×{shape.k}, {sources} summed as {result['result']}"
        f"{', two of four elements of A zero' if sparse else ''}{', scaled' if scaled else ''}"
        f"; {traits(base).flops:,} {'operations' if result['result'] == 'i32' else 'FLOPs'} a wave"
    )
    source = table.MATRIX
    if base.startswith(("v_wmma", "v_swmmac")):
        source = table.RDNA4 if sparse or shape.k > 16 or "f8" in types else table.RDNA3
    elif scaled or types == "f8f6f4":
        source = table.CDNA4
    return Explanation(text, source)


def _memory(base: str) -> Explanation | None:
    match = _MEMORY.fullmatch(base)
    if match is None:
        return None
    prefix, space, source = _SPACES[match["space"]]
    amount = _amount(match["element"]) + ("" if prefix else " a lane")
    if match["asynchronous"] or match["to_lds"]:
        ways = (f"{space} → LDS", f"LDS → {space}")
        waits = ", in the background" if match["asynchronous"] else ", not through registers"
    else:
        ways = (f"{space} → registers", f"registers → {space}")
        waits = ""
    text = f"{prefix}{amount}, {ways[match['way'] == 'store']}{waits}"
    if match["half"] or match["half_after"]:
        text += ", half a register"
    if match["transposed"]:
        text += ", transposed for the matrix unit"
        source = table.RDNA4
    return Explanation(text, table.RDNA4 if match["asynchronous"] or match["space"] == "cluster" else source)


def _lds(base: str) -> Explanation | None:
    match = _DS.fullmatch(base)
    if match is None:
        return None
    reads = match["way"] in ("read", "load")
    text = f"{_amount(match['element'])} a lane, {'LDS → registers' if reads else 'registers → LDS'}"
    if match["two"]:
        steps = ", in steps of 64 elements" if "64" in match["two"] else ""
        text = f"twice {text}, at two offsets{steps}"
    if match["half"]:
        text += ", half a register"
    if match["thread"]:
        text += ", at the lane's own place"
    if match["transposed"] or match["transposed_after"]:
        return Explanation(f"{text}, transposed for the matrix unit", table.CDNA4)
    return Explanation(text, table.LDS)


def _amount(element: str) -> str:
    match = _ELEMENT.fullmatch(element)
    if match is None:
        return "several registers"
    named = _NAMED_BYTES.get(match["count"])
    size = named * int(match["times"] or 1) if named else int(match["bits"]) // 8
    return f"{size} byte{'s' if size > 1 else ''}"


def _by_operands(base: str, operands: str) -> Explanation | None:
    if base == "s_waitcnt":
        return _waiting([(name, int(count)) for name, count in _COUNTER.findall(operands)])
    number = _NUMBER.match(operands)
    if base.startswith("s_waitcnt_") and base.endswith("cnt"):
        number = _NUMBER.match(operands.rpartition(",")[2])
        return _waiting([(base.removeprefix("s_waitcnt_"), int(number[1], 0))] if number else [])
    if number is None:
        return None
    value = int(number[1], 0)
    if base == "s_nop":
        return Explanation(f"does nothing for {_plural(value + 1, 'cycle')}, until a result is ready", table.FLOW)
    if base == "s_sleep":
        return Explanation(f"the wave sleeps for about {64 * value} cycles", table.FLOW)
    if base == "s_clause":
        text = f"the next {value + 1} instructions are issued without a break, for the caches' sake"
        return Explanation(text, table.RDNA3)
    if base == "s_setprio":
        return Explanation(f"priority {value} (3 is the highest) among the waves of the SIMD", table.FLOW)
    counted = base.removeprefix("s_wait_").split("_")
    words = [table.WORDS["counted"].get(name) for name in counted]
    if not base.startswith("s_wait_") or None in words:
        return None
    counts = [value] if len(counted) == 1 else [value >> 8 & 0x3F, value & 0x3F]
    listed = " and ".join(
        f"no {word}" if not count else f"at most {count} {word}" for word, count in zip(words, counts, strict=True)
    )
    return Explanation(f"waits until {listed} are outstanding", table.RDNA4)


def _waiting(counters: list[tuple[str, int]]) -> Explanation:
    if not counters:
        return Explanation("waits for memory operations that are outstanding", table.SYNTAX)
    listed = [
        f"no {_COUNTED[name][0]}" if not count else f"at most {_plural(count, *_COUNTED[name])}"
        for name, count in counters
        if name in _COUNTED
    ]
    verb = "is" if len(listed) == 1 and counters[0][1] < 2 else "are"
    return Explanation(f"waits until {' and '.join(listed)} {verb} outstanding", table.SYNTAX)


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _dual(mnemonic: str, operands: str) -> Explanation | None:
    names = [*mnemonic.split("::"), *re.findall(r"::\s*(v_dual_\w+)", operands)][:2]
    halves = [explain("v_" + name.removeprefix("v_dual_")) for name in names]
    texts = [half.text for half in halves if half is not None]
    return Explanation("issued together: " + "; ".join(texts), table.RDNA3) if len(texts) == len(names) else None


def _modified(mnemonic: str, operands: str) -> str:
    if not mnemonic.startswith("v_"):
        return "; not worth keeping in caches" if _NONTEMPORAL.search(operands) else ""
    if "_dpp" in mnemonic:
        lanes = _CROSS_LANE.search(operands)
        return f"; A from another lane{f' ({lanes[0]})' if lanes is not None else ''}"
    return "; on bytes or halves of registers" if mnemonic.endswith("_sdwa") else ""
