"""The text of an exported module that chooses among instances by the sizes it is called with."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckwatch.exported import module_text
from ckwatch.exported.description import ExportedUnit, kernel_literal, python_string
from ckwatch.model.amounts import time_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import names_in

CHOICE = (
    "The sizes of a call choose the instance: that of the measured shape with the same sizes, otherwise that of the "
    "nearest one, by the sum of |log2 ratio| over {sizes}. If it refuses, the next one is taken."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredShape:
    """A measured shape: the instance chosen for it, and the time of that instance.

    `arguments` are the sizes and runtime arguments it was measured with; `taken_at` is in seconds since 1970.
    """

    shape: str
    instance: str
    arguments: Mapping[str, float]
    median_us: float
    device: str
    taken_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AutotunedKernel:
    """The exported units: built units of one kernel by the names of their instances, and the shapes of each."""

    name: str
    units: Mapping[str, ExportedUnit]
    shapes: Sequence[MeasuredShape]

    @property
    def first(self) -> ExportedUnit:
        """One unit, for what is the same of all."""
        return next(iter(self.units.values()))


def autotuned_name(kernel: str, arch: str) -> str:
    """The name of a kernel's module where none is given."""
    name = module_text.module_name(kernel, "", arch)
    return f"{name}_kernel" if name in module_text.SHADOWED else name


def library_names(module: str, instances: Sequence[str]) -> dict[str, str]:
    """Return a distinct file name for each instance's shared object, without `.kernel.so`."""
    found: dict[str, str] = {}
    for number, instance in enumerate(instances, 1):
        name = module_text.module_name(module, instance, "host")
        found[instance] = (
            name if name not in found.values() else module_text.module_name(module, f"{instance} {number}", "host")
        )
    return found


def autotuned_text(kernel: AutotunedKernel) -> str:
    """The whole module. Raises CkwatchError where instances are not called alike."""
    first = kernel.first
    for unit in kernel.units.values():
        if unit.signature != first.signature:
            hint = "export them one by one: `ckwatch export UNIT`"
            raise CkwatchError(f"{first.unit} and {unit.unit} take different arguments", hint)
    function = module_text.function_name(first)
    units = ", ".join(f"{python_string(name)}: {python_string(unit.unit)}" for name, unit in kernel.units.items())
    return module_text.assembled(
        about=_about(kernel, function),
        public=("UNITS", *(name for name in module_text.PUBLIC if name != "UNIT"), "instances_for", function),
        constants=(f"UNITS = {{{units}}}", f"ARCH = {python_string(first.arch)}"),
        functions=(
            module_text.called_function(first, function),
            _instances_for(first),
            module_text.workspace_size_function(first),
            module_text.LOAD,
        ),
        shared=module_text.shared_code(module_text.ALL_PARTS),
        end=_end(kernel),
    )


def compared_sizes(unit: ExportedUnit) -> tuple[str, ...]:
    """The sizes by which a shape is near another: those of tensors, which leading dimensions are not."""
    tensors = [tensor for _, tensor in (*unit.inputs, *unit.operation.outputs)]
    named = {name for tensor in tensors for text in tensor.sizes for name in names_in(text)}
    return tuple(name for name in unit.sizes if name in named)


def shape_rows(unit: ExportedUnit, shapes: Sequence[MeasuredShape]) -> list[list[str]]:
    """A table for people with its heading, and the runtime arguments in which shapes differ."""
    runtime = [name for name, _ in unit.runtime if len({one.arguments.get(name) for one in shapes}) > 1]
    columns = (*compared_sizes(unit), *runtime)
    return [
        ["shape", *columns, "instance", "median", "device", "measured"],
        *(
            [
                one.shape,
                *(f"{one.arguments[name]:g}" if name in one.arguments else "" for name in columns),
                one.instance,
                time_of(one.median_us),
                one.device,
                time.strftime("%Y-%m-%d", time.localtime(one.taken_at)),
            ]
            for one in shapes
        ),
    ]


def _about(kernel: AutotunedKernel, function: str) -> str:
    first = kernel.first
    compared = compared_sizes(first)
    rows = shape_rows(first, kernel.shapes)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        *module_text.usage_lines(first, kernel.name, function),
        "",
        *textwrap.wrap(CHOICE.format(sizes=", ".join(compared) or "no sizes"), 112),
        "",
        *("  ".join(["  ", *map(str.ljust, row, widths)]).rstrip() for row in rows),
        "",
    ]
    for unit in kernel.units.values():
        lines += [*module_text.unit_lines(unit), ""]
    return "\n".join([*lines, module_text.NEEDS])


def _instances_for(unit: ExportedUnit) -> str:
    lines = [
        f"def instances_for({module_text.size_parameters(unit)}) -> tuple[str, ...]:",
        '    """The instances in the order in which such a call tries them; the first one that takes it is used."""',
        f"    runtime = {module_text.argument_tuple(name for name, _ in unit.runtime)}",
        f"    return _callee.instances_for({module_text.argument_tuple(unit.sizes)}, runtime)",
    ]
    return "\n".join(lines)


def _end(kernel: AutotunedKernel) -> str:
    first = kernel.first
    own = set(first.sizes) | {name for name, _ in first.runtime}
    anyone = replace(first, unit=f"{first.kernel}@{first.arch}")
    lines = [f"_kernel = {kernel_literal(anyone)}", "_instances = {"]
    for name, unit in kernel.units.items():
        fields = ", ".join(f"{key}={python_string(getattr(unit, key))}" for key in ("unit", "symbol", "library"))
        lines.append(f"    {python_string(name)}: _kernel._replace({fields}),")
    lines += ["}", "_measured = ("]
    for one in kernel.shapes:
        arguments = ", ".join(
            f"{python_string(name)}: {int(value) if value == int(value) else value}"
            for name, value in one.arguments.items()
            if name in own
        )
        lines.append(f"    Measured({python_string(one.shape)}, {python_string(one.instance)}, {{{arguments}}}),")
    compared = ", ".join(map(python_string, compared_sizes(first)))
    lines += [")", f"_compared = [{compared}]"]
    lines.append("_callee = Chooser(_kernel, _instances, _measured, _compared, Path(__file__).parent)")
    return "\n".join(lines)
