"""A kernel of a HIP source → the kernel file and the template that launch it, with what they leave open.

What the source does not say is `"?"` in the kernel file, with a comment that says what belongs there; the workspace's
reader reports it at that place. An answer that is given fills the place in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ckwatch.cli.imports.device_variables import DeviceVariable
from ckwatch.cli.imports.hip_kernels import Access, HipKernel, KernelParameter, KernelTemplateParameter
from ckwatch.cli.imports.hip_types import element_type, is_size, runtime_type
from ckwatch.cli.imports.host_code import MemoryContent
from ckwatch.cli.imports.launches import KernelLaunch
from ckwatch.cli.imports.program_facts import ProgramFacts, elements_in, renamed_facts
from ckwatch.cli.imports.source_text import Constants, elements
from ckwatch.model.tensors import DTYPES, INT32_MAX, names_in, parse_size
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.problems import join_names
from ckwatch.workspace.toml import toml_key, toml_string

OPEN = "?"
INSTANCES = 8
LAUNCH = ("Grid", "Block", "SharedBytes")
_TAKEN = frozenset((*RESERVED, "workspace", "workspace_size", "stream", "grid", "block", *LAUNCH))
_STEPS = re.compile(r"stride|pitch|offset|^ld[a-z]?$|^s\d+$|^nb\d+$|step", re.IGNORECASE)
_EXAMPLE_SIZES = (128, 256, 64)
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
    """The two files of a kernel, and what they leave open."""

    name: str
    kernel_file: str
    template: str
    open: list[OpenQuestion]
    notes: list[str]


@dataclass(slots=True)
class _Tensor:
    parameter: KernelParameter
    name: str
    output: bool = False
    in_out: str | None = None
    dtype: str = OPEN
    absent: bool = False
    lanes: int = 1
    sizes: str = ""
    note: str = ""
    values: str = ""


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
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    copies: list[str] = field(default_factory=list)

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
    _set_launch(plan, kernel, chosen)
    own = [size for size in chosen.sizes if size not in plan.sizes] if chosen is not None else []
    plan.sizes += own
    _set_sizes(plan, constants)
    said = {word for text in (*plan.parameters.values(), *(one.sizes for one in plan.tensors)) for word in _words(text)}
    for size in own:
        if size in said:
            plan.notes.append(f"`{size}` is a size of its launch, and no argument of the kernel")
        else:
            plan.sizes.remove(size)
    return plan


def _argument(name: str) -> str:
    """The name of a kernel's parameter as an argument of the C function, where some names mean something else."""
    return f"{name}_" if name in _TAKEN else name


def _in_arguments(kernel: HipKernel, launch: KernelLaunch) -> KernelLaunch:
    """The launch with the names of the C function's arguments."""
    renamed = [name for name in (*(one.name for one in kernel.parameters), *launch.sizes) if name in _TAKEN]
    if not renamed:
        return launch
    pattern = re.compile(rf"\b(?:{'|'.join(renamed)})\b(?!\s*\()")

    def said(text: str) -> str:
        return pattern.sub(lambda found: _argument(found[0]), text)

    grid, block, shared = (text and said(text) for text in (launch.grid, launch.block, launch.shared))
    return replace(
        launch,
        grid=grid,
        block=block,
        shared=shared,
        sizes=tuple(map(_argument, launch.sizes)),
        facts=renamed_facts(launch.facts, _argument, said),
        arguments={name: said(text) for name, text in launch.arguments.items()},
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
    plan.parameters[one.name] = OPEN if given is None else given
    if given is None:
        plan.comments[one.name] = plan.asked[one.name].text


def _add_parameter(
    plan: _Plan, kernel: HipKernel, one: KernelParameter, constants: Constants, launch: KernelLaunch | None
) -> None:
    name = _argument(one.name)
    kind = constants.resolved(one.type)
    kind = plan.parameters.get(kind, kind)
    if one.pointers == 1 and one.plain:
        _add_tensor(plan, kernel, one, name, kind)
    elif one.pointers == 0 and one.plain and is_size(kind):
        if one.default is not None and _NUMBER.fullmatch(one.default):
            _add_expression(plan, one, name, None)
        else:
            plan.sizes.append(name)
            plan.arguments.append(name)
    elif one.pointers == 0 and one.plain and (runtime := runtime_type(kind)) is not None:
        plan.runtime[name] = runtime
        plan.arguments.append(name if runtime == kind else f"({one.type}){name}")
    else:
        _add_expression(plan, one, name, launch.arguments.get(one.name) if launch is not None else None)


def _add_expression(plan: _Plan, one: KernelParameter, name: str, passed: str | None) -> None:
    """An argument that is no tensor, size or number: C++ that the kernel file says."""
    stars = "*" * one.pointers
    text = f"say the argument {one.name}: C++ of type {one.type}{stars}, in terms of sizes and tensors"
    known = passed or one.default
    given = plan.answers.get(one.name, known)
    if known is None:
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
    if found is not None:
        tensor.dtype, tensor.lanes = found.dtype, found.lanes
    elif not tensor.absent:
        known = kind if kind != OPEN else one.type
        text = f"say the dtype of {name}, whose elements are {known}; one of {', '.join(DTYPES)}"
        given = plan.answer(f"{name}.dtype", text)
        if given is not None and given not in DTYPES:
            raise AnswerError(f"{name}.dtype = {given}: there is no such dtype; there are {', '.join(DTYPES)}")
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
        plan.tensors[-1].sizes = _sizes_array([str(one.elements * plan.tensors[-1].lanes)])
        plan.tensors[-1].note = f"the variable of line {one.line}, to which it is copied before each launch"
    arguments = f"{one.symbol}, {{{{ ptr({name}) }}}}, sizeof({one.symbol}), 0, hipMemcpyDeviceToDevice, stream"
    plan.copies.append(f"    if (hipError_t error = hipMemcpyToSymbolAsync({arguments})) return error;\n")


def _set_role(plan: _Plan, kernel: HipKernel, tensor: _Tensor) -> None:
    access = tensor.parameter.access
    allocated = plan.facts.tensors.get(tensor.parameter.name)
    content = MemoryContent.UNKNOWN if allocated is None else allocated.content
    if access is Access.READ:
        tensor.output = False
        return
    key = f"{tensor.name}.in_out"
    if content is MemoryContent.ZEROS and key not in plan.answers:
        tensor.in_out, tensor.values = "true", "zeros"
    elif (access is Access.UPDATE or content is MemoryContent.COPIED) and key not in plan.answers:
        tensor.in_out = "true"
    elif access is not Access.WRITE and not (content is MemoryContent.UNDEFINED and key not in plan.answers):
        uses = "reads and writes" if access in (Access.BOTH, Access.UPDATE) else "hands on"
        text = (
            f"say true if {kernel.name}, which {uses} {tensor.name}, reads elements that it has not written, else false"
        )
        given = plan.answer(key, text)
        if given not in (None, "true", "false"):
            raise AnswerError(f"{key} = {given}: true or false is wanted")
        tensor.in_out = given or OPEN
    elif key in plan.answers:
        plan.used.add(key)
        tensor.in_out = plan.answers[key]


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
        if key in plan.answers:
            given = plan.answers[key]
            plan.used.add(key)
        if given is None:
            why = launch.why.get(key, "") if launch is not None else _without_launch(kernel, key)
            given = plan.answer(key, texts[key] + (f"; {why}" if why else ""))
            if given is None:
                plan.comments[key] = plan.asked[key].text
        plan.parameters[key] = OPEN if given is None else given


def _without_launch(kernel: HipKernel, key: str) -> str:
    if key == "Block" and kernel.launch_bounds:
        return f"its __launch_bounds__ are ({kernel.launch_bounds})"
    return "the file has no launch of it" if key == "Grid" else ""


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


def _allocated(plan: _Plan, tensor: _Tensor, constants: Constants) -> str | None:
    """The elements that the program allocates for a tensor."""
    found = plan.facts.tensors.get(tensor.parameter.name)
    if found is None or tensor.name in plan.answers:
        return None

    def type_of(spelled: str) -> str:
        kind = constants.resolved(spelled)
        return plan.parameters.get(kind, kind)

    if any(name not in plan.sizes for name in names_in(found.elements)):
        return None
    return elements_in(found, type_of, tensor.parameter.type, tensor.dtype)


def _set_sizes(plan: _Plan, constants: Constants) -> None:
    for tensor in plan.tensors:
        if tensor.absent or tensor.sizes:
            continue
        if (elements := _allocated(plan, tensor, constants)) is not None:
            tensor.sizes = _sizes_array([elements])
            tensor.note = f"line {plan.facts.tensors[tensor.parameter.name].line} allocates so many elements"
            continue
        note = f"; the source says: {tensor.parameter.note}" if tensor.parameter.note else ""
        lanes = f", counting {tensor.lanes} for each {tensor.parameter.type}" if tensor.lanes > 1 else ""
        known = ", ".join(plan.sizes) or "none yet"
        text = f"say the sizes of {tensor.name}{lanes}, outermost first{note}; known: {known}"
        given = plan.answer(tensor.name, text)
        if given is None:
            continue
        parts = [part.strip() for part in given.strip("[] ").split(",") if part.strip()]
        for part in parts:
            if parse_size(part) is None:
                raise AnswerError(
                    f"{tensor.name} = {given}: `{part}` is not a size: integers, names, and + - * / % ( )"
                )
            plan.sizes += [name for name in dict.fromkeys(names_in(part)) if name not in plan.sizes]
        tensor.sizes = _sizes_array(parts)


def _sizes_array(parts: Sequence[str]) -> str:
    return "[" + ", ".join(part if part.isdigit() else toml_string(part) for part in parts) + "]"


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
    lines += ["", "[operation]", 'kind = "custom"', f"sizes = [{', '.join(map(toml_string, plan.sizes))}]"]
    if plan.runtime:
        lines.append(
            f"runtime = {{ {', '.join(f'{key} = {toml_string(kind)}' for key, kind in plan.runtime.items())} }}"
        )
    lines += _limits_line(plan)
    for tensor in sorted(plan.tensors, key=lambda one: one.output):
        lines += ["", *_tensor_lines(plan, tensor, known_keys)]
    said = (
        "As the program has them without arguments" if plan.facts.values else "An example: sizes that the kernel takes"
    )
    lines += ["", f"# {said}.", "[[shape]]", *_shape_lines(plan, kernel)]
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
    lines.append(_open_line("dtype", tensor.dtype, plan.asked.get(f"{tensor.name}.dtype")))
    lines.append(
        f"sizes = {tensor.sizes}{tensor.note and f'  # {tensor.note}'}"
        if tensor.sizes
        else _open_line("sizes", OPEN, plan.asked[tensor.name], in_array=True)
    )
    if tensor.values:
        lines.append(f"values = {toml_string(tensor.values)}")
    if tensor.in_out is not None:
        written = tensor.in_out if tensor.in_out != OPEN else None
        line = f"in_out = {written}" if written else _open_line("in_out", OPEN, plan.asked[f"{tensor.name}.in_out"])
        if "in_out" in known_keys:
            lines += [line] if written != "false" else []
        elif written != "false":
            lines.append(f"# {line}")
    return lines


def _open_line(key: str, value: str, question: OpenQuestion | None, *, in_array: bool = False) -> str:
    if value != OPEN or question is None:
        return f"{key} = {toml_string(value)}"
    return f'{key} = {"[" if in_array else ""}"?"{"]" if in_array else ""}  # ckwatch: {question.text}'


def _shape_lines(plan: _Plan, kernel: HipKernel) -> list[str]:
    """`[[shape]]`: what the program has where it says that, else examples, each of which says so."""
    lines = []
    examples = 0
    behind = {name for one in plan.tensors for name in names_in(one.sizes)}
    for size in plan.sizes:
        known = plan.facts.values.get(size, "")
        if size in plan.answers and _NUMBER.fullmatch(plan.answers[size]):
            plan.used.add(size)
            lines.append(f"{toml_key(size)} = {plan.answers[size]}")
        elif known and abs(int(known)) <= INT32_MAX:
            loop = plan.facts.loops.get(size)
            lines.append(f"{toml_key(size)} = {known}{f'  # {loop}' if loop else ''}")
        elif _STEPS.search(size) and size not in behind:
            question = OpenQuestion(size, f"say {size}, in elements as {kernel.name} counts them")
            plan.asked.setdefault(size, question)
            lines.append(_open_line(toml_key(size), OPEN, question))
        else:
            example = _EXAMPLE_SIZES[examples % len(_EXAMPLE_SIZES)]
            lines.append(f"{toml_key(size)} = {example}  # an example: the source does not say it")
            examples += 1
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


def _limits_line(plan: _Plan) -> list[str]:
    """`limits`: what the program checks, and the bounds of its loops."""
    tables = []
    lines = set()
    for name, limits in plan.facts.limits.items():
        if name not in plan.sizes or any(word not in plan.sizes for word in _words(limits.get("max", ""))):
            continue
        known = [f"{key} = {value if key == 'multiple' else toml_string(value)}" for key, value in limits.items()]
        tables.append(f"{toml_key(name)} = {{ {', '.join(known)} }}")
        lines |= {plan.facts.checked_at.get(name, 0), plan.facts.loop_lines.get(name, 0)} - {0}
    said = (
        f"  # as {'line' if len(lines) == 1 else 'lines'} {join_names(map(str, sorted(lines)))} of the source"
        if lines
        else ""
    )
    return [f"limits = {{ {', '.join(tables)} }}{said}"] if tables else _limits_hint(plan)


def _limits_hint(plan: _Plan) -> list[str]:
    """A comment where the grid leaves the rest of a division to the kernel, which may take whole blocks alone."""
    for one in elements(plan.parameters["Grid"]):
        sizes = [name for name in dict.fromkeys(_words(one)) if name in plan.sizes]
        if sizes and "/" in one and not re.search(r"\+|-\s*1\b|\b[A-Za-z_]\w*\s*\(", one):
            return [
                f"# The grid leaves out what `{one}` leaves. Where the kernel takes whole blocks alone, say so:",
                f"# limits = {{ {toml_key(sizes[0])} = {{ multiple = … }} }}",
            ]
    return []


def _instances(
    plan: _Plan, kernel: HipKernel, launches: Sequence[KernelLaunch]
) -> tuple[dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Parameters that all instances have, and each instance's name and own values: one for each way in which the file
    launches."""
    first = dict(plan.parameters)
    types = [one.name for one in kernel.templates if one.is_type]
    found = [first]
    for launch in (_in_arguments(kernel, one) for one in launches[1:]):
        if not launch.is_complete or any(launch.templates.get(name) != first[name] for name in types):
            continue
        own = {**launch.templates, "Grid": launch.grid, "Block": launch.block, "SharedBytes": launch.shared}
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


def _value_line(plan: _Plan, key: str, value: str) -> str:
    if value == OPEN and key in plan.comments:
        return f'{toml_key(key)} = "?"  # ckwatch: {plan.comments[key]}'
    if value in ("true", "false") or re.fullmatch(r"-?\d{1,18}", value):
        return f"{toml_key(key)} = {value}" if key not in LAUNCH else f"{toml_key(key)} = {toml_string(value)}"
    return f"{toml_key(key)} = {toml_string(value)}"


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
    return f'    static_assert({fits}, "dtype of {one.name} is not that of {kind}");\n'
