"""What a code object's metadata says of its kernels.

Format: "Code Object Metadata" in LLVM's User Guide for AMDGPU Backend (AMDGPUUsage), versions 3 to 6: a MessagePack
map in the note NT_AMDGPU_METADATA. The metadata counts architectural and accumulation VGPRs together where they share
one file, the former rounded up to 4; how many architectural ones there are exactly is in the absolute symbol
`KERNEL.num_vgpr`, which clang emits since LLVM 20 and which stripping removes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.analysis import code_object, messagepack
from ckwatch.analysis.arch_limits import limits_of
from ckwatch.analysis.code_object import CodeObject
from ckwatch.analysis.names import readable_names
from ckwatch.analysis.report import Resources

_OWNER = "AMDGPU"
_WGP_MODE = 1 << 29
_RSRC1_AT = 48
_COUNTS = (
    ".vgpr_count", ".sgpr_count", ".group_segment_fixed_size", ".private_segment_fixed_size", ".kernarg_segment_size",
    ".max_flat_workgroup_size", ".wavefront_size",
)  # fmt: skip
_OPTIONAL_COUNTS = (".agpr_count", ".vgpr_spill_count", ".sgpr_spill_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The kernels of a code object, in its own order, CK's helpers among them.

    `arch` is the processor without its features (`gfx942`); empty where the file does not tell. `cu_mode` holds the
    symbols of the kernels that run in CU mode on an arch that has WGP mode too (gfx10 and later).
    """

    arch: str
    kernels: tuple[Resources, ...]
    cu_mode: frozenset[str]
    notes: tuple[str, ...]


def resources_of(data: bytes) -> tuple[list[Resources], str, tuple[str, ...]]:
    """The resources of each kernel, the arch, and what could not be read and why.

    Raises ValueError, with a sentence, for what is no code object and for one that is damaged.
    """
    contents = contents_of(data)
    return list(contents.kernels), contents.arch, contents.notes


def contents_of(data: bytes) -> Contents:
    """As `resources_of`, with what else the file says of its kernels. Raises ValueError as it does."""
    file = code_object.read(data)
    metadata = _metadata(file)
    arch = _arch(metadata, file)
    notes: list[str] = []
    if file.version is None:
        notes.append("The code object's version is not known: its figures are read as those of version 6.")
    if not arch:
        notes.append("The code object does not tell its arch.")
    elif limits_of(arch) is None:
        notes.append(f"The limits of {arch} are not known: no occupancy.")
    described = metadata.get("amdhsa.kernels")
    fields = described if isinstance(described, list) else []
    names = readable_names(_symbol(kernel) for kernel in fields if isinstance(kernel, dict))
    kernels: list[Resources] = []
    for kernel in fields:
        if not isinstance(kernel, dict) or not _symbol(kernel):
            notes.append("The metadata has a kernel without a name.")
            continue
        found, missing = _resources(kernel, names[_symbol(kernel)], file, arch)
        notes.extend(missing)
        if found is not None:
            kernels.append(found)
    return Contents(
        arch=arch,
        kernels=tuple(kernels),
        cu_mode=_cu_mode(file, arch),
        notes=tuple(notes),
    )


def _metadata(file: CodeObject) -> Mapping[str, messagepack.Value]:
    for note in file.notes:
        if note.owner == _OWNER and note.kind == code_object.NT_AMDGPU_METADATA:
            try:
                value = messagepack.unpack(note.content)
            except ValueError as error:
                raise ValueError(f"The code object's metadata is damaged: {error}.") from error
            if not isinstance(value, dict):
                raise ValueError("The code object's metadata is damaged: it is no map.")
            return value
    if any(note.kind == code_object.NT_AMD_HSA_METADATA for note in file.notes):
        raise ValueError("This is a code object of version 2, whose metadata is not read: compile it again.")
    raise ValueError("The code object has no metadata.")


def _arch(metadata: Mapping[str, messagepack.Value], file: CodeObject) -> str:
    """Of the metadata's target (`amdgcn-amd-amdhsa--gfx942:xnack-`), else of the file's header."""
    target = metadata.get("amdhsa.target")
    if not isinstance(target, str):
        return file.machine
    return target.split("-", 4)[-1].partition(":")[0]


def _symbol(kernel: Mapping[str, messagepack.Value]) -> str:
    """The name of the kernel's code, as `.name` is what was written, which a linker may have changed."""
    for field in (".symbol", ".name"):
        name = kernel.get(field)
        if isinstance(name, str) and name:
            return name.removesuffix(".kd")
    return ""


def _resources(
    kernel: Mapping[str, messagepack.Value], name: str, file: CodeObject, arch: str
) -> tuple[Resources | None, list[str]]:
    symbol = _symbol(kernel)
    counts: dict[str, int] = {}
    missing = []
    for field in (*_COUNTS, *_OPTIONAL_COUNTS):
        value = kernel.get(field, 0 if field in _OPTIONAL_COUNTS else None)
        if isinstance(value, int) and value >= 0:
            counts[field] = value
        else:
            missing.append(field)
    if missing:
        return None, [f"{name}: the metadata lacks {', '.join(missing)}."]
    agprs = counts[".agpr_count"]
    vgprs, note = _architectural(counts[".vgpr_count"], agprs, file, symbol, arch)
    resources = Resources(
        symbol=symbol,
        name=name,
        vgprs=vgprs,
        agprs=agprs,
        sgprs=counts[".sgpr_count"],
        vgpr_spills=counts[".vgpr_spill_count"],
        sgpr_spills=counts[".sgpr_spill_count"],
        scratch_bytes=counts[".private_segment_fixed_size"],
        lds_bytes=counts[".group_segment_fixed_size"],
        workgroup_size=counts[".max_flat_workgroup_size"],
        wavefront_size=counts[".wavefront_size"],
        kernarg_bytes=counts[".kernarg_segment_size"],
        dynamic_stack=kernel.get(".uses_dynamic_stack") is True,
    )
    return resources, [f"{name}: {note}"] if note else []


def _architectural(total: int, agprs: int, file: CodeObject, symbol: str, arch: str) -> tuple[int, str]:
    """How many architectural VGPRs there are, and a note where it is not exact."""
    if not agprs:
        return total, ""
    limits = limits_of(arch)
    exact = file.symbols.get(f"{symbol}.num_vgpr")
    if limits is not None and not limits.unified_vgprs:
        return (exact.value, "") if exact else (total, "VGPR is at most what is shown: AGPR may be the larger number.")
    if exact is not None and (exact.value + 3 & ~3) + agprs == total:
        return exact.value, ""
    return max(0, total - agprs), "VGPR is rounded up to a multiple of 4: the code object is stripped."


def _cu_mode(file: CodeObject, arch: str) -> frozenset[str]:
    limits = limits_of(arch)
    if limits is None or not limits.wgp_mode:
        return frozenset()
    return frozenset(
        symbol
        for symbol, descriptor in file.descriptors.items()
        if not int.from_bytes(descriptor[_RSRC1_AT : _RSRC1_AT + 4], "little") & _WGP_MODE
    )
