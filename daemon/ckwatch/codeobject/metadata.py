"""Reads the kernels of an AMDGPU code object: their resources, from its ELF metadata, symbols and kernel descriptors.

Formats: the ELF-64 specification; "ELF Code Object" and "Code Object Metadata", versions 3 to 6, in LLVM's User Guide
for AMDGPU Backend (AMDGPUUsage): a MessagePack map in the note NT_AMDGPU_METADATA. The metadata counts architectural
and accumulation VGPRs together where they share one file, the former rounded up to 4; how many architectural ones there
are exactly is in the absolute symbol `KERNEL.num_vgpr`, which clang emits since LLVM 20 and which stripping removes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgpack

from ckwatch.codeobject.kernel_names import printable, readable_names
from ckwatch.codeobject.occupancy import limits_of
from ckwatch.codeobject.report import KernelResources
from ckwatch.compile import elf
from ckwatch.model.lazy_dataclass import dataclass

NT_AMDGPU_METADATA = 32
"""The note of code object versions 3 and later."""
NT_AMD_HSA_METADATA = 10
"""The note of code object version 2, whose content is YAML."""

_DESCRIPTOR_BYTES = 64
_MOST_KERNELS, _MOST_NOTES = 1_000_000, 50
_ABI_VERSIONS = (1, 2, 3, 4)
"""Of the versions 3 to 6 of code objects."""
_ARCH_OF_MACHINE = {
    0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c",
    0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950", 0x51: "gfx9-generic", 0x5F: "gfx9-4-generic",
    0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x42: "gfx1013", 0x52: "gfx10-1-generic",
    0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3E: "gfx1034", 0x3D: "gfx1035",
    0x45: "gfx1036", 0x53: "gfx10-3-generic",
    0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103", 0x54: "gfx11-generic",
    0x43: "gfx1150", 0x4A: "gfx1151", 0x55: "gfx1152", 0x58: "gfx1153", 0x57: "gfx1154",
    0x5D: "gfx1170", 0x5E: "gfx1171", 0x5C: "gfx1172", 0x62: "gfx11-7-generic",
    0x48: "gfx1200", 0x4E: "gfx1201", 0x59: "gfx12-generic", 0x49: "gfx1250", 0x5A: "gfx1251", 0x5B: "gfx12-5-generic",
    0x50: "gfx1310", 0x63: "gfx13-generic",
}  # fmt: skip


def _check_header(data: bytes) -> None:
    if data[:24] == b"__CLANG_OFFLOAD_BUNDLE__" or data[:4] == b"CCOB":
        raise ValueError("This is an offload bundle, not a code object.")
    if data[:4] != b"\x7fELF":
        raise ValueError("Not a code object: not an ELF file.")
    if len(data) < 64:
        raise ValueError("The code object is cut short.")
    if data[4:6] != b"\x02\x01":
        raise ValueError("Not a code object: not a 64-bit little-endian ELF file.")
    if (found := elf.ElfHeader.read(data).machine) != elf.EM_AMDGPU:
        raise ValueError(f"This is an ELF file for another machine ({found}), not for AMDGPU ({elf.EM_AMDGPU}).")


def _descriptors(file: elf.ElfFile, symbols: Mapping[str, elf.ElfSymbol]) -> Iterator[tuple[str, bytes]]:
    for name, symbol in symbols.items():
        if not name.endswith(".kd") or not 0 < symbol.section < len(file.sections):
            continue
        section = file.sections[symbol.section]
        offset = section.offset + symbol.value - section.address
        if section.kind != elf.SHT_NOBITS and section.offset <= offset:
            yield name.removesuffix(".kd"), file.bounded(offset, _DESCRIPTOR_BYTES)


_OWNER = "AMDGPU"
_WGP_MODE = 1 << 29
_RSRC3_AT, _RSRC1_AT = 44, 48
_COUNTS = (
    ".vgpr_count", ".sgpr_count", ".group_segment_fixed_size", ".private_segment_fixed_size", ".kernarg_segment_size",
    ".max_flat_workgroup_size", ".wavefront_size",
)  # fmt: skip
_OPTIONAL_COUNTS = (".agpr_count", ".vgpr_spill_count", ".sgpr_spill_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentMetadata:
    """An argument of a kernel, of LLVM's `.args`: `kind` is its `.value_kind` (`global_buffer`, `by_value`,
    `hidden_block_count_x`, …), `access` its `.actual_access` (`read_only`, `write_only`, …); the others are empty where
    the compiler has not written them."""

    kind: str
    offset_bytes: int
    size_bytes: int
    name: str = ""
    type_name: str = ""
    address_space: str = ""
    access: str = ""

    @property
    def hidden(self) -> bool:
        """Return True for one that the runtime fills in."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeObjectMetadata:
    """The kernels of a code object, in its own order, CK's helpers among them, and their arguments by symbol.

    `arch` is the processor without its features (`gfx942`); empty where the file does not tell. `cu_mode` holds the
    symbols of the kernels that run in CU mode on an arch that has WGP mode too (gfx10 and later). `labels` are names of
    places inside of functions, which assembly written by hand has. `code_bytes` has the size of each kernel's code that
    the file tells.
    """

    arch: str
    kernels: tuple[KernelResources, ...]
    cu_mode: frozenset[str]
    notes: tuple[str, ...]
    arguments: Mapping[str, tuple[ArgumentMetadata, ...]] = dataclasses.field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    code_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)


def read_metadata(data: bytes) -> CodeObjectMetadata:
    """Read a code object's metadata about its kernels, with notes about what could not be read and why. Raises
    ValueError, with a sentence, for what is no code object and for one that is damaged."""
    _check_header(data)
    try:
        file = elf.ElfFile(data)
        symbols = {symbol.name: symbol for kind in (elf.SHT_DYNSYM, elf.SHT_SYMTAB) for symbol in file.symbols(kind)}
        labels = {one.name for one in symbols.values() if _is_label(file, one)}
        code_bytes = {name: one.size for name, one in symbols.items() if one.kind == elf.STT_FUNC}
        descriptors = dict(_descriptors(file, symbols))
        maps, notes = _metadata_maps(tuple(file.notes()))
    except elf.ElfError as error:
        raise ValueError(f"The code object {error.problem}.") from error
    arch = _ARCH_OF_MACHINE.get(file.header.flags & 0xFF, "")
    for one in maps:
        if isinstance(target := one.get("amdhsa.target"), str):  # `amdgcn-amd-amdhsa--gfx942:xnack-`
            arch = target.split("-", 4)[-1].partition(":")[0]
            break
    if file.abi_version not in _ABI_VERSIONS:
        notes.append("The code object's version is not known: its figures are read as those of version 6.")
    if not arch:
        notes.append("The code object does not name its arch.")
    elif limits_of(arch) is None:
        notes.append(f"The limits of {arch} are not known: no occupancy.")
    described = [one.get("amdhsa.kernels") for one in maps]
    fields = [kernel for one in described if isinstance(one, list) for kernel in one]
    names = readable_names(_kernel_symbol(kernel) for kernel in fields if isinstance(kernel, dict))
    kernels: list[KernelResources] = []
    about_kernels: dict[str, None] = {}
    for kernel in fields:
        if not isinstance(kernel, dict) or not _kernel_symbol(kernel):
            about_kernels["The metadata has a kernel without a name."] = None
            continue
        symbol = _kernel_symbol(kernel)
        found, missing = _kernel_resources(kernel, names[symbol], symbols, arch, descriptors.get(symbol))
        about_kernels |= dict.fromkeys(missing)
        if found is not None:
            kernels.append(found)
    notes += [*about_kernels][:_MOST_NOTES]
    if len(about_kernels) > _MOST_NOTES:
        notes.append(f"And {len(about_kernels) - _MOST_NOTES:,} more notes about kernels.")
    return CodeObjectMetadata(
        arch=arch,
        kernels=tuple(kernels),
        cu_mode=_cu_mode(descriptors, arch),
        notes=tuple(dict.fromkeys(notes)),
        arguments=_LazyArguments({_kernel_symbol(one): one for one in fields if isinstance(one, dict)}),
        labels=frozenset(labels - {kernel.symbol for kernel in kernels}),
        code_bytes={one.symbol: code_bytes[one.symbol] for one in kernels if one.symbol in code_bytes},
    )


def without_labels(data: bytes) -> bytes:
    """A code object whose functions are not cut by the labels inside of them, for tools that end a function at the next
    symbol. Raises ElfError."""
    file = elf.ElfFile(data)
    changed = bytearray(data)
    for symbol in file.symbols(elf.SHT_SYMTAB):
        if _is_label(file, symbol):
            at = symbol.entry_offset + elf.SYMBOL_SECTION_AT
            changed[at : at + 2] = bytes(2)
    return bytes(changed)


def _is_label(file: elf.ElfFile, symbol: elf.ElfSymbol) -> bool:
    plain = (symbol.kind, symbol.binding) == (elf.STT_NOTYPE, elf.STB_LOCAL)
    return plain and 0 < symbol.section < len(file.sections) and file.sections[symbol.section].name.startswith(".text")


class _LazyArguments(Mapping[str, tuple[ArgumentMetadata, ...]]):
    """The arguments of kernels by symbol, read when they are asked for: a library has 120,000 kernels, of which a few
    are shown."""

    def __init__(self, kernels: Mapping[str, Mapping[str, Any]]) -> None:
        self._arguments_by_symbol = {symbol: kernel.get(".args") for symbol, kernel in kernels.items()}

    def __getitem__(self, symbol: str) -> tuple[ArgumentMetadata, ...]:
        return tuple(_arguments(self._arguments_by_symbol[symbol]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments_by_symbol)

    def __len__(self) -> int:
        return len(self._arguments_by_symbol)


_ARGUMENT_WORDS = (".value_kind", ".name", ".type_name", ".address_space", ".actual_access")


def _arguments(listed: object) -> Iterator[ArgumentMetadata]:
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            numbers = (one.get(".offset"), one.get(".size"))
            offset, size = (number if isinstance(number, int) and number >= 0 else 0 for number in numbers)
            words = (one.get(name) for name in _ARGUMENT_WORDS)
            kind, name, type_name, space, access = (printable(word) if isinstance(word, str) else "" for word in words)
            yield ArgumentMetadata(
                kind=kind,
                offset_bytes=offset,
                size_bytes=size,
                name=name,
                type_name=type_name,
                address_space=space,
                access=access,
            )


def _metadata_maps(notes: Sequence[elf.ElfNote]) -> tuple[list[Mapping[str, Any]], list[str]]:
    """The metadata of each object that was linked into the code object, as those of Tensile's libraries are, and what
    is wrong with the others. Raises ValueError where none can be read."""
    maps: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for note in notes:
        if note.owner == _OWNER and note.kind == NT_AMDGPU_METADATA:
            try:
                # unpackb allocates nothing for a damaged count, which Unpacker would.
                value = msgpack.unpackb(
                    note.content,
                    raw=False,
                    unicode_errors="replace",
                    strict_map_key=True,
                    max_array_len=_MOST_KERNELS,
                )
            except msgpack.ExtraData as error:
                value = error.unpacked  # padding follows
            except (ValueError, TypeError, RecursionError) as error:  # some of them say nothing
                many = "max_array_len" in str(error)
                what = f"a list in it claims more than {_MOST_KERNELS:,} entries" if many else "it is not MessagePack"
                problems.append(f"The code object's metadata is damaged: {what}.")
                continue
            if isinstance(value, dict):
                maps.append(value)
            else:
                problems.append("The code object's metadata is damaged: expected a map.")
    if maps:
        return maps, [*dict.fromkeys(problems)]
    if problems:
        raise ValueError(problems[0])
    if any(note.kind == NT_AMD_HSA_METADATA for note in notes):
        raise ValueError("This is a code object of version 2, whose metadata is not read: compile it again.")
    raise ValueError("The code object has no metadata.")


def _kernel_symbol(kernel: Mapping[str, Any]) -> str:
    """The name of the kernel's code, as `.name` is what was written, which a linker may have changed."""
    for field in (".symbol", ".name"):
        name = kernel.get(field)
        if isinstance(name, str) and name:
            return name.removesuffix(".kd")
    return ""


def _kernel_resources(
    kernel: Mapping[str, Any],
    name: str,
    symbols: Mapping[str, elf.ElfSymbol],
    arch: str,
    descriptor: bytes | None,
) -> tuple[KernelResources | None, list[str]]:
    symbol = _kernel_symbol(kernel)
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
    vgprs, note = _architectural(counts[".vgpr_count"], agprs, symbols.get(f"{symbol}.num_vgpr"), arch)
    if ".agpr_count" not in kernel and descriptor is not None:
        agprs = _allocated_agprs(vgprs, descriptor, arch)
    resources = KernelResources(
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


def _architectural(total: int, agprs: int, exact: elf.ElfSymbol | None, arch: str) -> tuple[int, str]:
    """How many architectural VGPRs there are, and a note where it is not exact."""
    if not agprs:
        return total, ""
    limits = limits_of(arch)
    if limits is not None and not limits.unified_vgprs:
        return (exact.value, "") if exact else (total, "VGPR is at most what is shown: AGPR may be the larger number.")
    if exact is not None and (exact.value + 3 & ~3) + agprs == total:
        return exact.value, ""
    return max(0, total - agprs), "VGPR is rounded up to a multiple of 4: the code object is stripped."


def _allocated_agprs(vgprs: int, descriptor: bytes, arch: str) -> int:
    """AGPRs by the kernel's descriptor, which the device goes by: metadata of assembly written by hand, such as
    Tensile's, does not tell them. AMDGPUUsage, "Kernel Descriptor": GRANULATED_WORKITEM_VGPR_COUNT, ACCUM_OFFSET."""
    limits = limits_of(arch)
    if limits is None or not limits.unified_vgprs:
        return 0
    rsrc1, rsrc3 = (int.from_bytes(descriptor[at : at + 4], "little") for at in (_RSRC1_AT, _RSRC3_AT))
    total = ((rsrc1 & 63) + 1) * limits.vgpr_block
    first = ((rsrc3 & 63) + 1) * 4
    return total - first if total > -(-vgprs // limits.vgpr_block) * limits.vgpr_block and first >= vgprs else 0


def _cu_mode(descriptors: Mapping[str, bytes], arch: str) -> frozenset[str]:
    limits = limits_of(arch)
    if limits is None or not limits.wgp_mode:
        return frozenset()
    return frozenset(
        symbol
        for symbol, descriptor in descriptors.items()
        if not int.from_bytes(descriptor[_RSRC1_AT : _RSRC1_AT + 4], "little") & _WGP_MODE
    )
