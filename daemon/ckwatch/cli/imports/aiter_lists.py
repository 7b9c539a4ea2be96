"""AITER's lists of Composable Kernel instances → kernel files.

A list is a Python file `gemm_*_common.py` of ROCm's AITER: a dataclass `kernelInstance`, whose property `name` tells
what the list is for, and a dictionary `kernels_list` of its instances. It is read, never run.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from ckwatch.checks.aiter_instances import (
    CK_NAMES,
    LISTS,
    AiterList,
    Fields,
    ListError,
    instance_name,
    parameters_of,
    with_blocks,
)
from ckwatch.cli.imports.instance_lists import PlannedFile
from ckwatch.cli.imports.kernel_texts import kernel_text
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.toml import table_text

GEMM_SPECS = ("MNKPadding", "Default")
"""AITER compiles each instance with both: `Default` where its tile divides all sizes, `MNKPadding` for all others."""

NAME = "name"
"""How a filter mentions an instance's name."""

_SHOWN = ("MPerBlock", "NPerBlock", "KPerBlock", "BlkGemmPipelineVer", "BlkGemmPipeSched")


@dataclass(frozen=True, slots=True)
class ListedInstances:
    """The instances in a file by their names in AITER; `repeated` more are the same as another one."""

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
        raise ListError(f"it is not Python: {error}") from None
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


def known_names(listed: ListedInstances) -> dict[str, str]:
    """The fields by the names that a filter may use: AITER's, and CK's."""
    own = {name: name for name in next(iter(listed.instances.values()))}
    return {CK_NAMES[name]: name for name in own if name in CK_NAMES} | own


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
                    table_text(with_blocks(operation, block)),
                    family.shapes,
                    part,
                    _SHOWN,
                )
                plan.files.append(PlannedFile(called if number == 1 else f"{called}_{number}", text, len(part)))
    plan.left_out["the same as another one"] = listed.repeated * operations
    plan.left_out = +plan.left_out
    return plan


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
    called = next((word for word in words if len(word) > 1), "")
    known = ", ".join(f"`{name}`" for name in LISTS)
    raise ListError(f"its instances are called `{called}`, and templates are there for {known}")


def _assigns(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)


def _assigned(node: ast.stmt) -> ast.expr | None:
    return node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None


def _fields(value: ast.expr, names: Sequence[str]) -> Fields:
    if not isinstance(value, ast.Call) or len(value.args) > len(names):
        raise ListError(f"line {value.lineno} is not a call of `kernelInstance`")
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
