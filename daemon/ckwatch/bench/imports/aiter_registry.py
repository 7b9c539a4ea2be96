"""The kernels that a checkout of AITER has: by their names, what builds and dispatches them.

A tuned table names a kernel; AITER's build (`csrc/*/gen_instances.py`, `build_tune_dict`) takes it from a list in
Python, and its loader of assembly kernels from a list in CSV. Both are read here, Python without being run. Lists
depend on the arch (`chip_info.get_gfx()`), so that a kernel can be there for one part and not for another.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol

from ckwatch.bench.imports.python_lists import PythonInstance, UnknownPythonError, evaluate_lists
from ckwatch.model.lazy_dataclass import dataclass

ARCHS = ("gfx942", "gfx950", "gfx1250")
"""Archs in which a kernel is looked for, too, to say that it is another arch's."""


class Checkout(Protocol):
    """The files of a checkout, by their paths relative to its folder that has `csrc` and `hsa`."""

    def read(self, path: str) -> str | None:
        """Return the text of a file; None where there is none that can be read."""

    def csv_files(self, folder: str) -> Iterable[str]:
        """Return the paths of the CSV files below a folder."""


@dataclass(frozen=True, slots=True)
class KernelList:
    """A list of AITER's: names of its kernels begin with `prefix`. `path` of the module, `variables` that may hold the
    list, the first counts; without any, all lists of the module. `by_id`: the dispatch takes the kernel by its number,
    unless `generator` (of today's AITER) takes it by name. `log2`: splitK is the logarithm of kBatch. `suffix`: what
    may follow a name of the list, by which it is another variant. Names that begin with `but_not` are of no list, and
    those with `alias` are looked up with `prefix` in its place."""

    prefix: str
    path: str
    variables: tuple[str, ...] = ()
    by_id: bool = False
    generator: str = ""
    log2: bool = True
    suffix: str = ""
    but_not: str = "\0"
    alias: str = "\0"


def _ck(prefix: str, folder: str, path: str, *variables: str, generator: str = "gen_instances.py") -> KernelList:
    return KernelList(prefix, f"csrc/{folder}/{path}", variables, by_id=True, generator=f"csrc/{folder}/{generator}")


_MOE = "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_ck2stages_common.py"
_BLOCKSCALE = "ck_gemm_a8w8_blockscale"
LISTS: tuple[KernelList, ...] = (
    _ck("a8w8_rowwise_", "ck_gemm_a8w8", "gemm_a8w8_common.py", "kernels_list"),
    _ck("a8w8_batched_rowwise_", "ck_batched_gemm_a8w8", "batched_gemm_a8w8_common.py", "kernels_list"),
    _ck("bf16_batched_", "ck_batched_gemm_bf16", "batched_gemm_bf16_common.py", "kernels_list"),
    _ck(
        "a8w8_bpreshuffle_cktile_",
        "cktile_gemm_a8w8_bpreshuffle",
        "gemm_a8w8_bpreshuffle_cktile_common.py",
        "kernels_list",
    ),
    _ck("a8w8_bpreshuffle_", "ck_gemm_a8w8_bpreshuffle", "gemm_a8w8_bpreshuffle_common.py", "kernels_list"),
    _ck(
        "a8w8_blockscale_cktile_",
        _BLOCKSCALE,
        "gemm_a8w8_blockscale_cktile_instance.py",
        "candidate_kernels_cktile_dict",
        generator="gen_instances_cktile.py",
    ),
    _ck(
        "a8w8_blockscale_bpreshuffle_",
        "ck_gemm_a8w8_blockscale_bpreshuffle",
        "gemm_a8w8_blockscale_bpreshuffle_common.py",
        "kernels_list",
    ),
    _ck("a8w8_blockscale_", _BLOCKSCALE, "gemm_a8w8_blockscale_instance.py", "candidate_kernels_dict"),
    _ck("a4w4_blockscale_", "ck_gemm_a4w4_blockscale", "gemm_a4w4_blockscale_common.py", "kernels_list"),
    KernelList("opus_gemm_", "csrc/opus_gemm/opus_gemm_common.py", by_id=True, log2=False),
    KernelList("opus_bmm_", "csrc/opus_gemm/opus_gemm_common.py", by_id=True, log2=False),
    KernelList("moe_ck2stages_gemm", _MOE, log2=False),
    KernelList("_ZN5aiter", "hsa", log2=False),
    *(
        KernelList(f"flydsl_moe{stage}_", "aiter/ops/flydsl/moe_kernels.py", ("_KERNEL_PARAMS",), log2=False,
                   suffix=r"(_kw\d+)?(_fp4)?(_fp8)?(_sbm\d+)?", but_not="flydsl_moe2_layout_")
        for stage in (1, 2)
    ),
    *(
        KernelList(f"opus_moe{stage}_", "csrc/opus_moe/opus_moe_common.py", log2=False, suffix="(_fp8)?",
                   alias=f"opus_moe{stage}_layout_")
        for stage in (1, 2)
    ),
)  # fmt: skip
"""The first one whose prefix fits counts. GEMMs of FlyDSL, kernels of Triton, torch and hipBLASLt are in no list, or
are named by rules in code."""

_MOE_NAME = re.compile(
    r"moe_ck2stages_gemm(?P<stage>[12])_\d+(?:x\d+)*_\d+x\d+_[A-Za-z0-9]+_v\d_Nswizzle(?P<swizzle>[01])_Quant(?P<quant>\d+)"
    r"_MulRoutedWeight(?P<weight>[01])(?:_(?P<act>[a-z]+))?_(?P<a>[A-Z0-9]+)_(?P<b>[A-Z0-9]+)_(?P<c>[A-Z0-9]+)"
)
_DEFAULT_OPUS_ARCH = "gfx950"


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A kernel of a list: its numbers there, and its fields in AITER's words."""

    numbers: frozenset[int] = frozenset()
    fields: Mapping[str, Any] = field(default_factory=dict)


Kernels = Mapping[str, ListedKernel]


def list_of(name: str) -> KernelList | None:
    """Return the list that a kernel's name belongs to; None for kernels that are in none."""
    return next((one for one in LISTS if name.startswith(one.prefix) and not name.startswith(one.but_not)), None)


class Registry:
    """The kernels of a checkout; each list is read when it is asked for, once."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._known: dict[tuple[str, ...], Kernels | None] = {}
        self._modules: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._named: dict[KernelList, bool] = {}

    def kernels(self, listed: KernelList, name: str, arch: str) -> Kernels | None:
        """Return the kernels of an arch, of the list that a name belongs to; None where it cannot be read."""
        variant = _MOE_NAME.fullmatch(name) if listed.path == _MOE else None
        key = (listed.prefix, arch, *(variant.groups("") if variant else ()))
        if key not in self._known:
            try:
                self._known[key] = self._read(listed, variant, arch) or None
            except (UnknownPythonError, RecursionError, TypeError, LookupError):  # another form of list
                self._known[key] = None
        known = self._known[key]
        if known and listed.suffix and name not in known:
            usual = listed.prefix + name.removeprefix(listed.alias) if name.startswith(listed.alias) else name
            found = next((one for one in _shorter(usual) if one in known), "")
            if found and re.fullmatch(listed.suffix, usual[len(found) :]):
                return {**known, name: known[found]}
        return known

    def other_archs(self, listed: KernelList, name: str, arch: str) -> list[str]:
        """Return the archs whose lists have a kernel that this arch lacks."""
        return [one for one in ARCHS if one != arch and name in (self.kernels(listed, name, one) or {})]

    def takes_names(self, listed: KernelList) -> bool:
        """Return True if the dispatch of a list takes a kernel by its name, not by its number."""
        if listed not in self._named:
            text = self._checkout.read(listed.generator) if listed.generator else None
            self._named[listed] = not listed.by_id or (text is not None and "kernels_by_name=" in text)
        return self._named[listed]

    def _read(self, listed: KernelList, variant: re.Match[str] | None, arch: str) -> Kernels:
        if listed.path == "hsa":
            return self._assembly(arch)
        values = self._module(listed.path, arch)
        if listed.path == _MOE:
            return {} if variant is None else _kernels(_moe_lists(values, variant), "", arch)
        if listed.variables:
            found = next((values[name] for name in listed.variables if name in values), None)
            return {} if not isinstance(found, dict) else _kernels([found], listed.prefix, arch)
        lists = [one for one in values.values() if isinstance(one, dict)]
        return _kernels(lists, listed.prefix, arch)

    def _module(self, path: str, arch: str) -> Mapping[str, Any]:
        if (path, arch) not in self._modules:
            text = self._checkout.read(path)
            if text is None:
                raise UnknownPythonError(f"there is no {path}")
            self._modules[path, arch] = evaluate_lists(text, {"chip_info": {"get_gfx": lambda: arch}})
        return self._modules[path, arch]

    def _assembly(self, arch: str) -> Kernels:
        found: dict[str, ListedKernel] = {}
        for path in self._checkout.csv_files(f"hsa/{arch}"):
            text = self._checkout.read(path)
            rows = csv.DictReader(io.StringIO(text or ""))
            try:
                found |= {row["knl_name"].strip(): ListedKernel() for row in rows if row.get("knl_name")}
            except csv.Error:
                raise UnknownPythonError(f"{path} is not CSV") from None
        return found


def _shorter(name: str) -> Iterator[str]:
    """The name, then without its last words, one after the other."""
    yield name
    while "_" in name:
        name = name.rpartition("_")[0]
        yield name


def _moe_lists(values: Mapping[str, Any], variant: re.Match[str]) -> list[Mapping[Any, Any]]:
    stage = variant["stage"]
    make: Callable[..., Any] | None = values.get(f"get_gemm{stage}_kernels_list")
    if make is None:
        raise UnknownPythonError("its function is not known")
    given = [variant["a"], variant["b"], variant["c"], variant["swizzle"] == "1", int(variant["quant"])]
    given += [variant["act"]] if stage == "1" else []
    given.append(variant["weight"] == "1")
    flags = [(False, False), (True, False), (False, True)] if stage == "1" else [(False,), (True,)]
    lists = []
    for more in flags:
        try:
            lists.append(make(*given, *more)[1])
        except UnknownPythonError:  # `raise`: there is no such combination
            continue
    return lists


def _kernels(lists: Iterable[Mapping[Any, Any]], prefix: str, arch: str) -> Kernels:
    numbers: dict[str, set[int]] = defaultdict(set)
    fields: dict[str, Mapping[str, Any]] = {}
    for one in lists:
        for number, kernel in one.items():
            if isinstance(number, str) and isinstance(kernel, dict):
                if number.startswith(prefix):
                    fields[number] = kernel
                continue
            if not isinstance(kernel, PythonInstance):
                break
            if str(kernel.fields.get("arch_prefix", arch) or _DEFAULT_OPUS_ARCH) != arch:
                continue
            name = kernel.attribute("name")
            if isinstance(name, str) and name.startswith(prefix):
                fields[name] = kernel.fields
                if isinstance(number, int) and number >= 0:
                    numbers[name].add(number)
    return {name: ListedKernel(frozenset(numbers[name]), fields[name]) for name in fields}
