"""Launches a kernel of a code object on the emulator, in place of the C function of an artifact."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence

from ckwatch.bench.kernel_abi import INTEGERS, REALS
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Launch
from ckwatch.model.kernel_launches import ArgumentKind, LaunchArgument, ModuleLaunch
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.tensors import evaluate_size
from ckwatch.verification.device import EmulatedDevice

SCALARS = {"_Float16": "<e", "float": "<f", "double": "<d", "bool": "<?"}
"""How C types that are no integers are packed."""


_WORKSPACE = "\0workspace"
"""No name of a buffer."""


def is_number(text: str) -> bool:
    """Return True for a number as Python's `float` takes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def size_of(c_type: str) -> int:
    """Return the bytes of the C type of a runtime argument or a field."""
    if c_type == "_Float16":
        return 2
    return 1 if c_type == "bool" else ctypes.sizeof(REALS.get(c_type) or INTEGERS[c_type][0])


class ModuleFunction:
    """A kernel of a code object, for one problem; used as `ckwatch.bench.kernel_abi.KernelFunction`.

    Raises BenchmarkError where the code object cannot be loaded.
    """

    def __init__(
        self, device: EmulatedDevice, code_object: bytes, launch: ModuleLaunch, problem: KernelProblem
    ) -> None:
        self._device = device
        self._launch = launch
        self._kernel = device.kernel(code_object, launch.symbol)
        given = {one.name: one.value for one in problem.arguments if one.value is not None}
        self._integers = {name: value for name, value in given.items() if isinstance(value, int)}
        self._integers |= dict(launch.constants)
        self._values = given

    def workspace_bytes(self, stream: int) -> int:  # noqa: ARG002  # as a KernelFunction
        """Return what the launch's description says. Raises BenchmarkError as `launch`."""
        return self._evaluated(self._launch.workspace)

    def launch(self, addresses: Mapping[str, int], workspace: int, stream: int) -> Launch:  # noqa: ARG002
        """A launch on the buffers at `addresses`; nothing where the grid is empty. Raises BenchmarkError, with HIP's
        name for a launch that cannot be, for a value that does not fit its argument, and an expression without one."""
        launch = self._launch
        grid, block = self._extents(launch.grid), self._extents(launch.block)
        dynamic_lds = self._evaluated(launch.dynamic_lds)
        known = {**addresses, _WORKSPACE: workspace}
        values = [self._packed(one, f"argument {at}", known) for at, one in enumerate(launch.arguments, 1)]

        def run() -> None:
            if all(grid):
                self._device.launch(self._kernel, (*grid, *block), dynamic_lds, values)

        return run

    def _extents(self, texts: Sequence[str]) -> list[int]:
        return [*(self._evaluated(text) for text in texts), *[1] * (3 - len(texts))]

    def _evaluated(self, text: str) -> int:
        try:
            value = evaluate_size(text, self._integers)
        except ValueError as error:
            raise _no_launch(f"`{text}` has no value: {error}") from None
        if not 0 <= value < 1 << 32:
            raise _no_launch(f"`{text}` is {value:,}, which is not an extent of a launch")
        return value

    def _packed(self, argument: LaunchArgument, what: str, addresses: Mapping[str, int]) -> bytes:
        if argument.kind is ArgumentKind.STRUCTURE:
            content = bytearray(argument.size_bytes)
            for offset, field in argument.fields:
                content[offset : offset + field.size_bytes] = self._packed(
                    field, f"the field at {offset} of {what}", addresses
                )
            return bytes(content)
        if argument.kind is not ArgumentKind.VALUE:
            name = {ArgumentKind.BUFFER: argument.text, ArgumentKind.WORKSPACE: _WORKSPACE}.get(argument.kind)
            return addresses.get(name or "", 0).to_bytes(argument.size_bytes, "little")
        try:
            if argument.c_type in SCALARS:
                return struct.pack(SCALARS[argument.c_type], self._number(argument.text))
            value = evaluate_size(argument.text, self._integers)
            signed = value < 0 or argument.c_type.startswith("int")
            return value.to_bytes(argument.size_bytes, "little", signed=signed)
        except (ValueError, OverflowError, struct.error) as error:
            reason = f"{what}, `{argument.text}`, does not fit its {argument.size_bytes} bytes: {error}"
            raise _no_launch(reason) from None

    def _number(self, text: str) -> float | bool:
        value = self._values.get(text)
        if value is not None:
            return value
        return float(text) if is_number(text) else evaluate_size(text, self._integers)


def _no_launch(reason: str) -> BenchmarkError:
    return BenchmarkError(FailureKind.ERROR_CODE, f"{reason} (hipErrorInvalidConfiguration)")
