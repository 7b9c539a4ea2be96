"""Readable kernel names, as short as still tells the variants of a kernel apart.

Of `void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<...>, true, (ck::InMemoryDataOperationEnum)0,
2, (ck::TailNumber)10>(ck::GridwiseGemm_xdl_cshuffle_v3<...>::Argument)` remains `kernel_gemm_xdl_cshuffle_v3<
GridwiseGemm_xdl_cshuffle_v3<…>, HasMainKBlockLoop=true, InMemoryDataOperationEnum::Set, MinimumOccupancy=2,
TailNumber::Full>`: scopes, parameters and return types are left out, long lists of arguments are shortened to those in
which the variants differ, and numbers get the names that CK gives them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from ckwatch.codeobject.demangle import NameNode, NameNodeKind, NamePool, demangle, full_name, joined, last_name

_SHORT = 48
"""As many characters of a template argument are shown in any case."""
_LONGEST = 400
_DEEPEST = 6
_LEFT_OUT = "…"
_LONG_ASSEMBLY = 160
"""Characters of the name of a kernel in assembly, from which on it is shortened."""
_TENSILE_PARAMETER = re.compile(r"_(?=[A-Z])")
_TILE = re.compile(r"(MT|MI)\d")
"""Begin Tensile's macro tile and its matrix instruction, which are always shown."""

_ENUMERATORS: Mapping[str, Sequence[str]] = {
    "BlockGemmPipelineScheduler": ("Intrawave", "Interwave"),
    "BlockGemmPipelineVersion": ("v1", "v2", "v3", "v4", "v5"),
    "GemmPipelineScheduler": ("Default", "Intrawave", "Interwave"),
    "GemmSpecialization": (
        *("Default", "MPadding", "NPadding", "KPadding", "MNPadding", "MKPadding", "NKPadding", "MNKPadding"),
        *("OPadding", "MOPadding", "NOPadding", "KOPadding", "MNOPadding", "MKOPadding", "NKOPadding", "MNKOPadding"),
    ),
    "InMemoryDataOperationEnum": ("Set", "AtomicAdd", "AtomicMax", "Add"),
    "LoopScheduler": ("Default", "Interwave"),
    "PipelineVersion": ("v1", "v2", "v4", "weight_only"),
    "TailNumber": ("Odd", "Even", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Empty", "Full"),
    "memory_operation_enum": ("set", "atomic_add", "atomic_max", "add"),
}
"""Enumerators of CK by their enumeration, from 0 on: ck/ck.hpp, ck/utility/blkgemmpipe_scheduler.hpp and
loop_scheduler.hpp, ck/tensor_operation/gpu/device/gemm_specialization.hpp, ck/tensor_operation/gpu/grid/
gridwise_gemm_pipeline_selector.hpp; ck_tile/ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_scheduler.hpp and
ck_tile/core/arch/arch.hpp, which agree where they declare the same ones."""

_PARAMETERS: tuple[tuple[str, Sequence[str | None]], ...] = (
    ("gemm_universal", ("HasMainKBlockLoop",)),
    ("kernel_gemm_xdl_cshuffle_v3", ("", "HasMainKBlockLoop", "", "MinimumOccupancy")),
    ("kentry", ("MaxThreadPerBlock", "MinBlockPerCu", "", None)),
)
"""Names of template parameters whose arguments tell nothing alone (None: never shown), by what the kernel's name begins
with: ckwatch's gemm_universal.hip.j2, ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3*.hpp,
ck_tile/host/kernel_launch.hpp."""

_HELPERS = {
    "ck": ("flush_icache", "set_buffer_value", "kernel_buffer_set_value", "kernel_multiple_buffer_set_value"),
    "ck_tile": ("flush_cache", "set_buffer_value", "naive_gemm_kernel"),
}
_RUNTIME_HELPERS = "__amd_rocclr_"


def printable(text: str) -> str:
    """A text of a file from anywhere without characters that a terminal would take for commands."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in text)


@lru_cache(1 << 14)
def is_helper(symbol: str) -> bool:
    """Return True for one of CK's helper kernels (it empties a cache, fills a buffer, is a reference) or HIP's own."""
    if symbol.startswith(_RUNTIME_HELPERS):
        return True
    try:
        name = demangle(symbol, NamePool()).children[0]
    except ValueError:
        return False
    base = name.children[0] if name.kind is NameNodeKind.TEMPLATE else name
    if base.kind is not NameNodeKind.NAME or not base.children:
        return False
    outermost = base
    while outermost.children:
        outermost = outermost.children[0]
    return base.text in _HELPERS.get(outermost.text, ())


def own_kernels(symbols: Sequence[str], name: str, arguments: Sequence[str]) -> list[str]:
    """The kernels with a name, and of these those of which most template arguments in a row are among `arguments`.

    Rows of nothing but booleans do not count: `false` is among the parameters of most instances.
    """
    found: dict[str, int] = {}
    wanted = [text.lstrip("_") for text in arguments]
    for symbol in symbols:
        try:
            kernel = demangle(symbol, NamePool()).children[0]
        except ValueError:
            continue
        if last_name(kernel) == name:
            nodes = kernel.children[1:] if kernel.kind is NameNodeKind.TEMPLATE else ()
            given = [full_name(node).lstrip("_") if node.size <= _LONGEST else _LEFT_OUT for node in nodes]
            match = SequenceMatcher(None, given, wanted, autojunk=False).find_longest_match()
            found[symbol] = 0 if {"true", "false"}.issuperset(given[match.a : match.a + match.size]) else match.size
    most = max(found.values(), default=0)
    return [symbol for symbol, number in found.items() if number == most]


def readable_names(symbols: Iterable[str]) -> dict[str, str]:
    """A readable name of each symbol of one code object: no two are equal. What cannot be read remains as it is."""
    return _readable_names(tuple(symbols))


@lru_cache(4)  # a library has the same kernels for each arch
def _readable_names(symbols: tuple[str, ...]) -> dict[str, str]:
    names = NamePool()
    functions: dict[str, NameNode] = {}
    found: dict[str, str] = {}
    for symbol in symbols:
        try:
            functions[symbol] = demangle(symbol, names)
        except ValueError:
            found[symbol] = symbol
    found.update(_short_assembly([symbol for symbol in found if len(symbol) > _LONG_ASSEMBLY]))
    variants: dict[tuple[str, int], list[str]] = defaultdict(list)
    for symbol, function in functions.items():
        variants[last_name(function.children[0]), len(function.children[0].children)].append(symbol)
    for group in variants.values():
        kernels = [functions[symbol].children[0] for symbol in group]
        found.update(zip(group, (_short(kernel, kernels) for kernel in kernels), strict=True))
    return {symbol: printable(name) for symbol, name in _told_apart(found, functions).items()}


def _short_assembly(symbols: Sequence[str]) -> dict[str, str]:
    """Names as Tensile makes them, `Cijk_…_MT256x32x32_MI32x32x1_…_WG64_4_1`: parameters from the tile on that all
    variants have in common are left out."""
    if len(symbols) < 2:
        return {}
    parts = {symbol: _TENSILE_PARAMETER.split(symbol) for symbol in symbols}
    common = set.intersection(*map(set, parts.values()))
    found: dict[str, str] = {}
    for symbol, its in parts.items():
        tile = next((at for at, part in enumerate(its) if _TILE.match(part)), len(its))
        shown = list(its[:tile])
        for part in its[tile:]:
            if part not in common or _TILE.match(part):
                shown.append(part)
            elif shown[-1:] != [_LEFT_OUT]:
                shown.append(_LEFT_OUT)
        found[symbol] = "_".join(shown)
    return found


def scoped_name(symbol: str) -> str:
    """A function's readable name with its namespaces and classes, without parameters; of long ones as
    `readable_names`. What cannot be read remains as it is."""
    try:
        name = demangle(symbol, NamePool()).children[0]
    except ValueError:
        return symbol
    if name.size <= _LONGEST:
        return full_name(name)
    base = name.children[0] if name.kind is NameNodeKind.TEMPLATE else name
    short = readable_names([symbol])[symbol]
    if base.kind is not NameNodeKind.NAME or not base.children or base.children[0].size > _LONGEST:
        return short
    return f"{full_name(base.children[0])}::{short}"


def _told_apart(found: Mapping[str, str], functions: Mapping[str, NameNode]) -> dict[str, str]:
    """Names that are equal get longer: with their scopes, else as they are in the symbol table."""
    alike: dict[str, list[str]] = defaultdict(list)
    for symbol, name in found.items():
        alike[name].append(symbol)
    told_apart = dict(found)
    for symbols in alike.values():
        if len(symbols) > 1:
            readable = all(symbol in functions and functions[symbol].size <= _LONGEST for symbol in symbols)
            full = [full_name(functions[symbol]) for symbol in symbols] if readable else []
            told_apart.update(zip(symbols, full if len(set(full)) == len(symbols) else symbols, strict=True))
    return told_apart


def _short(node: NameNode, variants: Sequence[NameNode], depth: int = 0) -> str:
    """`variants` are the nodes in the same place of the other variants' names, this one among them.

    `depth` is that of the argument in the kernel's arguments, 0 for the kernel itself.
    """
    if depth > _DEEPEST or (node.size > _LONGEST and node.kind is not NameNodeKind.TEMPLATE):
        return _LEFT_OUT
    if node.kind is NameNodeKind.NAME:
        member = depth and node.children and node.children[0].kind is NameNodeKind.TEMPLATE
        return f"{last_name(node.children[0])}::{node.text}" if member else node.text
    if node.kind is NameNodeKind.LITERAL:
        return _literal(node)
    if node.kind is NameNodeKind.TEMPLATE:
        return _template(node, variants, depth)
    inner = [_short(child, [child], depth + 1) for child in node.children]
    if node.kind is NameNodeKind.PACK:
        return ", ".join(text for text in inner if text)
    return joined(node.text, inner) if node.kind is NameNodeKind.JOINED else full_name(node)


def _literal(node: NameNode) -> str:
    kind = last_name(node.children[0])
    if kind == "bool":
        return "true" if node.text == "1" else "false"
    enumerators = _ENUMERATORS.get(kind, ())
    if node.text.isdigit() and int(node.text) < len(enumerators):
        return f"{kind}::{enumerators[int(node.text)]}"
    return f"{kind}({node.text})" if node.children[0].children else node.text


def _template(node: NameNode, variants: Sequence[NameNode], depth: int) -> str:
    name = last_name(node)
    arguments = node.children[1:]
    others = [other.children[1:] for other in variants if _same_template(node, other)]
    labels = next((labels for prefix, labels in _PARAMETERS if not depth and name.startswith(prefix)), ())
    if depth and node.size <= _LONGEST:
        whole = _list(arguments, [(argument,) for argument in arguments], (), depth)
        if len(name) + len(whole) <= _SHORT:
            return f"{name}<{whole}>"
    rivals = [tuple(other[place] for other in others) for place in range(len(arguments))]
    if depth:
        rivals = [rival if any(other is not rival[0] for other in rival) else () for rival in rivals]
    return f"{name}<{_list(arguments, rivals, labels, depth)}>"


def _same_template(node: NameNode, other: NameNode) -> bool:
    return (
        other.kind is NameNodeKind.TEMPLATE
        and node.children[0] is other.children[0]
        and len(node.children) == len(other.children)
    )


def _list(
    arguments: Sequence[NameNode], rivals: Sequence[Sequence[NameNode]], labels: Sequence[str | None], depth: int
) -> str:
    """The arguments; those without rivals are left out."""
    texts: list[str] = []
    for place, argument in enumerate(arguments):
        label = labels[place] if place < len(labels) else ""
        if label is None:
            continue
        if not rivals[place]:
            if texts[-1:] != [_LEFT_OUT]:
                texts.append(_LEFT_OUT)
            continue
        text = _short(argument, rivals[place], depth + 1)
        if text:
            texts.append(f"{label}={text}" if label else text)
    return ", ".join(texts)
