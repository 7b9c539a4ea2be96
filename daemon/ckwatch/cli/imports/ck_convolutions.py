"""Device operations that are grouped convolutions → `[operation]`, tensors and the call of `MakeArgumentPointer`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ckwatch.cli.imports.ck_gemms import OperationText, constructed_with, epilogue_steps, passes
from ckwatch.cli.imports.ck_operations import ProgramOperation, dtype_of, first_named, types_of
from ckwatch.cli.imports.cpp_program import CppProgram
from ckwatch.cli.imports.hip_workspace import OpenQuestion
from ckwatch.cli.imports.source_text import elements
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.toml import toml_string

_IMAGES = {1: "W", 2: "HW", 3: "DHW"}
_TAPS = {1: "X", 2: "YX", 3: "ZYX"}
_SPATIAL = ("FilterSize", "InputSize", "ConvolutionStrides", "Dilations", "LeftPads", "RightPads")
_EXAMPLES = {"FilterSize": 3, "InputSize": 28, "ConvolutionStrides": 1, "Dilations": 1, "LeftPads": 1, "RightPads": 1}
_STRIDES = """\
// strides of a tensor without gaps, whose axes lie in memory as `layout` says
template <size_t N>
std::array<ck::index_t, N> strides_of(const char* layout, const char* axes, const std::array<ck::index_t, N>& lengths) {
    std::array<ck::index_t, N> strides{};
    ck::index_t step = 1;
    for (size_t at = N; at-- > 0;)
        for (size_t axis = 0; axis < N; ++axis)
            if (axes[axis] == layout[at]) {
                strides[axis] = step;
                step *= lengths[axis];
                break;
            }
    return strides;
}
"""


def convolution_text(
    program: CppProgram, operation: ProgramOperation, element_operation: Callable[[str], str | None]
) -> OperationText | None:
    """The text for a forward convolution; None for an operation of another kind."""
    del element_operation
    if operation.interface.name != "DeviceGroupedConvFwdMultipleABD":
        return None
    if any(len(types_of(program, operation.argument(name))) != 1 for name in ("ADataType", "BDataType")):
        return None
    return _Convolution(program, operation).text()


class _Convolution:
    def __init__(self, program: CppProgram, operation: ProgramOperation) -> None:
        self._program = program
        self._operation = operation
        self._shape = self._problem()
        self._dimensions = self._shape.pop("", 2)
        self._layouts = {key: self._layout(key) for key in "abc"}
        self._open: list[OpenQuestion] = []
        self._operands = self._named_operands()

    def _problem(self) -> dict[str, int]:
        """The sizes of the program's `ConvParam`, with the number of dimensions by an empty name."""
        found = re.search(
            r"\bConvParam(?:\s+\w+)?\s*\{((?:[^{}]|\{[^{}]*\})*)\}", re.sub(r"\\\n", " ", self._program.text)
        )
        texts = elements(found[1]) if found is not None else []
        given = [[self._program.integer(one) for one in elements(text.strip("{}"))] for text in texts]
        flat = [one for values in given for one in values]
        dimensions = given[0][0] if given and given[0] else None
        if dimensions not in _IMAGES or len(given) != 11 or None in flat:
            return {"": 2, **self._example(2)}
        counts = ("", "GroupCount", "NBatch", "NOutChannels", "NInChannels")
        shape = {name: number for name, (number, *_) in zip(counts, given, strict=False) if number is not None}
        for name in ("NOutChannels", "NInChannels"):
            shape[name] *= shape["GroupCount"]
        for name, values in zip(_SPATIAL, given[5:], strict=True):
            shape |= {f"{name}_{at}": value for at, value in enumerate(values) if value is not None}
        return shape

    def _example(self, dimensions: int) -> dict[str, int]:
        counts = {"GroupCount": 1, "NBatch": 8, "NOutChannels": 64, "NInChannels": 64}
        return counts | {f"{name}_{at}": _EXAMPLES[name] for name in _SPATIAL for at in range(dimensions)}

    def _layout(self, key: str) -> tuple[str, str]:
        """The layout in the kernel file, and CK's type."""
        parameter = {"a": "ALayout", "b": "BLayout", "c": "ELayout"}[key]
        spelled = "".join(types_of(self._program, self._operation.argument(parameter))).rpartition("::")[2]
        image, taps = _IMAGES[self._dimensions], _TAPS[self._dimensions]
        known: Mapping[str, tuple[str, ...]] = {
            "a": (f"GN{image}C", f"N{image}GC", f"NGC{image}", f"G_N{image}_C"),
            "b": (f"GK{taps}C", f"K{taps}GC", f"GKC{taps}", f"G_K_{taps}_C"),
            "c": (f"GN{image}K", f"N{image}GK", f"NGK{image}", f"G_N{image}_K"),
        }
        names = known[key]
        if spelled not in names:
            named = re.search(rf"\b(?:\w+::)+({'|'.join(names)})\b", self._program.code)
            if named is None:
                raise CkwatchError(
                    f"{self._operation.place}: the layouts of {self._operation.name} are not written out"
                )
            spelled = named[1]
        lies = {names[3]: f"K{taps}GC" if key == "b" else names[1]}.get(spelled, spelled)
        return lies, spelled

    def _named_operands(self) -> list[tuple[str, str, str]]:
        types = types_of(self._program, self._operation.argument("DsDataType"))
        layouts = types_of(self._program, self._operation.argument("DsLayout"))
        found = []
        for at, kind in enumerate(types):
            layout = layouts[at].rpartition("::")[2] if at < len(layouts) else ""
            per = "channel" if re.fullmatch(r"G_?K|GK", layout) else "element"
            found.append((f"D{at}" if len(types) > 1 else "D", dtype_of(self._operation, kind), per))
        return found

    def _dtype(self, name: str) -> str:
        return dtype_of(self._operation, "".join(types_of(self._program, self._operation.argument(name))))

    def text(self) -> OperationText:
        lines = ['kind = "grouped_convolution"', f"dimensions = {self._dimensions}"]
        for key, name in (("a", "ADataType"), ("b", "BDataType"), ("c", "EDataType")):
            dtype, layout = self._dtype(name), self._layouts[key][0]
            lines.append(f"{key} = {{ dtype = {toml_string(dtype)}, layout = {toml_string(layout)} }}")
        accumulator = first_named(self._operation.arguments, "AccDataType")
        if accumulator is not None:
            dtype = dtype_of(self._operation, self._program.resolved(accumulator.text))
            lines.append(f"accumulator = {toml_string(dtype)}")
        lines += self._epilogue_lines()
        inputs = ["X", "W", *(name for name, _, _ in self._operands)]
        channels = "GroupCount < 1 || NOutChannels % GroupCount || NInChannels % GroupCount"
        return OperationText(
            lines, inputs, ["Y"], self._hooks(), self._call(), self._shape, [channels], open=self._open,
            helpers=_STRIDES, before="".join(f"    {one}\n" for one in self._lengths()),
        )  # fmt: skip

    def _hooks(self) -> dict[str, str]:
        hooks = {"NDimSpatial": str(self._dimensions)}
        for key, name, tensor in (("a", "ALayout", "X"), ("b", "BLayout", "W"), ("c", "ELayout", "Y")):
            lies, spelled = self._layouts[key]
            written = f"{{{{ {tensor}.layout }}}}" if lies == spelled else spelled
            hooks[name] = f"ck::tensor_layout::convolution::{written}"
        hooks |= {"ADataType": "{{ dtype(X) }}", "BDataType": "{{ dtype(W) }}", "EDataType": "{{ dtype(Y) }}"}
        hooks["DsDataType"] = f"Tuple<{', '.join(f'{{{{ dtype({name}) }}}}' for name, _, _ in self._operands)}>"
        layouts = (
            "ck::tensor_layout::convolution::G_K" if per == "channel" else hooks["ELayout"]
            for _, _, per in self._operands
        )
        hooks["DsLayout"] = f"Tuple<{', '.join(layouts)}>"
        given = self._operation.interface.template
        return {given.get(name, name): hook for name, hook in hooks.items()}

    def _lengths(self) -> list[str]:
        axes = range(self._dimensions)
        outputs = [
            f"(InputSize_{at} + LeftPads_{at} + RightPads_{at} - Dilations_{at} * (FilterSize_{at} - 1) - 1)"
            f" / ConvolutionStrides_{at} + 1"
            for at in axes
        ]
        image, taps, rank = _IMAGES[self._dimensions], _TAPS[self._dimensions], self._dimensions + 3
        channels = "NInChannels / GroupCount"
        found = []
        filters = ["GroupCount", "NOutChannels / GroupCount", channels, *(f"FilterSize_{at}" for at in axes)]
        for name, tensor, letters, values in (
            ("x", "X", f"GNC{image}", ["GroupCount", "NBatch", channels, *(f"InputSize_{at}" for at in axes)]),
            ("w", "W", f"GKC{taps}", filters),
            ("y", "Y", f"GNK{image}", ["GroupCount", "NBatch", "NOutChannels / GroupCount", *outputs]),
        ):
            found.append(f"const std::array<ck::index_t, {rank}> {name}_lengths{{ {', '.join(values)} }};")
            layout = f'"{{{{ {tensor}.layout }}}}", "{letters}"'
            found.append(f"const auto {name}_strides = @SCOPE@::strides_of({layout}, {name}_lengths);")
        if any(per == "channel" for _, _, per in self._operands):
            found.append(f"const std::array<ck::index_t, {rank}> channel_strides{{ NOutChannels / GroupCount, 0, 1 }};")
        return found

    def _call(self) -> list[str]:
        count, rank = len(self._operands), self._dimensions + 3
        pointers = ", ".join(f"{{{{ arg_name({name}) }}}}" for name, _, _ in self._operands)
        strides = ", ".join("channel_strides" if per == "channel" else "y_strides" for _, _, per in self._operands)
        arrays = f"std::array<std::array<ck::index_t, {rank}>, {count}>"
        known = {
            "p_a": "{{ arg_name(X) }}", "p_b": "{{ arg_name(W) }}", "p_e": "{{ arg_name(Y) }}",
            "p_ds": f"std::array<const void*, {count}>{{ {pointers} }}",
            "a_g_n_c_wis_lengths": "x_lengths", "a_g_n_c_wis_strides": "x_strides",
            "b_g_k_c_xs_lengths": "w_lengths", "b_g_k_c_xs_strides": "w_strides",
            "ds_g_n_k_wos_lengths": f"{arrays}{{ {', '.join(['y_lengths'] * count)} }}",
            "ds_g_n_k_wos_strides": f"{arrays}{{ {strides} }}",
            "e_g_n_k_wos_lengths": "y_lengths", "e_g_n_k_wos_strides": "y_strides",
            "conv_filter_strides": self._spatial("ConvolutionStrides"),
            "conv_filter_dilations": self._spatial("Dilations"),
            "input_left_pads": self._spatial("LeftPads"), "input_right_pads": self._spatial("RightPads"),
        }  # fmt: skip
        for argument, name in (
            ("a", "AElementwiseOperation"),
            ("b", "BElementwiseOperation"),
            ("cde", "CDEElementwiseOperation"),
        ):
            given = self._operation.argument(name)
            text = "ck::tensor_operation::element_wise::PassThrough" if given is None else given.text
            values = ", ".join(f"{one!r}f" for one in constructed_with(self._program, text))
            known[f"{argument}_element_op"] = f"{text}{{ {values} }}" if values else f"{text}{{}}"
        return [f"/* {one.name} */ {known[one.name]}" for one in self._operation.interface.arguments]

    def _spatial(self, name: str) -> str:
        values = ", ".join(f"{name}_{at}" for at in range(self._dimensions))
        return f"std::array<ck::index_t, {self._dimensions}>{{ {values} }}"

    def _epilogue_lines(self) -> list[str]:
        kinds = [
            self._program.resolved(given.text)
            for name in ("AElementwiseOperation", "BElementwiseOperation", "CDEElementwiseOperation")
            if (given := self._operation.argument(name)) is not None
        ]
        result = kinds[-1] if kinds else "PassThrough"
        names = [name for name, _, _ in self._operands]
        plain = passes(result)
        steps = ([] if plain else epilogue_steps(result.rpartition("::")[2], names)) if not plain or not names else None
        lines = []
        if steps is None or not all(map(passes, kinds[:-1])):
            text = f'say a Python function that computes Y as {", ".join(kinds)} do, as "reference.py:outputs"'
            self._open.append(OpenQuestion("reference", text))
            lines.append(f'reference = "?"  # ckwatch: {text}')
        if steps or names:
            words = steps if steps is not None else names
            lines.append(f"epilogue = [{', '.join(map(toml_string, words))}]  # {result.rpartition('::')[2]}")
        words = re.findall("Add|Multiply", result)
        for at, (name, dtype, per) in enumerate(self._operands):
            does = words[at].lower() if at < len(words) else "add"
            keys = {"does": does, "per": per, "dtype": dtype}
            lines.append(
                f"operands.{name} = {{ {', '.join(f'{key} = {toml_string(one)}' for key, one in keys.items())} }}"
            )
        return lines
