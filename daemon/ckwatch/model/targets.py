"""Targets: the language that a template renders to, and the architectures that it can be compiled for.

The suffix before `.j2` gives the language. Architectures have the names of clang's `--offload-arch` and nvcc's `-arch`.
AMD's are those of LLVM's AMDGPU user guide, section Processors: an arch and its target features that can be fixed with
`:xnack+` and the like; the compiler has the last word. NVIDIA's are those that CUDA 12 and 13 compile for and that have
asynchronous copies and `mma.sync` for bf16 (compute capability 8.0); of `a` and `f` those that nvcc's manual lists.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum


class Language(StrEnum):
    """A language that can be compiled, or will be (`CU`)."""

    HIP = "hip"
    CPP = "cpp"
    CU = "cu"

    @property
    def source_name(self) -> str:
        """The name under which a source is compiled, and that its log calls it."""
        return f"kernel.{self.value}"


DEVICE_KINDS = {Language.HIP: "hip", Language.CU: "cuda", Language.CPP: "cpu"}
"""The kind of device that runs what a template of a language renders to."""


DEVICE = (
    r"auto|([A-Za-z0-9][A-Za-z0-9._-]{0,252}/)?"
    r"(cpu|(hip|cuda):\d{1,3}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)
"""How a device is written, as a regular expression."""


def language_of(template: str) -> Language:
    """The language of a template's name, `ck/gemm_universal.hip.j2`. Raises ValueError for one not known."""
    stem, dot, suffix = template.removesuffix(".j2").rpartition(".")
    if template.endswith(".j2") and stem and dot and suffix in {language.value for language in Language}:
        return Language(suffix)
    raise ValueError(f"'{template}' does not say what it renders to: its name must end in .hip.j2, .cpp.j2 or .cu.j2")


_XNACK = ("xnack",)
_BOTH = ("sramecc", "xnack")

_CLANGS: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...] = (
    (17, _XNACK, ("gfx900", "gfx902", "gfx904", "gfx909", "gfx90c")),
    (17, _BOTH, ("gfx906", "gfx908", "gfx90a", "gfx942")),
    (21, _BOTH, ("gfx950", "gfx9-4-generic")),
    (21, _XNACK, ("gfx9-generic", "gfx10-1-generic")),
    (17, _XNACK, ("gfx1010", "gfx1011", "gfx1012", "gfx1013")),
    (17, (), ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036")),
    (21, (), ("gfx10-3-generic", "gfx11-generic", "gfx12-generic")),
    (17, (), ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151")),
    (21, (), ("gfx1152", "gfx1153", "gfx1200", "gfx1201", "gfx1250")),
    (22, (), ("gfx1251",)),
    (23, (), ("gfx1154", "gfx1170", "gfx1171", "gfx1172", "gfx11-7-generic", "gfx12-5-generic")),
    (23, (), ("gfx1310", "gfx13-generic")),
)
"""A clang whose `--print-supported-cpus` lists archs (17, 21, 22 and 23 were read), the archs' features, the archs."""

_SINCE_CLANG = {arch: clang for clang, _, archs in _CLANGS for arch in archs}

ARCHS: dict[str, tuple[str, ...]] = {
    **{arch: features for _, features, archs in _CLANGS for arch in archs},
    **dict.fromkeys(("sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a"), ()),
    **{f"sm_{number}{kind}": () for number in (100, 103, 110, 120, 121) for kind in ("", "f", "a")},
}
"""Archs that are known by name, and their features. Of AMD's there may be others: the compiler says which it has."""

GENERIC: Mapping[str, tuple[str, ...]] = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    "gfx12-generic": ("gfx1200", "gfx1201"),
    "gfx12-5-generic": ("gfx1250", "gfx1251"),
}
"""Generic targets, and the archs that run their code: "Generic Processors" in LLVM's AMDGPU user guide."""

_AMD_ARCH = re.compile(r"gfx([6-9]|1\d)([0-9a-f]{2}|(-\d)?-generic)")

CUDA_ARCH = "sm_90a"
"""The arch of `*.cu.j2` templates if none is set and there is no NVIDIA GPU: Hopper."""

NATIVE = "native"
"""The archs of the devices in this machine, resolved when a unit is compiled."""

HOST = "host"
"""The CPU; the only arch of C++ templates (`*.cpp.j2`)."""

_LANGUAGES = {Language.HIP: "gfx", Language.CU: "sm_"}

_ARCH = re.compile(r"(?P<name>[^:]*)(?P<features>(:[^:]*)*)")


def unknown_arch(arch: str) -> tuple[str, str] | None:
    """None for an arch that a compiler may have, else what is wrong and the part of `arch` that is."""
    if arch in (NATIVE, HOST):
        return None
    found = _ARCH.fullmatch(arch)
    name = found["name"] if found else arch
    if name not in ARCHS and not _AMD_ARCH.fullmatch(name):
        return f"unknown arch `{name}`", name
    seen = set()
    for feature in found["features"].split(":")[1:] if found else ():
        allowed = ARCHS.get(name, _BOTH)
        if feature[:-1] not in allowed or feature[-1:] not in ("+", "-"):
            forms = ", ".join(f":{known}+ :{known}-" for known in allowed) or "none"
            return f"unknown target feature `:{feature}` of {name}; it has: {forms}", feature
        if feature[:-1] in seen:
            return f"target feature `{feature[:-1]}` is given twice", feature
        seen.add(feature[:-1])
    return None


def not_compiled(arch: str) -> str:
    """The sentence for an arch that a clang refuses, with what has it if that is known."""
    name, _, features = arch.partition(":")
    since, near = _SINCE_CLANG.get(name), difflib.get_close_matches(name, _SINCE_CLANG, n=1)
    if since is not None:
        of_features = f" with these features (:{features})" if features else ""
        return f"this clang does not compile for {name}{of_features}; clang {since} and later know {name}"
    meant = f"; did you mean {near[0]}?" if near else ""
    return (
        f"this clang does not compile for {name}, and neither does any other up to {max(_SINCE_CLANG.values())}{meant}"
    )


def arch_base(arch: str) -> str:
    """An arch without its target features, and NVIDIA's without what they have beyond others: `gfx942`, `sm_90`."""
    base = arch.partition(":")[0]
    return base.rstrip("af") if base.startswith("sm_") else base


def arch_has_language(arch: str, language: Language) -> bool:
    """Return True if sources of a language can be compiled for a known arch."""
    if language is Language.CPP:
        return arch == HOST
    return arch == NATIVE or arch.startswith(_LANGUAGES[language])


def default_archs(archs: Iterable[str], language: Language) -> tuple[str, ...]:
    """The archs of a kernel that names none: the workspace's that its language has, `native` where it has none."""
    if language is Language.CPP:
        return (HOST,)
    return tuple(dict.fromkeys(arch for arch in archs if arch_has_language(arch, language))) or (NATIVE,)


def arch_mismatch(language: Language) -> str:
    """Return the message for an arch that does not fit."""
    if language is Language.CPP:
        return "a *.cpp.j2 template is compiled for `host` only"
    wanted = "an NVIDIA arch, such as sm_90a" if language is Language.CU else "an AMD arch, such as gfx942"
    return f"a *.{language}.j2 template is compiled for {wanted}, or `native`; `host` needs a *.cpp.j2 template"
