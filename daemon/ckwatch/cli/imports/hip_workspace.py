"""A kernel of a HIP source → the kernel file and the template that launch it, with what they leave open.

What the source does not say is `"?"` in the kernel file, with a comment that says what belongs there; the workspace's
reader reports it at that place. An answer that is given fills the place in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from math import lcm

from ckwatch.cli.imports.device_variables import DeviceVariable
from ckwatch.cli.imports.example_shapes import example_sizes, stride_values
from ckwatch.cli.imports.hip_kernels import HipKernel, KernelParameter, KernelTemplateParameter
from ckwatch.cli.imports.hip_types import element_type, is_size, runtime_type
from ckwatch.cli.imports.host_code import MemoryContent
from ckwatch.cli.imports.launches import KernelLaunch
from ckwatch.cli.imports.pointer_uses import Access
from ckwatch.cli.imports.program_facts import ProgramFacts, elements_in, is_same_count, renamed_facts
from ckwatch.cli.imports.source_text import Constants, elements
from ckwatch.cli.imports.tensor_sizes import IndexedBody, axis_of, commented_sizes, indexed_body
from ckwatch.model.amounts import count
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES, INT32_MAX, names_in, parse_size
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.toml import toml_key, toml_string

OPEN = "?"
INSTANCES = 8
OTHERS = 4
LAUNCH = ("Grid", "Block", "SharedBytes")
_TAKEN = frozenset((*RESERVED, "workspace", "workspace_size", "stream", "grid", "block", *LAUNCH))
_STEPS = re.compile(r"stride|pitch|offset|^ld[a-z]?$|^s\d+$|^nb\d+$|step|bytes", re.IGNORECASE)
_INDICES = ("i32", "i64", "u32", "u64")
_NUMBER = re.compile(r"-?\d+[uUlL]*")


class AnswerError(ValueError):
    """An answer that says nothing that can stand there; the message is why."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that the source leaves open. `key` is how an answer names it."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The file of a kernel: as the template includes it, as people call it, and what its flags are."""

    include: str
    shown: str
    flags: Sequence[str] = ()


@dataclass(slots=True)
class Imported:
    """The files of a kernel, and what they leave open."""

    name: str
    kernel_file: str
    template: str
    open: list[OpenQuestion]
    notes: list[str]
    reference: str | None = None
    """A Python module that computes the right results."""


@dataclass(slots=True)
class _Tensor:
    parameter: KernelParameter
    name: str
    output: bool = False
    in_out: str | None = None
    dtype: str = OPEN
    dtype_text: str = ""
    absent: bool = False
    lanes: int = 1
    sizes: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    source: str = ""
    values: str = ""
    index: str = ""
    partial: bool = False


@dataclass(slots=True)
class _Plan:
    """All that the two files say."""

    answers: Mapping[str, str]
    asked: dict[str, OpenQuestion] = field(default_factory=dict)
    tensors: list[_Tensor] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    runtime: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    copies: list[str] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)
    """Integers of the template on which a tensor's sizes depend: all instances have the same."""

    def answer(self, key: str, text: str) -> str | None:
        """The answer to a question; None where it stays open."""
        self.asked.setdefault(key, OpenQuestion(key, text))
        if key not in self.answers:
            return None
        self.used.add(key)
        return self.answers[key]


def questions(
    kernel: HipKernel, launches: Sequence[KernelLaunch], constants: Constants, answers: Mapping[str, str]
) -> list[OpenQuestion]:
    """A question that the source leaves open, with or without an answer. Raises AnswerError."""
    return list(_plan(kernel, launches, constants, answers).asked.values())


def imported(
    kernel: HipKernel,
    launches: Sequence[KernelLaunch],
    constants: Constants,
    source: KernelSource,
    name: str,
    answers: Mapping[str, str],
    known_keys: Collection[str],
) -> Imported:
    """The files for a kernel. `known_keys` are those that an output has in kernel files. Raises AnswerError."""
    plan = _plan(kernel, launches, constants, answers)
    kernel_file = _kernel_file(plan, kernel, launches, source, name, known_keys)
    open_ones = [one for key, one in plan.asked.items() if key not in plan.answers]
    return Imported(name, kernel_file, _template(plan, kernel, source), open_ones, plan.notes)


def _plan(
    kernel: HipKernel, launches: Sequence[KernelLaunch], constants: Constants, answers: Mapping[str, str]
) -> _Plan:
    plan = _Plan(answers)
    chosen = _in_arguments(kernel, launches[0]) if launches else None
    if chosen is not None:
        plan.facts = chosen.facts
    for one in kernel.templates:
        _set_template_parameter(plan, kernel, one, chosen)
    for parameter in kernel.parameters:
        _add_parameter(plan, kernel, parameter, constants, chosen)
    for variable in kernel.variables:
        _add_variable(plan, kernel, variable, constants)
    own = [size for size in chosen.sizes if size not in plan.sizes] if chosen is not None else []
    plan.sizes += own
    _set_launch(plan, kernel, chosen)
    body = _derive_sizes(plan, kernel, launches)
    _set_allocated_sizes(plan, constants)
    _set_sizes(plan)
    _drop_unused(plan, own)
    _set_strides(plan)
    _set_indices(plan, body)
    _ask_for_strides(plan, kernel)
    return plan


def _drop_unused(plan: _Plan, own: Sequence[str]) -> None:
    """Leave out sizes of the launch that an answer has made superfluous."""
    texts = [*plan.parameters.values(), *(size for one in plan.tensors for size in (*one.sizes, *one.strides))]
    used = {word for text in texts for word in _words(text)}
    for size in (one for one in own if one in plan.sizes):
        if size in used:
            plan.notes.append(f"`{size}` is a size of its launch, and no argument of the kernel")
        else:
            plan.sizes.remove(size)


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


def _argument(name: str) -> str:
    """The name of a kernel's parameter as an argument of the C function, where some names mean something else."""
    return f"{name}_" if name in _TAKEN else name


def _in_arguments(kernel: HipKernel, launch: KernelLaunch) -> KernelLaunch:
    """The launch with the names of the C function's arguments."""
    renamed = [name for name in (*(one.name for one in kernel.parameters), *launch.sizes) if name in _TAKEN]
    if not renamed:
        return launch
    pattern = re.compile(rf"\b(?:{'|'.join(renamed)})\b(?!\s*\()")

    def in_arguments(text: str) -> str:
        return pattern.sub(lambda found: _argument(found[0]), text)

    grid, block, shared = (text and in_arguments(text) for text in (launch.grid, launch.block, launch.shared))
    return replace(
        launch,
        grid=grid,
        block=block,
        shared=shared,
        sizes=tuple(map(_argument, launch.sizes)),
        multiples={_argument(name): by for name, by in launch.multiples.items()},
        facts=renamed_facts(launch.facts, _argument, in_arguments),
    )


def _set_template_parameter(
    plan: _Plan, kernel: HipKernel, one: KernelTemplateParameter, launch: KernelLaunch | None
) -> None:
    given = launch.templates.get(one.name) if launch is not None else None
    if given is not None and one.is_type and element_type(given) is None:
        given = None
    if (
        given is None
        and one.default is not None
        and one.name not in plan.answers
        and not (launch and one.name in launch.why)
    ):
        given = one.default
    if given is None:
        where = f"; {launch.why[one.name]}" if launch is not None and one.name in launch.why else ""
        what = 'a type, as "float" or "__half"' if one.is_type else f"its value: {one.kind}"
        given = plan.answer(one.name, f"say {what}, for the template parameter {one.name} of {kernel.name}{where}")
    elif one.name in plan.answers:
        given = plan.answers[one.name]
        plan.used.add(one.name)
    elif launch is not None and one.name in launch.choices:
        plan.remarks[one.name] = launch.choices[one.name]
    plan.parameters[one.name] = OPEN if given is None else given
    if given is None:
        plan.comments[one.name] = plan.asked[one.name].text


def _add_parameter(
    plan: _Plan, kernel: HipKernel, one: KernelParameter, constants: Constants, launch: KernelLaunch | None
) -> None:
    name = _argument(one.name)
    if launch is not None and one.name in launch.arguments:
        if launch.arguments[one.name] != "nullptr":
            one = replace(one, default=launch.arguments[one.name])
        elif one.const:
            one = replace(one, default="nullptr")
        if name in launch.sizes:
            name += "_argument"
    kind = constants.resolved(one.type)
    kind = plan.parameters.get(kind, kind)
    if one.pointers == 1 and one.plain:
        _add_tensor(plan, kernel, one, name, kind)
    elif one.pointers == 0 and one.plain and is_size(kind):
        given = plan.answers.get(one.name, "1")
        if given == "0" or not _NUMBER.fullmatch(given):  # 0 is no size, and turns off what it is a step or offset of
            _add_expression(plan, replace(one, default=plan.answers[one.name]), name)
        elif one.default is not None and _NUMBER.fullmatch(one.default):
            _add_expression(plan, one, name)
        else:
            plan.sizes.append(name)
            plan.arguments.append(name)
    elif one.pointers == 0 and one.plain and (runtime := runtime_type(kind)) is not None:
        plan.runtime[name] = runtime
        plan.arguments.append(name if runtime == kind else f"({one.type}){name}")
    else:
        _add_expression(plan, one, name)


def _add_expression(plan: _Plan, one: KernelParameter, name: str) -> None:
    """An argument that is no tensor, size or number: C++ that the kernel file says."""
    stars = "*" * one.pointers
    text = f"say the argument {one.name}: C++ of type {one.type}{stars}, in terms of sizes and tensors"
    given = plan.answers.get(one.name, one.default)
    if given is None:
        given = plan.answer(one.name, text)
    else:
        plan.used.add(one.name)
    plan.parameters[name] = OPEN if given is None else given
    if given is None:
        plan.comments[name] = text
    plan.arguments.append(f"{{{{ {name} }}}}")


def _add_tensor(plan: _Plan, kernel: HipKernel, one: KernelParameter, name: str, kind: str) -> None:
    tensor = _Tensor(one, name, output=not one.const)
    if one.default is not None and re.fullmatch(r"nullptr|NULL|0", one.default) and one.const:
        tensor.absent = one.name not in plan.answers
    found = element_type(kind)
    key = f"{name}.dtype"
    if key not in plan.answers and any(one.type == it.name for it in kernel.templates):
        key = f"{one.type}.dtype"
    if found is not None and key not in plan.answers:
        tensor.dtype, tensor.lanes = found.dtype, found.lanes
    elif not tensor.absent:
        tensor.lanes = 1 if found is None else found.lanes
        spelled = kind if kind != OPEN else one.type
        tensor.dtype_text = f"say the dtype of {name}, whose elements are {spelled}; one of {', '.join(DTYPES)}"
        given = plan.answers.get(key)
        if kind != OPEN or given is not None:  # else it follows from the template argument
            given = plan.answer(key, tensor.dtype_text)
        if given is not None and given not in DTYPES:
            raise AnswerError(f"{key} = {given}: there is no such dtype; there are {', '.join(DTYPES)}")
        tensor.dtype = given or OPEN
    if not one.const:
        _set_role(plan, kernel, tensor)
    plan.tensors.append(tensor)
    plan.arguments.append(f"{'(const ' if one.const else '('}{one.type}*){{{{ ptr({name}) }}}}")


def _add_variable(plan: _Plan, kernel: HipKernel, one: DeviceVariable, constants: Constants) -> None:
    """A variable of the device as an input that is copied to it before the launch."""
    name, kind = _argument(one.name), constants.resolved(one.type)
    _add_tensor(plan, kernel, KernelParameter(one.name, one.type, 1, True, access=Access.READ), name, kind)
    plan.arguments.pop()
    if one.elements is not None and name not in plan.answers:
        plan.tensors[-1].sizes = (str(one.elements * plan.tensors[-1].lanes),)
        plan.tensors[-1].source = f"line {one.line}: a variable, to which it is copied before each launch"
    arguments = f"{one.symbol}, {{{{ ptr({name}) }}}}, sizeof({one.symbol}), 0, hipMemcpyDeviceToDevice, stream"
    plan.copies.append(f"    if (hipError_t error = hipMemcpyToSymbolAsync({arguments})) return error;\n")


def _set_role(plan: _Plan, kernel: HipKernel, tensor: _Tensor) -> None:
    access = tensor.parameter.access
    key = f"{tensor.name}.in_out"
    allocated = plan.facts.tensors.get(tensor.parameter.name)
    content = MemoryContent.UNKNOWN if allocated is None else allocated.content
    if access is Access.READ:
        tensor.output = False
        return
    if key not in plan.answers:
        if content in (MemoryContent.ZEROS, MemoryContent.COPIED):
            tensor.in_out = "true"
            tensor.values = "zeros" if content is MemoryContent.ZEROS else ""
            plan.remarks[key] = "the program fills it before the launch"
            return
        if access in (Access.BOTH, Access.OWN):
            tensor.in_out = "true" if access is Access.BOTH else "false"
            plan.remarks[key] = f"{kernel.name} reads its elements before it writes them"
            return
        if access is Access.WRITE or content is MemoryContent.UNDEFINED:
            return
    text = (
        f"say true if {kernel.name}, which hands on {tensor.name}, reads elements that it has not written, else false"
    )
    given = plan.answer(key, text)
    if given not in (None, "true", "false"):
        raise AnswerError(f"{tensor.name}.in_out = {given}: it must be true or false")
    tensor.in_out = given or OPEN


def _set_launch(plan: _Plan, kernel: HipKernel, launch: KernelLaunch | None) -> None:
    known = {} if launch is None else {"Grid": launch.grid, "Block": launch.block, "SharedBytes": launch.shared}
    if launch is None and not kernel.dynamic_shared:
        known["SharedBytes"] = "0"
    texts = {
        "Grid": 'say the blocks in the grid, as "(N + 255) / 256" or "N / 64, M / 64"',
        "Block": 'say the threads of a block, as "256" or "32, 8"',
        "SharedBytes": "say the bytes of dynamic LDS",
    }
    for key in LAUNCH:
        given = known.get(key)
        if given is not None:  # what is no argument of the C function is there by its value
            given = _with_values(plan, kernel, given)
        if key in plan.answers:
            given = plan.answers[key]
            plan.used.add(key)
        if given is None:
            why = launch.why.get(key, "") if launch is not None else _without_launch(kernel, key)
            given = plan.answer(key, texts[key] + (f"; {why}" if why else ""))
            if given is None:
                plan.comments[key] = plan.asked[key].text
        plan.parameters[key] = OPEN if given is None else given


def _with_values(plan: _Plan, kernel: HipKernel, text: str) -> str:
    """The text with values in place of arguments of the kernel that are none of the C function."""
    arguments = {_argument(one.name): plan.parameters.get(_argument(one.name)) for one in kernel.parameters}

    def value_of(found: re.Match[str]) -> str:
        value = arguments.get(found[0])
        return found[0] if value in (None, OPEN) else value if re.fullmatch(r"\w+", value) else f"({value})"

    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", value_of, text)


def _without_launch(kernel: HipKernel, key: str) -> str:
    if key == "Block" and kernel.launch_bounds:
        return f"its __launch_bounds__ are ({kernel.launch_bounds})"
    return "the file has no launch of it" if key == "Grid" else ""


def _common(first: str, others: Sequence[str | None]) -> str:
    """The extents that all launches have, where they say them; `?` for others."""
    found = elements(first)
    for other in others[1:]:
        given = elements(other or first)
        found = [one if one == given[at : at + 1][0] else OPEN for at, one in enumerate(found[: len(given)])]
    return ", ".join(found)


def _derive_sizes(plan: _Plan, kernel: HipKernel, launches: Sequence[KernelLaunch]) -> IndexedBody:
    """Set sizes that follow from the kernel's indices, else from comments; return its indices."""
    bodies = _bodies(plan, kernel, launches)
    first = elements(plan.parameters["Grid"])[0] if plan.parameters["Grid"] != OPEN else ""
    for tensor in plan.tensors:
        if tensor.absent or tensor.sizes or tensor.parameter.name in plan.answers or tensor.name in plan.answers:
            continue
        found = None
        for fixed, body in bodies.items():
            if found is None and (found := body.sizes_of(tensor.parameter.name, tensor.parameter.type, tensor.lanes)):
                plan.fixed.add(fixed)
        if found is None and tensor.lanes == 1:
            rest = first if first in plan.sizes else None
            found = commented_sizes(tensor.parameter.note, tensor.name, plan.sizes, rest)
        if found is None:
            continue
        tensor.sizes, tensor.strides, tensor.source = found.sizes, found.strides, found.source
        _add_names(plan, tensor.sizes)
        for size, by in found.multiples.items():
            _add_multiple(plan, size, by, tensor.source)
    if launches:
        chosen = _in_arguments(kernel, launches[0])
        _add_multiples(plan, chosen)
        for size in chosen.sizes:
            _divide(plan, size)
    return bodies[""]


def _bodies(plan: _Plan, kernel: HipKernel, launches: Sequence[KernelLaunch]) -> dict[str, IndexedBody]:
    """The kernel's indices; and with one integer of the template that launches do not agree on, by its name."""
    values: dict[str, str | int] = {}
    for one in kernel.parameters:
        name = _argument(one.name)
        if name in plan.sizes and name in plan.arguments:
            values[one.name] = name
        elif (given := plan.parameters.get(name, "")).isdigit():
            values[one.name] = int(given)
    several: dict[str, int] = {}
    for template in kernel.templates:
        value = plan.parameters[template.name]
        is_one = template.name in plan.answers or all(one.templates.get(template.name) == value for one in launches)
        if value.isdigit():
            (values if is_one else several)[template.name] = int(value)
    grid = _common(plan.parameters["Grid"], [one.grid for one in launches])
    block = _common(plan.parameters["Block"], [one.block for one in launches])
    inputs = [one.parameter.name for one in plan.tensors if not one.output and one.dtype in _INDICES]
    more: list[dict[str, int]] = [{}, *({name: value} for name, value in several.items())]
    return {"".join(one): indexed_body(kernel, {**values, **one}, (grid, block), plan.sizes, inputs) for one in more}


def _divide(plan: _Plan, size: str) -> None:
    """Say a size of the launch that the kernel divides by others as their product with a size of its own: the kernel
    would leave a rest unwritten."""
    texts = [text for one in plan.tensors for text in one.sizes]
    found = {text: one[1] for text in texts if (one := re.fullmatch(rf"\(\({size} - 1\) / (.+) \+ 1\)", text))}
    if size in plan.arguments or size not in plan.sizes or len(found) != 1:
        return
    ((text, product),) = found.items()
    outer = f"{size}_outer"

    def in_outer(one: str) -> str:
        return outer if one == text else re.sub(rf"\b{size}\b", f"({outer} * {product})", one)

    for tensor in plan.tensors:
        tensor.sizes = tuple(map(in_outer, tensor.sizes))
    for key in LAUNCH:
        plan.parameters[key] = in_outer(plan.parameters[key])
    plan.sizes[plan.sizes.index(size)] = outer
    plan.notes.append(f"`{size}` of its launch is `{outer} * {product}`")


def _set_indices(plan: _Plan, body: IndexedBody) -> None:
    """Say of inputs that the kernel uses their values as indices of another tensor."""
    for tensor in plan.tensors:
        if tensor.absent or not tensor.sizes:
            continue
        for name, step in body.values_in(tensor.parameter.name).items():
            one = next(one for one in plan.tensors if one.parameter.name == name)
            if not one.index and (axis := axis_of(tensor.sizes, tensor.strides, step)) is not None:
                one.index = f"{axis} of {tensor.name}"
                if tensor.output:
                    one.values = "permutation"
                    tensor.partial = tensor.in_out is None


def _add_multiples(plan: _Plan, chosen: KernelLaunch) -> None:
    """Numbers that divide sizes, by checks of the code around the launch."""
    for size, limits in chosen.facts.limits.items():
        if "multiple" in limits:
            source = f"line {chosen.facts.checked_at[size]}, which checks it"
            _add_multiple(plan, size, int(limits["multiple"]), source)
    for size, by in chosen.multiples.items():
        _add_multiple(plan, size, by, f"the file checks `{size} % … == 0` before line {chosen.line}")
    plan.notes += [f"{check}: say so under [operation.limits]" for check in chosen.checks]


def _set_allocated_sizes(plan: _Plan, constants: Constants) -> None:
    """Set sizes to what the program allocates, where the kernel's indices say nothing, or say another number."""

    def type_of(spelled: str) -> str:
        kind = constants.resolved(spelled)
        return plan.parameters.get(kind, kind)

    for tensor in plan.tensors:
        found = plan.facts.tensors.get(tensor.parameter.name)
        if found is None or tensor.absent or tensor.name in plan.answers:
            continue
        count_of = elements_in(found, type_of, tensor.parameter.type, tensor.dtype)
        if count_of is None or any(name not in plan.sizes for name in names_in(count_of)):
            continue
        if not tensor.sizes or not is_same_count(tensor.sizes, count_of):
            tensor.sizes, tensor.strides = (count_of,), ()
            tensor.source = f"line {found.line}, which allocates so many"


def _add_multiple(plan: _Plan, size: str, by: int, source: str) -> None:
    if size in plan.sizes:
        plan.multiples[size] = lcm(plan.multiples.get(size, 1), by)
        plan.remarks.setdefault(f"{size} %", source)


def _set_strides(plan: _Plan) -> None:
    """Set strides that are answers, of tensors whose sizes are known."""
    for tensor in plan.tensors:
        key = f"{tensor.name}.strides"
        given = plan.answers.get(key)
        if given is None:
            continue
        plan.used.add(key)
        tensor.strides = tuple(_parts(key, given))
        if len(tensor.strides) != len(tensor.sizes):
            raise AnswerError(f"{key} = {given}: {tensor.name} has {count(len(tensor.sizes), 'size')}")


def _parts(key: str, given: str) -> list[str]:
    """The size expressions of an answer. Raises AnswerError."""
    parts = [part.strip() for part in given.strip("[] ").split(",") if part.strip()]
    for part in parts:
        if parse_size(part) is None:
            raise AnswerError(f"{key} = {given}: `{part}` is not a size: integers, names, and + - * / % ( )")
    return parts


def _add_names(plan: _Plan, sizes: Sequence[str]) -> None:
    """Names that are no arguments of the kernel become sizes."""
    for size in sizes:
        plan.sizes += [name for name in dict.fromkeys(names_in(size)) if name not in plan.sizes]


def _ask_for_strides(plan: _Plan, kernel: HipKernel) -> None:
    """Ask for steps between elements that no tensor has as its stride."""
    behind = {name for one in plan.tensors for text in (*one.sizes, *one.strides) for name in names_in(text)}
    for size in plan.sizes:
        if _STEPS.search(size) and size not in behind and size not in plan.facts.values:
            where = "in terms of sizes, or a number for the shape; or, of a tensor T, name it with --set T.strides=…"
            plan.answer(size, f"say the {size} that {kernel.name} gets, {where}")


def _set_sizes(plan: _Plan) -> None:
    for tensor in plan.tensors:
        if tensor.absent or tensor.sizes:
            continue
        note = f"; the source says: {tensor.parameter.note}" if tensor.parameter.note else ""
        lanes = f", counting {tensor.lanes} for each {tensor.parameter.type}" if tensor.lanes > 1 else ""
        known = ", ".join(plan.sizes) or "none yet"
        text = f"say the sizes of {tensor.name}{lanes}, outermost first{note}; known: {known}"
        given = plan.answer(tensor.name, text)
        if given is None:
            continue
        tensor.sizes = tuple(_parts(tensor.name, given))
        _add_names(plan, tensor.sizes)


def _kernel_file(
    plan: _Plan,
    kernel: HipKernel,
    launches: Sequence[KernelLaunch],
    source: KernelSource,
    name: str,
    known_keys: Collection[str],
) -> str:
    lines = [f"# {kernel.name} of {source.shown}, line {kernel.line}. The template includes that file.", ""]
    lines.append(f"template = {toml_string(name + '.hip.j2')}")
    lines.append(f"flags = [{', '.join(map(toml_string, source.flags))}]")
    given = [*(one.name for one in plan.tensors if not one.output or one.in_out == "true"), *plan.runtime]
    lines += ["", "[operation]", 'kind = "custom"']
    says = f"a Python function of {', '.join(given)} and sizes: what is right"
    lines.append(f'# reference = "reference.py:{kernel.name}"  # {says}')
    lines += [f"sizes = [{', '.join(map(toml_string, plan.sizes))}]"]
    if plan.runtime:
        lines.append(
            f"runtime = {{ {', '.join(f'{key} = {toml_string(kind)}' for key, kind in plan.runtime.items())} }}"
        )
    for tensor in sorted(plan.tensors, key=lambda one: one.output):
        lines += ["", *_tensor_lines(plan, tensor, known_keys)]
    lines += _limits_lines(plan)
    known = any(size in plan.facts.values for size in plan.sizes)
    what = "As the program has them without arguments" if known else "Examples: nothing in the source says these values"
    lines += ["", f"# {what}.", "[[shape]]", *_shape_lines(plan, known=known)]
    shared, instances = _instances(plan, kernel, launches)
    if shared:
        lines += ["", "[defaults]", *(_value_line(plan, key, value) for key, value in shared.items())]
    for called, values in instances:
        lines += ["", "[[instance]]", f"name = {toml_string(called)}"]
        lines += [_value_line(plan, key, value) for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _tensor_lines(plan: _Plan, tensor: _Tensor, known_keys: Collection[str]) -> list[str]:
    lines = [f"[[operation.{'output' if tensor.output else 'input'}]]", f"name = {toml_string(tensor.name)}"]
    if tensor.absent:
        return [*lines, "absent = true  # the kernel gets a null pointer, its default"]
    lines.append(_open_line("dtype", tensor.dtype, OpenQuestion("", tensor.dtype_text)))
    if tensor.sizes:
        source = f"  # from {tensor.source}" if tensor.source else ""
        lines.append(f"sizes = {_array(tensor.sizes)}{source}")
    else:
        lines.append(_open_line("sizes", OPEN, plan.asked[tensor.name], in_array=True))
    if tensor.strides:
        lines.append(f"strides = {_array(tensor.strides)}")
    if tensor.values:
        lines.append(f"values = {toml_string(tensor.values)}")
    if tensor.index:
        lines.append(f"index = {toml_string(tensor.index)}")
    if tensor.partial:
        lines.append("partial = true  # it keeps what no index names")
    if tensor.in_out is not None:
        written = tensor.in_out if tensor.in_out != OPEN else None
        remark = plan.remarks.get(f"{tensor.name}.in_out")
        line = (
            f"in_out = {written}" + (f"  # {remark}" if remark else "")
            if written
            else _open_line("in_out", OPEN, plan.asked[f"{tensor.name}.in_out"])
        )
        if "in_out" in known_keys:
            lines += [line] if written != "false" else []
        elif written != "false":
            lines.append(f"# {line}")
    return lines


def _array(sizes: Sequence[str]) -> str:
    return "[" + ", ".join(one if one.isdigit() else toml_string(one) for one in sizes) + "]"


def _open_line(key: str, value: str, question: OpenQuestion | None, *, in_array: bool = False) -> str:
    if value != OPEN or question is None:
        return f"{key} = {toml_string(value)}"
    return f'{key} = {"[" if in_array else ""}"?"{"]" if in_array else ""}  # ckwatch: {question.text}'


def _limits_lines(plan: _Plan) -> list[str]:
    """`[operation.limits]`: what the source checks, and bounds of its loops; else a hint where a grid drops a rest."""
    lines = []
    for size in plan.sizes:
        greatest = plan.facts.limits.get(size, {}).get("max", "")
        keys = [f"max = {toml_string(greatest)}"] if greatest and set(_words(greatest)) <= set(plan.sizes) else []
        remarks = [f"line {plan.facts.loop_lines[size]}, a loop"] if keys else []
        if size in plan.multiples:
            keys.append(f"multiple = {plan.multiples[size]}")
            remarks.append(plan.remarks[f"{size} %"])
        if keys:
            lines.append(f"{toml_key(size)} = {{ {', '.join(keys)} }}  # {'; '.join(remarks)}")
    hint = _limits_hint(plan)
    if lines:
        return ["", "[operation.limits]", *lines, *(line for line in hint[1:] if "[operation.limits]" not in line)]
    return hint


def _limits_hint(plan: _Plan) -> list[str]:
    """A comment where the grid leaves the rest of a division to the kernel, which may take whole blocks alone."""
    for one in elements(plan.parameters["Grid"]):
        sizes = [name for name in dict.fromkeys(_words(one)) if name in plan.sizes]
        rounds_up = re.search(r"\+|-\s*1\b|\b[A-Za-z_]\w*\s*\(", one)
        if rounds_up or plan.multiples.keys() & {*sizes}:
            continue
        if sizes and "/" in one and not re.fullmatch(r"(\w+) / \1", one):
            return [
                "",
                f"# The grid leaves out what `{one}` leaves. Where the kernel takes whole blocks alone, say so:",
                "# [operation.limits]",
                f"# {toml_key(sizes[0])} = {{ multiple = … }}",
            ]
    return []


def _shape_lines(plan: _Plan, *, known: bool) -> list[str]:
    """`[[shape]]`: what the program has where it says that, else examples, each of which says so."""
    stated = {name: int(value) for name, value in plan.facts.values.items() if name in plan.sizes}
    stated = {name: value for name, value in stated.items() if 0 <= value <= INT32_MAX}
    given = {name: int(value) for name, value in plan.answers.items() if re.fullmatch(r"\d+", value)}
    extents = {name for one in plan.tensors for size in one.sizes for name in names_in(size)}
    apart = {name for one in plan.tensors for name in one.strides if name in plan.sizes} - extents
    given = {**stated, **given}
    named = [size for size in plan.sizes if size not in plan.asked and size not in apart]
    values = example_sizes(named, given, [one.sizes for one in plan.tensors], plan.multiples)
    values |= stride_values([(one.sizes, one.strides) for one in plan.tensors if one.strides], values)
    values |= {size: given[size] for size in plan.sizes if size in given}
    plan.used |= given.keys() & values.keys()
    lines = []
    for size in plan.sizes:
        if size not in values:
            lines.append(_open_line(toml_key(size), OPEN, plan.asked[size]))
            continue
        loop = f"  # of the {plan.facts.loops[size]}" if size in plan.facts.loops and size in stated else ""
        example = "  # an example: the source does not say it" if known and size not in given else ""
        lines.append(f"{toml_key(size)} = {values[size]}{loop or example}")
    for key, kind in plan.runtime.items():
        value = "false" if kind == "bool" else "1e-5" if "eps" in key.lower() else "1.0"
        value = plan.answers.get(key) or _scalar(plan.facts.values.get(key), kind) or value
        lines.append(f"{toml_key(key)} = {value}")
        plan.used.add(key)
    return lines


def _scalar(text: str | None, kind: str) -> str | None:
    """A value of the program as TOML writes it."""
    if text is None or (text in ("true", "false")) != (kind == "bool"):
        return None
    return text if kind == "bool" else repr(float(text))


def _instances(
    plan: _Plan, kernel: HipKernel, launches: Sequence[KernelLaunch]
) -> tuple[dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Parameters that all instances have, and each instance's name and own values: one for each way in which the file
    launches what computes the same: template arguments that are no integers are the first's."""
    first = dict(plan.parameters)
    kinds = [one.name for one in kernel.templates if one.is_type or not is_size(one.kind) or one.name in plan.fixed]
    found = [first]
    for launch in (_in_arguments(kernel, one) for one in launches[1:]):
        if (
            not launch.is_complete
            or launch.arguments != launches[0].arguments
            or any(launch.templates.get(name, first[name]) != first[name] for name in kinds)
        ):
            _note_other(
                plan, launch, {name: launch.templates[name] for name in kinds if name in launch.templates}, first
            )
            continue
        known = {"Grid": launch.grid, "Block": launch.block, "SharedBytes": launch.shared}
        own = {**launch.templates, **{key: _with_values(plan, kernel, text or "") for key, text in known.items()}}
        values = {key: plan.answers.get(key) or own.get(key) or value for key, value in first.items()}
        if values not in found and len(found) < INSTANCES and set(launch.sizes) <= set(plan.sizes):
            found.append(values)
    own_keys = {key for key in first if any(one[key] != first[key] for one in found)}
    own_keys |= {one.name for one in kernel.templates}
    shared = {key: value for key, value in first.items() if key not in own_keys}
    names: list[str] = []
    for values in found:
        words = [re.sub(r"[^\w.]+", "_", values[one.name]).strip("_") for one in kernel.templates]
        name = "_".join(word for word in words if word) or "only"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return shared, [
        (name[:120], {key: values[key] for key in first if key in own_keys})
        for name, values in zip(names, found, strict=True)
    ]


def _note_other(plan: _Plan, launch: KernelLaunch, given: Mapping[str, str], first: Mapping[str, str]) -> None:
    """Say how a launch differs that is no instance: with it the kernel computes something else."""
    words = [f"--set '{name}={value}'" for name, value in given.items() if value != first[name]]
    text = f"line {launch.line} launches it otherwise, for a workspace of its own: {' '.join(words)}"
    listed = sum("launches it otherwise" in one for one in plan.notes)
    if words and launch.is_complete and text not in plan.notes and listed <= OTHERS:
        plan.notes.append(text if listed < OTHERS else f"line {launch.line} launches it otherwise, too, and others may")


def _value_line(plan: _Plan, key: str, value: str) -> str:
    if value == OPEN and key in plan.comments:
        return f'{toml_key(key)} = "?"  # ckwatch: {plan.comments[key]}'
    remark = f"  # {plan.remarks[key]}" if key in plan.remarks else ""
    if key not in LAUNCH and (value in ("true", "false") or re.fullmatch(r"-?\d{1,18}", value)):
        return f"{toml_key(key)} = {value}{remark}"
    return f"{toml_key(key)} = {toml_string(value)}{remark}"


def _template(plan: _Plan, kernel: HipKernel, source: KernelSource) -> str:
    inputs = ", ".join(one.name for one in plan.tensors if not one.output)
    outputs = ", ".join(one.name for one in plan.tensors if one.output)
    parameters = "".join(f"    {one.name} (string): {_declared(one)}\n" for one in kernel.templates if one.is_type)
    called = "::".join((*kernel.scope, kernel.name))
    if kernel.templates:
        called += "<" + ", ".join(f'{{{{ template_argument("{one.name}") }}}}' for one in kernel.templates) + ">"
    constants = "".join(_constant(one) for one in kernel.templates)
    used = f"    using namespace {'::'.join(kernel.scope)};\n" if kernel.scope else ""
    checks = "".join(f"    {{{{ check_not_null({one.name}) }}}}\n" for one in plan.tensors if not one.absent)
    widths = "".join(_width(one) for one in plan.tensors if not one.absent and one.parameter.type != "void")
    arguments = ",\n        ".join(plan.arguments)
    return (
        f"{{#\n    Launches {kernel.name} of {source.shown}, which stays where it is.\n\n{parameters}"
        "    Grid (string): blocks of the grid in C++, in terms of the sizes; up to three, with commas\n"
        "    Block (string): threads of a block, as Grid\n"
        "    SharedBytes (string): bytes of dynamic LDS, in C++\n#}\n"
        '{{ header("hip") }}\n'
        f'#include "{source.include}"\n'
        '{{ globals("hip") }}\n\n'
        f'extern "C" PT_EXPORT {{{{ def_kernel(inputs=[{inputs}], outputs=[{outputs}]) }}}} {{\n'
        "    if (workspace_size) { *workspace_size = 0; return 0; }\n"
        f"{used}{checks}{constants}{widths}"
        "    const dim3 grid({{ Grid }}), block({{ Block }});\n"
        "    if (!grid.x || !grid.y || !grid.z) return 0;\n"
        f"{''.join(plan.copies)}"
        f"    {called}<<<grid, block, {{{{ SharedBytes }}}}, stream>>>(\n        {arguments});\n"
        "    return hipGetLastError();\n}\n"
    )


def _declared(one: KernelTemplateParameter) -> str:
    return f"{one.kind} {one.name}" if one.name not in one.kind else one.kind


def _constant(one: KernelTemplateParameter) -> str:
    if one.is_type:
        return f'    using {one.name} [[maybe_unused]] = {{{{ template_argument("{one.name}") }}}};\n'
    if "(" in one.kind:
        return ""  # a device function has no address on the host
    return f'    [[maybe_unused]] constexpr {one.kind} {one.name} = {{{{ template_argument("{one.name}") }}}};\n'


def _width(one: _Tensor) -> str:
    kind = one.parameter.type
    fits = f"sizeof({kind}) % sizeof({{{{ abi_type({one.name}) }}}}) == 0"
    text = f'    static_assert({fits}, "dtype of {one.name} is not that of {kind}");'
    return f"{text}\n" if one.output else f"{{% if {one.name} %}}{text}{{% endif %}}\n"  # an input may be absent
