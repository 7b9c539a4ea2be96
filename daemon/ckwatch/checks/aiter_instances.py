"""AITER's instances of Composable Kernel: what their lists are for, what their names say, and CK's names of it all.

A name, `a8w8_rowwise_256x128x128x128_32x32_2x2_8x32x1_8x32x1_1x32x1x8_8x8x1_1x1_intrawave_v3`, has the list's name and
then the fields of an instance, as `csrc/ck_*/*_common.py` of ROCm's AITER put it together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ckwatch.model.kernels import Operation, ParameterValue
from ckwatch.model.lazy_dataclass import dataclass

Fields = Mapping[str, ParameterValue]
"""An instance in AITER's words."""

_TILE = ("MPerBlock", "NPerBlock", "KPerBlock")
CK_NAMES = {
    "BLOCK_SIZE": "BlockSize",
    **{name: name for name in ("ScaleBlockM", "ScaleBlockN", "ScaleBlockK", "AK1", "BK1", "MPerXDL", "NPerXDL")},
    "MPerBLOCK": "MPerBlock",
    "NPerBLOCK": "NPerBlock",
    "KPerBLOCK": "KPerBlock",
    "WAVE_TILE_M": "MPerXDL",
    "WAVE_TILE_N": "NPerXDL",
    "WAVE_MAP_M": "MXdlPerWave",
    "WAVE_MAP_N": "NXdlPerWave",
    "ABLOCK_TRANSFER": "ABlockTransferThreadClusterLengths_AK0_M_AK1",
    "BBLOCK_TRANSFER": "BBlockTransferThreadClusterLengths_BK0_N_BK1",
    "CBLOCK_TRANSFER": "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock",
    "CBLOCK_SPV": "CDEShuffleBlockTransferScalarPerVectors",
    "CSHUFFLE_MX_PER_WAVE_PERSHUFFLE": "CShuffleMXdlPerWavePerShuffle",
    "CSHUFFLE_NX_PER_WAVE_PERSHUFFLE": "CShuffleNXdlPerWavePerShuffle",
    "LOOP_SCHED": "BlkGemmPipeSched",
    "PIPELINE_Sched": "BlkGemmPipeSched",
    "PIPELINE_VERSION": "BlkGemmPipelineVer",
}
"""CK's names of AITER's fields."""

_NAME = re.compile(
    r"(?P<list>[a-z][a-z0-9]*(?:_[a-z]+)+)_(?P<parts>\d{1,4}(?:x\d{1,4})+(?:_\d{1,4}(?:x\d{1,4})*)*)"
    r"_(?P<scheduler>intrawave|interwave)_v(?P<version>\d)"
)
_WAVE_MAP = ("WAVE_MAP_M", "WAVE_MAP_N")

_TILE_NAME = ("BLOCK_SIZE", "MPerBLOCK", "NPerBLOCK", "KPerBLOCK")
_BEHIND_WAVE_MAP = (
    ("ABLOCK_TRANSFER",),
    ("BBLOCK_TRANSFER",),
    ("CBLOCK_TRANSFER",),
    ("CBLOCK_SPV",),
    ("CSHUFFLE_MX_PER_WAVE_PERSHUFFLE", "CSHUFFLE_NX_PER_WAVE_PERSHUFFLE"),
)
_ROWWISE_NAME = (_TILE_NAME, ("WAVE_TILE_M", "WAVE_TILE_N"), _WAVE_MAP, *_BEHIND_WAVE_MAP)
_PRESHUFFLED_NAME = (_TILE_NAME, ("AK1", "BK1"), ("MPerXDL", "NPerXDL"), *_BEHIND_WAVE_MAP)
_BLOCK_SCALED_NAME = (("ScaleBlockM", "ScaleBlockN", "ScaleBlockK"), *_PRESHUFFLED_NAME)


class ListError(ValueError):
    """A text that is no list of AITER's; the message is why."""


@dataclass(frozen=True, slots=True)
class AiterList:
    """One of AITER's lists. `name` begins the names of its instances, whose other parts are the fields `parts`.

    A kernel file is written for each of `operations`, which are by what they are called behind the list's name;
    `scale_blocks` says that scales are per block, whose sizes each instance has. `bk1`: BK1 where no field says it.
    `microscaled`: what the kernel for microscaled operands has otherwise.
    """

    name: str
    template: str
    parts: tuple[tuple[str, ...], ...]
    operations: Mapping[str, Mapping[str, Any]]
    shapes: tuple[Mapping[str, int | str], ...]
    bk1: int | None = None
    scale_blocks: bool = False
    microscaled: bool = False


def _product(kind: str, a: str, c: str, scale: Mapping[str, Any] | None) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": kind}
    table |= {key: {"dtype": a, "layout": layout} for key, layout in (("a", "row"), ("b", "col"))}
    table["c"] = {"dtype": c, "layout": "row"}
    return table if scale is None else {**table, "scale_a": scale, "scale_b": scale}


_PRESHUFFLED = {"dtype": "f8", "preshuffled": [16, 16]}
"""As AITER's `shuffle_weight(layout=(16, 16))` makes it."""

_MICROSCALED = {
    **_product("gemm", "f4", "bf16", None),
    "scale_a": {"dtype": "e8m0", "per": "block", "block": [1, 32], "preshuffled": 16},
    "scale_b": {"dtype": "e8m0", "per": "block", "block": [32, 1], "preshuffled": 16},
}
_ROW_SCALE = {"dtype": "f32", "per": "row"}
_SHAPES: tuple[Mapping[str, int | str], ...] = ({"name": "4096", "M": 4096, "N": 4096, "K": 4096},)
_BATCHED_SHAPES: tuple[Mapping[str, int | str], ...] = ({"name": "16x2048", "B": 16, "M": 2048, "N": 2048, "K": 2048},)

LISTS: Mapping[str, AiterList] = {
    one.name: one
    for one in (
        AiterList(
            name="a8w8_rowwise",
            template="ck/gemm_universal.hip.j2",
            parts=_ROWWISE_NAME,
            operations={dtype: _product("gemm", dtype, "bf16", _ROW_SCALE) for dtype in ("i8", "f8")},
            shapes=_SHAPES,
            bk1=16,
        ),
        AiterList(
            name="a8w8_batched_rowwise",
            template="ck/batched_gemm.hip.j2",
            parts=_ROWWISE_NAME,
            operations={"i8": _product("batched_gemm", "i8", "bf16", {**_ROW_SCALE, "batched": True})},
            shapes=_BATCHED_SHAPES,
            bk1=16,
        ),
        AiterList(
            name="bf16_batched",
            template="ck/batched_gemm.hip.j2",
            parts=_ROWWISE_NAME,
            operations={"": _product("batched_gemm", "bf16", "bf16", None)},
            shapes=_BATCHED_SHAPES,
        ),
        AiterList(
            name="a8w8_bpreshuffle",
            template="ck/gemm_preshuffled.hip.j2",
            parts=_PRESHUFFLED_NAME,
            operations={"f8": {**_product("gemm", "f8", "bf16", _ROW_SCALE), "b": _PRESHUFFLED}},
            shapes=_SHAPES,
        ),
        AiterList(
            name="a8w8_blockscale",
            template="ck/gemm_block_scaled.hip.j2",
            parts=_BLOCK_SCALED_NAME,
            operations={"f8": _product("gemm", "f8", "bf16", {"dtype": "f32", "per": "block"})},
            shapes=_SHAPES,
            scale_blocks=True,
        ),
        AiterList(
            name="a4w4_blockscale",
            template="ck/gemm_microscaled.hip.j2",
            parts=_PRESHUFFLED_NAME,
            operations={
                "": _MICROSCALED,
                "bpreshuffle": {**_MICROSCALED, "b": {"dtype": "f4", "preshuffled": [16, 32]}},
            },
            shapes=_SHAPES,
            microscaled=True,
        ),
    )
}
"""The lists that templates of ckwatch can build, by the beginning of their instances' names."""


def with_blocks(operation: Mapping[str, Any], block: Sequence[int]) -> Mapping[str, Any]:
    """Return the table of an operation whose scales have these blocks of M, N and K; without any, as it is."""
    if not block:
        return operation
    m, n, k = block
    blocks = {"scale_a": [m, k], "scale_b": [k, n]}
    return {**operation, **{key: {**operation[key], "block": sizes} for key, sizes in blocks.items()}}


def instance_name(family: AiterList, fields: Fields) -> str:
    """Return AITER's name of an instance. Raises ListError."""
    try:
        words = {name: "x".join(map(str, one)) if isinstance(one, tuple) else str(one) for name, one in fields.items()}
        parts = ["x".join(words[name] for name in part) for part in family.parts]
        sched = fields["LOOP_SCHED"] if "LOOP_SCHED" in fields else fields["PIPELINE_Sched"]
        return "_".join([family.name, *parts, str(sched).lower(), f"v{fields['PIPELINE_VERSION']}"])
    except KeyError as error:
        raise ListError(f"its instances have no field {error}") from None


@dataclass(frozen=True, slots=True)
class NamedInstance:
    """An instance as its name describes it: its `list`, and its `parameters` under CK's names; none if there is no
    template for the list or the name has another form.

    Names of some lists do not say `MXdlPerWave` and `NXdlPerWave`. None says `GemmSpec`, of which AITER compiles both.
    """

    list: str
    parameters: Mapping[str, ParameterValue]


def read_name(name: str) -> NamedInstance | None:
    """The instance of Composable Kernel that a name in AITER means; None for kernels of other kinds."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    family = LISTS.get(found["list"])
    parts = found["parts"].split("_")
    if family is None:
        return NamedInstance(found["list"], {})
    words = list(family.parts)
    if len(parts) == len(words) + 1 and _WAVE_MAP not in words:
        words.insert(len(words) - len(_BEHIND_WAVE_MAP), _WAVE_MAP)  # newer names have it
    if len(parts) != len(words):
        return NamedInstance(family.name, {})
    fields: dict[str, ParameterValue] = {
        "LOOP_SCHED": found["scheduler"].capitalize(),
        "PIPELINE_VERSION": int(found["version"]),
    }
    for keys, text in zip(words, parts, strict=True):
        numbers = tuple(map(int, text.split("x")))
        if len(keys) == 1:
            fields[keys[0]] = numbers if len(numbers) > 1 else numbers[0]
        elif len(keys) == len(numbers):
            fields.update(zip(keys, numbers, strict=True))
        else:
            return NamedInstance(family.name, {})
    try:
        parameters = parameters_of(family, fields, "")
    except ListError:
        return NamedInstance(family.name, {})
    del parameters["GemmSpec"]
    return NamedInstance(family.name, parameters)


def parameters_of(family: AiterList, fields: Fields, gemm_spec: str) -> dict[str, ParameterValue]:
    """An instance under CK's names, with what AITER gives to all. Raises ListError."""
    unknown = [name for name in fields if name not in CK_NAMES]
    if unknown:
        raise ListError(f"CK has no {', '.join(unknown)}")
    given = {CK_NAMES[name]: value for name, value in fields.items()}
    given["BlkGemmPipelineVer"] = f"v{given['BlkGemmPipelineVer']}"
    widths = given["CDEShuffleBlockTransferScalarPerVectors"]
    first, *others = widths if isinstance(widths, tuple) else (widths,)
    if others and list(others) != [first] * (len(others) - 1) + [1]:
        raise ListError("D tensors are read in other widths than Y is written")
    for side, k1 in (("A", "AK1"), ("B", "BK1")):
        lengths = given[f"{side}BlockTransferThreadClusterLengths_{side}K0_{'M' if side == 'A' else 'N'}_{k1}"]
        if k1 not in given:
            slices = lengths[0] if isinstance(lengths, tuple) else lengths
            of_list = family.bk1 if side == "B" else None
            given[k1] = of_list if of_list is not None else int(str(given["KPerBlock"])) // max(int(str(slices)), 1)
    found: dict[str, ParameterValue] = {"GemmSpec": "Default" if family.microscaled else gemm_spec}
    first_ones = ("BlockSize", "ScaleBlockM", "ScaleBlockN", "ScaleBlockK", *_TILE, "AK1", "BK1")
    for name in (*first_ones, "MPerXDL", "NPerXDL", "MXdlPerWave", "NXdlPerWave"):
        if name in given:
            found[name] = given.pop(name)
    for side, lines in (("A", "M"), ("B", "N")):
        cluster = f"{side}BlockTransferThreadClusterLengths_{side}K0_{lines}_{side}K1"
        found[cluster] = given.pop(cluster)
        found[f"{side}BlockTransferThreadClusterArrangeOrder"] = (1, 0, 2)
        found[f"{side}BlockTransferSrcAccessOrder"] = (1, 0, 2)
        found[f"{side}BlockTransferSrcVectorDim"] = 2
        found[f"{side}BlockTransferSrcScalarPerVector"] = found[f"{side}K1"]
        found[f"{side}BlockTransferDstScalarPerVector_{side}K1"] = found[f"{side}K1"]
        found[f"{side}BlockLdsExtra{lines}"] = family.microscaled
    del given["CDEShuffleBlockTransferScalarPerVectors"]
    width = int(str(first))
    widths_of_y: dict[str, ParameterValue] = (
        {"CShuffleBlockTransferScalarPerVector_NPerBlock": width}
        if family.microscaled
        else {"CDEShuffleBlockTransferScalarPerVectors": (width,)}
    )
    return {**found, **given, **widths_of_y}


_EIGHT_BITS = {"i8": "8 bits", "f8": "8 bits"}
"""AITER's lists of a8w8 have both."""


def _is_of(family: AiterList, operation: Operation) -> bool:
    """Return True if a list has instances for such an operation: of its kind, operands and scales."""
    inputs = dict(operation.inputs)
    dtype = None if (x := inputs.get("X")) is None else _EIGHT_BITS.get(x.dtype, x.dtype)
    mine = operation.kind, dtype, inputs.get("inv_scale_x") is not None
    return any(
        mine == (one["kind"], _EIGHT_BITS.get(one["a"]["dtype"], one["a"]["dtype"]), "scale_a" in one)
        for one in family.operations.values()
    )


def aiter_name(parameters: Mapping[str, ParameterValue], operation: Operation) -> str | None:
    """Return AITER's name of an operation's instance with these parameters under CK's names, or None if AITER has none.

    `GemmSpec` is in no name. A name is only given if it means exactly these parameters.
    """
    bare = {name: value for name, value in parameters.items() if name != "GemmSpec"}
    fields = {field: bare[ck] for field, ck in CK_NAMES.items() if ck in bare}
    version = str(fields.get("PIPELINE_VERSION", "")).removeprefix("v")
    widths = fields.get("CBLOCK_SPV")
    width = widths[0] if isinstance(widths, tuple) and widths else widths
    for family in [one for one in LISTS.values() if _is_of(one, operation)]:
        for written in ((width, width, 1), width):
            given: dict[str, Any] = {**fields, "PIPELINE_VERSION": version, "CBLOCK_SPV": written}
            try:
                name = instance_name(family, given)
            except ListError:
                continue
            found = read_name(name)
            if found is not None and found.parameters and dict(found.parameters) == bare:
                return name
    return None
