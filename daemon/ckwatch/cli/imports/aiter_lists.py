"""AITER's lists of Composable Kernel instances → kernel files.

A list is a Python file `gemm_*_common.py` of ROCm's AITER: a dataclass `kernelInstance`, whose property `name` tells
what the list is for, and a dictionary `kernels_list` of its instances. It is read, never run.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckwatch.cli.imports.instance_lists import PlannedFile
from ckwatch.cli.imports.kernel_texts import kernel_text, table_text
from ckwatch.model.kernels import ParameterValue

Fields = Mapping[str, ParameterValue]
"""An instance in AITER's words."""

GEMM_SPECS = ("MNKPadding", "Default")
"""AITER compiles each instance with both: `Default` where its tile divides all sizes, `MNKPadding` for all others."""

NAME = "name"
"""How a filter mentions an instance's name."""

_TILE = ("MPerBlock", "NPerBlock", "KPerBlock")
_SHOWN = (*_TILE, "BlkGemmPipelineVer", "BlkGemmPipeSched")
_PARAMETERS = {
    "BLOCK_SIZE": "BlockSize",
    "ScaleBlockM": "ScaleBlockM",
    "ScaleBlockN": "ScaleBlockN",
    "ScaleBlockK": "ScaleBlockK",
    "MPerBLOCK": "MPerBlock",
    "NPerBLOCK": "NPerBlock",
    "KPerBLOCK": "KPerBlock",
    "AK1": "AK1",
    "BK1": "BK1",
    "WAVE_TILE_M": "MPerXDL",
    "WAVE_TILE_N": "NPerXDL",
    "MPerXDL": "MPerXDL",
    "NPerXDL": "NPerXDL",
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

_TILE_NAME = ("BLOCK_SIZE", "MPerBLOCK", "NPerBLOCK", "KPerBLOCK")
_ROWWISE_NAME = (
    _TILE_NAME,
    ("WAVE_TILE_M", "WAVE_TILE_N"),
    ("WAVE_MAP_M", "WAVE_MAP_N"),
    ("ABLOCK_TRANSFER",),
    ("BBLOCK_TRANSFER",),
    ("CBLOCK_TRANSFER",),
    ("CBLOCK_SPV",),
    ("CSHUFFLE_MX_PER_WAVE_PERSHUFFLE", "CSHUFFLE_NX_PER_WAVE_PERSHUFFLE"),
)
_PRESHUFFLED_NAME = (_TILE_NAME, ("AK1", "BK1"), ("MPerXDL", "NPerXDL"), *_ROWWISE_NAME[3:])
_BLOCK_SCALED_NAME = (("ScaleBlockM", "ScaleBlockN", "ScaleBlockK"), *_PRESHUFFLED_NAME)


class ListError(ValueError):
    """A text that is no list of AITER's; the message is why."""


@dataclass(frozen=True, slots=True)
class AiterList:
    """What a list is for. `name` begins the names of its instances, whose other parts are the fields `parts`.

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


@dataclass(frozen=True, slots=True)
class ListedInstances:
    """What a file lists: instances by their names in AITER; `repeated` more are the same as another one."""

    list: AiterList
    instances: Mapping[str, Fields]
    repeated: int = 0


@dataclass(slots=True)
class AiterPlan:
    """The files of an import, and how many of the `listed` instances are in none of them, by the reason.

    An instance counts once for each operation that a kernel file is written for.
    """

    listed: int
    files: list[PlannedFile] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_list(text: str) -> ListedInstances:
    """The instances in the text of a list. Raises ListError."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ListError(f"it is no Python: {error}") from None
    described = next(
        (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "kernelInstance"), None
    )
    table = next((_assigned(node) for node in module.body if _assigns(node, "kernels_list")), None)
    if described is None or not isinstance(table, ast.Dict):
        raise ListError("it has no class `kernelInstance` and dictionary `kernels_list`")
    family = _family(described)
    names = [
        node.target.id
        for node in described.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    found: dict[str, Fields] = {}
    for value in table.values:
        fields = _fields(value, names)
        found.setdefault(instance_name(family, fields), fields)
    if not found:
        raise ListError("`kernels_list` is empty")
    return ListedInstances(family, found, len(table.values) - len(found))


def instance_name(family: AiterList, fields: Fields) -> str:
    """What AITER calls an instance. Raises ListError."""
    try:
        parts = ["x".join(_words(fields[name]) for name in part) for part in family.parts]
        sched = fields["LOOP_SCHED"] if "LOOP_SCHED" in fields else fields["PIPELINE_Sched"]
        return "_".join([family.name, *parts, str(sched).lower(), f"v{fields['PIPELINE_VERSION']}"])
    except KeyError as error:
        raise ListError(f"its instances have no field {error}") from None


def named_instance(name: str) -> tuple[AiterList, Fields]:
    """The list that an instance's name begins with, and the fields that the name tells. Raises ListError."""
    family = next((one for one in LISTS.values() if name.startswith(f"{one.name}_")), None)
    if family is None:
        raise ListError(f"`{name}` is of no list that templates are there for")
    *words, sched, version = name.removeprefix(f"{family.name}_").split("_")
    if len(words) != len(family.parts) or not version.startswith("v"):
        raise ListError(f"`{name}` does not have the parts of a name in {family.name}")
    scheduler = "PIPELINE_Sched" if family.scale_blocks or family.parts is _PRESHUFFLED_NAME else "LOOP_SCHED"
    found: dict[str, ParameterValue] = {}
    try:
        for part, word in zip(family.parts, words, strict=True):
            numbers = tuple(int(number) for number in word.split("x"))
            found |= {part[0]: numbers} if len(part) == 1 else dict(zip(part, numbers, strict=True))
        found[scheduler] = sched.capitalize()
        found["PIPELINE_VERSION"] = int(version[1:])
    except ValueError:
        raise ListError(f"`{name}` does not have the sizes of a name in {family.name}") from None
    return family, found


def known_names(listed: ListedInstances) -> dict[str, str]:
    """The fields by the names that a filter may use: AITER's, and CK's."""
    own = {name: name for name in next(iter(listed.instances.values()))}
    return {_PARAMETERS[name]: name for name in own if name in _PARAMETERS} | own


def plan_import(
    listed: ListedInstances,
    template: str,
    gemm_spec: str,
    wanted: Callable[[Fields], bool],
    limit: int | None,
    most_in_a_file: int,
) -> AiterPlan:
    """The kernel files for a list: one for each dtype and each block of scales."""
    family = listed.list
    operations = len(family.operations)
    plan = AiterPlan((len(listed.instances) + listed.repeated) * operations)
    groups: dict[tuple[int, ...], dict[str, dict[str, ParameterValue]]] = defaultdict(dict)
    for name, fields in listed.instances.items():
        if not wanted(fields):
            continue
        try:
            parameters = parameters_of(family, fields, gemm_spec)
        except ListError as error:
            plan.left_out[str(error)] += operations
            continue
        block = tuple(int(str(parameters.pop(f"ScaleBlock{axis}"))) for axis in "MNK") if family.scale_blocks else ()
        groups[block][name] = parameters
    for block, group in groups.items():
        for suffix, operation in family.operations.items():
            called = "_".join(filter(None, (family.name, suffix, "x".join(map(str, block)))))
            chosen = _spread(list(group), limit)
            plan.left_out["more than --limit allows"] += len(group) - len(chosen)
            for number, start in enumerate(range(0, len(chosen), most_in_a_file), 1):
                part = {name: group[name] for name in chosen[start : start + most_in_a_file]}
                text = kernel_text(
                    "Instances of Composable Kernel from AITER's list.",
                    template,
                    table_text(_with_blocks(operation, block)),
                    family.shapes,
                    part,
                    _SHOWN,
                )
                plan.files.append(PlannedFile(called if number == 1 else f"{called}_{number}", text, len(part)))
    plan.left_out["the same as another one"] = listed.repeated * operations
    plan.left_out = +plan.left_out
    return plan


def parameters_of(family: AiterList, fields: Fields, gemm_spec: str) -> dict[str, ParameterValue]:
    """An instance under CK's names, with what AITER gives to all. Raises ListError."""
    unknown = [name for name in fields if name not in _PARAMETERS]
    if unknown:
        raise ListError(f"CK has no {', '.join(unknown)}")
    given = {_PARAMETERS[name]: value for name, value in fields.items()}
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
    for name in ("BlockSize", "ScaleBlockM", "ScaleBlockN", "ScaleBlockK", *_TILE, "AK1", "BK1"):
        if name in given:
            found[name] = given.pop(name)
    for name in ("MPerXDL", "NPerXDL", "MXdlPerWave", "NXdlPerWave"):
        found[name] = given.pop(name)
    for side, lines, extra in (("A", "M", "M"), ("B", "N", "N")):
        cluster = f"{side}BlockTransferThreadClusterLengths_{side}K0_{lines}_{side}K1"
        found[cluster] = given.pop(cluster)
        found[f"{side}BlockTransferThreadClusterArrangeOrder"] = (1, 0, 2)
        found[f"{side}BlockTransferSrcAccessOrder"] = (1, 0, 2)
        found[f"{side}BlockTransferSrcVectorDim"] = 2
        found[f"{side}BlockTransferSrcScalarPerVector"] = found[f"{side}K1"]
        found[f"{side}BlockTransferDstScalarPerVector_{side}K1"] = found[f"{side}K1"]
        found[f"{side}BlockLdsExtra{extra}"] = family.microscaled
    del given["CDEShuffleBlockTransferScalarPerVectors"]
    width = int(str(first))
    widths_of_y: dict[str, ParameterValue] = (
        {"CShuffleBlockTransferScalarPerVector_NPerBlock": width}
        if family.microscaled
        else {"CDEShuffleBlockTransferScalarPerVectors": (width,)}
    )
    return {**found, **given, **widths_of_y}


def _with_blocks(operation: Mapping[str, Any], block: Sequence[int]) -> Mapping[str, Any]:
    if not block:
        return operation
    m, n, k = block
    blocks = {"scale_a": [m, k], "scale_b": [k, n]}
    return {**operation, **{key: {**operation[key], "block": sizes} for key, sizes in blocks.items()}}


def _spread(names: Sequence[str], limit: int | None) -> list[str]:
    if limit is None or len(names) <= limit:
        return list(names)
    return [names[at * len(names) // limit] for at in range(limit)]


def _family(described: ast.ClassDef) -> AiterList:
    """The list that the property `name` tells."""
    functions = (node for node in described.body if isinstance(node, ast.FunctionDef) and node.name == "name")
    words = [
        node.value
        for function in functions
        for returned in function.body
        if isinstance(returned, ast.Return)
        for node in ast.walk(returned)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for word in words:
        if word in LISTS:
            return LISTS[word]
    told = next((word for word in words if len(word) > 1), "")
    known = ", ".join(f"`{name}`" for name in LISTS)
    raise ListError(f"its instances are called `{told}`, and templates are there for {known}")


def _assigns(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)


def _assigned(node: ast.stmt) -> ast.expr | None:
    return node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None


def _fields(value: ast.expr, names: Sequence[str]) -> Fields:
    if not isinstance(value, ast.Call) or len(value.args) > len(names):
        raise ListError(f"line {value.lineno} is no call of `kernelInstance`")
    given: Iterable[tuple[str | None, ast.expr]] = [
        *zip(names, value.args, strict=False),
        *((one.arg, one.value) for one in value.keywords),
    ]
    found: dict[str, ParameterValue] = {}
    for name, expression in given:
        try:
            plain = ast.literal_eval(expression)
        except (ValueError, TypeError):
            raise ListError(f"line {expression.lineno} has a value that is not written out") from None
        found[str(name)] = tuple(plain) if isinstance(plain, list) else plain
    return found


def _words(value: ParameterValue) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
