"""CK's lists of instances, as ck4inductor gives them → kernel files.

Instances with the same `[operation]` share a kernel file. Their fields become parameters: under CK's names for the
templates that ship with ckwatch, under their own for a template of PyTorch Inductor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.rule import ParameterKind, TemplateParameter
from ckwatch.cli.imports.filters import plain
from ckwatch.cli.imports.kernel_texts import kernel_text
from ckwatch.model.kernels import ParameterValue, value_in_name
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES, LAYOUTS
from ckwatch.workspace.operations.tables import accumulator_for
from ckwatch.workspace.toml import table_text

Fields = Mapping[str, ParameterValue | None]
"""An operation of ck4inductor; None for what is left to CK."""


@dataclass(frozen=True, slots=True)
class InstanceFamily:
    """One of CK's lists, and how kernel files say what is in it.

    `function` of the module `module` makes the list. `operands` are, by the keys of `[operation]`, the letters with
    which their fields begin. `compute_follows` is the field that the compute type follows where there is none.
    """

    module: str
    function: str
    device_operation: str
    template: str
    kind: str
    kernel: str
    operands: Mapping[str, str]
    shapes: tuple[Mapping[str, int | str], ...]
    compute_follows: str = ""


_PRODUCT = {"a": "a", "b": "b", "c": "c"}
_IMAGE = {"NBatch": 32, "NOutChannels": 256, "NInChannels": 256, "InputSize_0": 28, "InputSize_1": 28}

FAMILIES: Mapping[str, InstanceFamily] = {
    "gemm": InstanceFamily(
        module="ck4inductor.universal_gemm.gen_instances",
        function="gen_ops_library",
        device_operation="DeviceGemmMultiD_Xdl_CShuffle_V3",
        template="ck/gemm_universal.hip.j2",
        kind="gemm",
        kernel="gemm",
        operands=_PRODUCT,
        shapes=({"name": "4096", "M": 4096, "N": 4096, "K": 4096},),
        compute_follows="c_element_dtype",
    ),
    "batched_gemm": InstanceFamily(
        module="ck4inductor.batched_universal_gemm.gen_instances",
        function="gen_ops_library",
        device_operation="DeviceBatchedGemmMultiD_Xdl_CShuffle_V3",
        template="ck/batched_gemm.hip.j2",
        kind="batched_gemm",
        kernel="batched_gemm",
        operands=_PRODUCT,
        shapes=({"name": "16x2048", "B": 16, "M": 2048, "N": 2048, "K": 2048},),
        compute_follows="c_element_dtype",
    ),
    "convolution": InstanceFamily(
        module="ck4inductor.grouped_conv_fwd.gen_instances",
        function="gen_conv_ops_library",
        device_operation="DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle_V3",
        template="ck/grouped_convolution.hip.j2",
        kind="grouped_convolution",
        kernel="convolution",
        operands={"a": "a", "b": "b", "c": "e"},
        shapes=(
            {
                "name": "3x3",
                **_IMAGE,
                **dict.fromkeys(("FilterSize_0", "FilterSize_1"), 3),
                **dict.fromkeys(("LeftPads_0", "LeftPads_1", "RightPads_0", "RightPads_1"), 1),
            },
            {"name": "1x1", **_IMAGE, **dict.fromkeys(("FilterSize_0", "FilterSize_1"), 1)},
        ),
    ),
}

PASSING = ("PassThrough", "OutElementOp")
"""Elementwise operations that do nothing; the second is CK's name in its lists of convolutions."""

_DTYPES = {one.ck_name: one.name for one in DTYPES.values()} | {"int8_t": "i8", "int32_t": "i32"}
_LAYOUTS = {ck_name: name for name, ck_name in LAYOUTS.items()}

_VERSION, _SCHEDULER = "block_gemm_pipeline_version", "block_gemm_pipeline_scheduler"
_TILE = ("m_per_block", "n_per_block", "k_per_block")
_SHOWN = (*_TILE, _VERSION, _SCHEDULER)
"""Parameters that each instance gives itself."""

_SPECIALIZATIONS = ("conv_forward_specialization", "gemm_specialization")
_NAME_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("b{}", ("block_size",)),
    ("xdl{}x{}", ("m_per_xdl", "n_per_xdl")),
    ("wave{}x{}", ("m_xdl_per_wave", "n_xdl_per_wave")),
    ("k{}x{}", ("a_k1", "b_k1")),
    ("k{}x{}", ("ak1", "bk1")),
    ("a{}", ("a_block_transfer_thread_cluster_lengths_ak0_m_ak1",)),
    ("b{}", ("b_block_transfer_thread_cluster_lengths_bk0_n_bk1",)),
    ("load{}x{}", ("a_block_transfer_src_scalar_per_vector", "b_block_transfer_src_scalar_per_vector")),
    ("lds{}x{}", ("a_block_lds_extra_m", "b_block_lds_extra_n")),
    ("shuffle{}x{}", ("c_shuffle_m_xdl_per_wave_per_shuffle", "c_shuffle_n_xdl_per_wave_per_shuffle")),
    ("c{}", ("c_shuffle_block_transfer_cluster_lengths_m_block_m_per_block_n_block_n_per_block",)),
    ("c{}", ("cde_block_transfer_cluster_lengths_m_block_m_per_block_n_block_n_per_block",)),
    ("store{}", ("c_shuffle_block_transfer_scalar_per_vector_n_per_block",)),
    ("store{}", ("cde_block_transfer_scalar_per_vector_n_per_block",)),
    ("direct", ("direct_load",)),
    ("{}", ("a_compute_dtype",)),
)
"""Values that tell instances with the same tile and pipeline apart in a name; the first that does is taken."""


class InexpressibleError(ValueError):
    """An instance that a kernel file cannot say; the message is why."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A kernel file that is to be written, as NAME.kernel.toml."""

    name: str
    text: str
    instances: int


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The files of an import, and how many instances are in none of them, by the reason."""

    files: tuple[PlannedFile, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which instances are wanted, at most how many of each operation, and at most how many a file may have."""

    wanted: Callable[[Fields], bool]
    limit: int | None
    most_in_a_file: int


@dataclass(frozen=True, slots=True)
class TargetTemplate:
    """The template that kernel files name, whether it has CK's names for parameters, and the words in its tags."""

    template: str
    has_ck_names: bool
    words: AbstractSet[str] | None


@dataclass(frozen=True, slots=True)
class _Instance:
    fields: Fields
    operation: Mapping[str, Any]
    parameters: Mapping[str, ParameterValue]


def plan_import(
    family: InstanceFamily, listed: Iterable[Fields], names: TargetTemplate, selection: Selection
) -> ImportPlan:
    """The kernel files for a list. Names of instances do not depend on what is selected."""
    groups: dict[str, list[_Instance]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    present: set[tuple[str, str]] = set()
    for fields in listed:
        try:
            instance = _instance(family, fields, names)
        except InexpressibleError as error:
            if selection.wanted(fields):
                left_out[str(error)] += 1
            continue
        operation = table_text(instance.operation)
        identity = operation, repr(instance.parameters)
        if identity not in present:
            present.add(identity)
            groups[operation].append(instance)
        elif selection.wanted(fields):
            left_out["the same as another one"] += 1
    kernel_names = _kernel_names(family, [group[0].operation for group in groups.values()])
    files: list[PlannedFile] = []
    for kernel, (operation, group) in zip(kernel_names, groups.items(), strict=True):
        group.sort(key=_order)
        chosen = [
            one
            for one in zip(_instance_names([one.fields for one in group]), group, strict=True)
            if selection.wanted(one[1].fields)
        ]
        if selection.limit is not None and len(chosen) > selection.limit:
            left_out["more than --limit allows"] += len(chosen) - selection.limit
            chosen = [chosen[at * len(chosen) // selection.limit] for at in range(selection.limit)]
        for number, start in enumerate(range(0, len(chosen), selection.most_in_a_file), 1):
            part = chosen[start : start + selection.most_in_a_file]
            name = kernel if number == 1 else f"{kernel}_{number}"
            files.append(PlannedFile(name, _kernel_file(family, names, operation, part), len(part)))
    return ImportPlan(tuple(sorted(files, key=lambda file: file.name)), dict(left_out.most_common()))


def spellings(family: InstanceFamily, fields: Iterable[str]) -> dict[str, str]:
    """The fields by all the names that they go by: their own, and CK's."""
    operation = OPERATIONS.get(family.device_operation)
    own = {name: name for name in fields}
    ck_names = {operation.canonical(name): name for name in own} if operation is not None else {}
    return {name: field for name, field in ck_names.items() if name is not None} | own


def _instance(family: InstanceFamily, fields: Fields, names: TargetTemplate) -> _Instance:
    operation = _operation(family, fields)
    given = {name: value for name, value in fields.items() if value is not None and not _is_of_operation(name)}
    if given.get("c_shuffle_dtype") == fields.get(f"{family.operands['c']}_element_dtype"):
        del given["c_shuffle_dtype"]
    parameters = _with_ck_names(family, fields, given) if names.has_ck_names else given
    unread = [] if names.words is None else [name for name in parameters if name not in names.words]
    if unread:
        raise InexpressibleError(f"{names.template} reads no {', '.join(unread)}")
    return _Instance(fields, operation, parameters)


def _is_of_operation(name: str) -> bool:
    endings = ("_layout", "_layouts", "_element_dtype", "_element_dtypes", "_elementwise_op")
    return name.endswith(endings) or name in ("acc_dtype", "n_dim_spatial")


def _operation(family: InstanceFamily, fields: Fields) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": family.kind}
    if "n_dim_spatial" in fields:
        table["dimensions"] = fields["n_dim_spatial"]
    for key, letter in family.operands.items():
        layout = str(fields[f"{letter}_layout"])
        table[key] = {"dtype": _dtype(fields, f"{letter}_element_dtype"), "layout": _LAYOUTS.get(layout, layout)}
    for name, value in fields.items():
        if name.startswith("ds_") and value:
            raise InexpressibleError(f"{name} = {value}")
        if name.endswith("_elementwise_op") and value not in PASSING:
            raise InexpressibleError(f"{name} = {value}")
    accumulator = _dtype(fields, "acc_dtype")
    if accumulator != accumulator_for(table["a"]["dtype"]):
        table["accumulator"] = accumulator
    return table


def _dtype(fields: Fields, name: str) -> str:
    found = _DTYPES.get(str(fields[name]))
    if found is None:
        raise InexpressibleError(f"{name} = {fields[name]}, which no dtype of [operation] is")
    return found


def _with_ck_names(
    family: InstanceFamily, fields: Fields, given: Mapping[str, ParameterValue]
) -> dict[str, ParameterValue]:
    """The parameters under the names that the device operation's rules know."""
    operation = OPERATIONS[family.device_operation]
    found = {}
    for name, value in {**given, **_compute_types(family, fields)}.items():
        canonical = operation.canonical(name)
        if canonical is None:
            raise InexpressibleError(f"{family.device_operation} has no {name}")
        if value is not None:
            found[canonical] = _as_ck_parameter(operation.parameters[canonical], value)
    return found


def _compute_types(family: InstanceFamily, fields: Fields) -> dict[str, ParameterValue | None]:
    """Those of a product, None where the shipped templates choose the same: the wider type of A and B.

    CK takes the type of C where an instance gives none.
    """
    if not family.compute_follows:
        return {}
    a, b = fields["a_element_dtype"], fields["b_element_dtype"]
    wider = a if DTYPES[_DTYPES[str(a)]].size_bytes >= DTYPES[_DTYPES[str(b)]].size_bytes else b
    first = fields.get("a_compute_dtype") or fields[family.compute_follows]
    second = fields.get("b_compute_dtype") or first
    return {
        "a_compute_dtype": first if first != wider else None,
        "b_compute_dtype": second if second != wider else None,
    }


def _as_ck_parameter(parameter: TemplateParameter, value: ParameterValue) -> ParameterValue:
    match parameter.kind:
        case ParameterKind.FLAG:
            return value == "true" if isinstance(value, str) else bool(value)
        case ParameterKind.SEQUENCE if isinstance(value, int):
            return (value,)
        case ParameterKind.ENUMERATOR:
            return plain(value) or ""
    return value


def _order(instance: _Instance) -> tuple[Any, ...]:
    fields = instance.fields
    return (*(str(fields[name]) for name in (_VERSION, _SCHEDULER)), *(fields[name] for name in _TILE), str(fields))


def _kernel_names(family: InstanceFamily, operations: Sequence[Mapping[str, Any]]) -> list[str]:
    """`gemm_f16_rcr`, `gemm_f8_bf16_rcr`, `convolution_2d_f16_nhwgc`; with all layouts where that is no name of one."""

    def name(table: Mapping[str, Any], layouts: str) -> str:
        dtypes = [table[key]["dtype"] for key in ("a", "b", "c")]
        distinct = dtypes if dtypes[0] != dtypes[1] else dict.fromkeys(dtypes)
        dimensions = f"{table['dimensions']}d" if "dimensions" in table else ""
        return "_".join(filter(None, (family.kernel, dimensions, *distinct, layouts)))

    def layouts(table: Mapping[str, Any]) -> list[str]:
        return [table[key]["layout"].lower() for key in ("a", "b", "c")]

    short = [
        name(table, layouts(table)[0] if "dimensions" in table else "".join(one[0] for one in layouts(table)))
        for table in operations
    ]
    taken = Counter(short)
    return _distinct(
        [
            one if taken[one] == 1 else name(table, "_".join(layouts(table)))
            for one, table in zip(short, operations, strict=True)
        ]
    )


def _instance_names(group: Sequence[Fields]) -> list[str]:
    """`v3_128x128x64_intrawave`, and as much more as tells the instances of the group apart."""
    several = [name for name in _SPECIALIZATIONS if len({fields.get(name) for fields in group}) > 1]
    names = [
        "_".join(
            (
                str(plain(fields[_VERSION])),
                "x".join(str(fields[name]) for name in _TILE),
                *(str(plain(fields[name])).lower() for name in (_SCHEDULER, *several)),
            )
        )
        for fields in group
    ]
    for form, parts in _NAME_PARTS:
        alike: dict[str, list[int]] = defaultdict(list)
        for at, name in enumerate(names):
            alike[name].append(at)
        for indices in alike.values():
            words = [_name_part(form, [group[at].get(part) for part in parts]) for at in indices]
            if len(set(words)) > 1:
                for at, word in zip(indices, words, strict=True):
                    names[at] += word
    return _distinct(names)


def _name_part(form: str, values: Sequence[ParameterValue | None]) -> str:
    """`_xdl32x32`; nothing where no value is given."""
    if all(value is None for value in values):
        return ""
    return "_" + form.format(*(value_in_name(value).lower() for value in values))


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that stand there already."""
    counts: Counter[str] = Counter()
    found = []
    for name in names:
        counts[name] += 1
        found.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return found


def _kernel_file(
    family: InstanceFamily, names: TargetTemplate, operation: str, instances: Sequence[tuple[str, _Instance]]
) -> str:
    field_of = spellings(family, instances[0][1].fields)
    return kernel_text(
        f"Instances of {family.device_operation} from Composable Kernel's own lists, by way of ck4inductor.",
        names.template,
        operation,
        family.shapes,
        {name: one.parameters for name, one in instances},
        {name for name in instances[0][1].parameters if field_of[name] in _SHOWN},
    )
