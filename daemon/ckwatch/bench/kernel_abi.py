"""Loads a kernel's shared object and calls its C function.

    int NAME(tensors…, sizes…, runtime arguments…, size_t* workspace_size, uint8_t* workspace, STREAM stream)

The first call passes null tensors and sets `workspace_size`: the function writes the size and returns 0, or refuses the
sizes with −23. Later calls pass a null `workspace_size`, which puts the kernel on the stream.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Launch
from ckwatch.model.kernel_problem import KernelArgument, KernelProblem

Explain = Callable[[int], str]
"""Explains a status in words to put behind it."""

NOT_SUPPORTED = -23
"""The status for Composable Kernel's `IsSupportedArgument` in Inductor's wrapper."""

INTEGERS: Final[dict[str, tuple[type[Any], int, int]]] = {
    "int8_t": (ctypes.c_int8, -(2**7), 2**7 - 1),
    "uint8_t": (ctypes.c_uint8, 0, 2**8 - 1),
    "int16_t": (ctypes.c_int16, -(2**15), 2**15 - 1),
    "uint16_t": (ctypes.c_uint16, 0, 2**16 - 1),
    "int32_t": (ctypes.c_int32, -(2**31), 2**31 - 1),
    "uint32_t": (ctypes.c_uint32, 0, 2**32 - 1),
    "int64_t": (ctypes.c_int64, -(2**63), 2**63 - 1),
    "uint64_t": (ctypes.c_uint64, 0, 2**64 - 1),
    "int": (ctypes.c_int, -(2**31), 2**31 - 1),
    "unsigned": (ctypes.c_uint, 0, 2**32 - 1),
    "unsigned int": (ctypes.c_uint, 0, 2**32 - 1),
    "long": (ctypes.c_long, -(2**63), 2**63 - 1),
    "long long": (ctypes.c_longlong, -(2**63), 2**63 - 1),
    "size_t": (ctypes.c_size_t, 0, 2**64 - 1),
    "ptrdiff_t": (ctypes.c_ssize_t, -(2**63), 2**63 - 1),
}
"""C types of whole numbers, with the least and the greatest value."""

REALS: Final[dict[str, type[Any]]] = {"float": ctypes.c_float, "double": ctypes.c_double}

ELF_MACHINES: Final = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V", 21: "PowerPC64"}
"""`e_machine` of elf(5)."""

_OWN_MACHINE: Final = {"x86_64": 62, "aarch64": 183, "riscv64": 243, "ppc64le": 21}


class KernelFunction:
    """The function `symbol` of a loaded shared object, for one problem."""

    def __init__(
        self, name: str, symbol: str, function: Any, problem: KernelProblem, explain: Explain = lambda _: ""
    ) -> None:
        self.name = name
        self.symbol = symbol
        self._problem = problem
        self._explain = explain
        self._function = function
        self._function.restype = ctypes.c_int
        self._function.argtypes = [
            *(_c_type(argument) for argument in problem.arguments),
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]

    def workspace_bytes(self, stream: int) -> int:
        """Ask for the workspace's size. Raises BenchmarkError: REFUSED, or ERROR_CODE."""
        size = ctypes.c_size_t(0)
        arguments = [None if argument.buffer is not None else argument.value for argument in self._problem.arguments]
        status = self._function(*arguments, ctypes.byref(size), None, stream)
        if status != 0:
            raise self._failure(status, "when it was asked for its workspace", {}, 0)
        return size.value

    def launch(self, addresses: Mapping[str, int], workspace: int, stream: int) -> Launch:
        """A launch on the buffers at `addresses`, by their names; `workspace` 0 for none."""
        function = self._function
        arguments = [
            argument.value if argument.buffer is None else addresses[argument.buffer]
            for argument in self._problem.arguments
        ]
        # Made into C values once: a launch is on the way of a measurement.
        ready = [
            c_type(value)
            for c_type, value in zip(function.argtypes, [*arguments, None, workspace, stream], strict=True)
        ]

        def run() -> None:
            status = function(*ready)
            if status != 0:
                raise self._failure(status, "", addresses, workspace)

        return run

    def _failure(self, status: int, when: str, addresses: Mapping[str, int], workspace: int) -> BenchmarkError:
        dump = self.dump(addresses, workspace)
        when = f" {when}" if when else ""
        if status == NOT_SUPPORTED:
            return BenchmarkError(
                FailureKind.REFUSED,
                f"the instance does not support this shape: {self.symbol} returned {NOT_SUPPORTED}{when}",
                "Another tile size, or a padded specialization, may.",
                dump,
            )
        meaning = self._explain(status)
        return BenchmarkError(FailureKind.ERROR_CODE, f"{self.symbol} returned {status}{meaning}{when}", "", dump)

    def dump(self, addresses: Mapping[str, int], workspace: int) -> str:
        """All arguments, a line each."""
        lines = []
        for argument in self._problem.arguments:
            if argument.is_null:
                lines.append(f"{argument.c_type} {argument.name} = null")
                continue
            if argument.buffer is None:
                lines.append(f"{argument.c_type} {argument.name} = {argument.value}")
                continue
            buffer = self._problem.buffer(argument.buffer)
            address = addresses.get(argument.buffer)
            where = "null" if address is None else f"{address:#x}"
            lines.append(f"{argument.c_type} {argument.name} = {where} ({buffer.elements} elements of {buffer.dtype})")
        lines.append(f"uint8_t* workspace = {workspace:#x}" if workspace else "uint8_t* workspace = null")
        return f"{self.symbol}(\n" + "".join(f"  {line}\n" for line in lines) + ")"


class ArtifactLoader:
    """Loads shared objects from memory: where a worker runs there may be no folder that it can execute from.

    `explain` puts into words what a kernel returns.
    """

    def __init__(self, explain: Explain = lambda _: "") -> None:
        self._explain = explain
        self._loaded: dict[int, tuple[bytes, ctypes.CDLL]] = {}  # by identity, which the reference keeps

    def function(self, name: str, artifact: bytes, symbol: str, problem: KernelProblem) -> KernelFunction:
        """The function `symbol` of `artifact`, the shared object's content. Raises BenchmarkError: WRONG_ARCH for
        another processor's, UNLOADABLE, REFUSED for a value that its C type does not hold."""
        for argument in problem.arguments:
            _check_argument(argument)
        if id(artifact) not in self._loaded:
            self._loaded[id(artifact)] = (artifact, self._load(artifact, symbol))
        _, library = self._loaded[id(artifact)]
        try:
            function = library[symbol]
        except AttributeError:
            raise BenchmarkError(
                FailureKind.UNLOADABLE,
                f"the artifact does not export {symbol}",
                "The template's function must be declared with PT_EXPORT, as def_kernel does.",
            ) from None
        return KernelFunction(name, symbol, function, problem, self._explain)

    @staticmethod
    def _load(artifact: bytes, symbol: str) -> ctypes.CDLL:
        _check_machine(artifact)
        try:
            return loaded_from_memory(artifact, symbol)
        except OSError as error:
            reason, hint = _why_not_loaded(str(error))
            message = f"the artifact cannot be loaded: {reason}"
            raise BenchmarkError(FailureKind.UNLOADABLE, message, hint, str(error)) from None


def loaded_from_memory(content: bytes, name: str) -> ctypes.CDLL:
    """The shared object with this content. Raises OSError."""
    # The descriptor stays open: a later library under the same name in /proc would be taken for this one.
    descriptor = os.memfd_create(f"{name}.so", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return ctypes.CDLL(f"/proc/self/fd/{descriptor}", mode=os.RTLD_NOW | os.RTLD_LOCAL)


def _why_not_loaded(loader_message: str) -> tuple[str, str]:
    """The reason in what dlopen says, with a name of C++ in words, and what to do."""
    reason = re.sub(r"^/proc/self/fd/\d+: ", "", loader_message)
    missing = re.search(r"undefined symbol: ([^\s,]+)", reason)
    if missing is None:
        return reason, ""
    name = _demangled(missing[1])
    other = "" if name == missing[1] else f" ({missing[1]})"
    return f"undefined symbol {name}{other}", "Neither the artifact nor a library that it is linked with defines it."


def _demangled(symbol: str) -> str:
    """The name as C++ has it, by the library that every program of C++ has; else `symbol` itself."""
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return symbol
    function.restype = ctypes.c_void_p
    status = ctypes.c_int()
    found = function(symbol.encode(), None, None, ctypes.byref(status))
    if not found:
        return symbol
    text = ctypes.string_at(found).decode(errors="replace")
    free = ctypes.CDLL(None)["free"]
    free.argtypes = [ctypes.c_void_p]
    free(found)
    return text


def _check_machine(artifact: bytes) -> None:
    if len(artifact) < 20 or artifact[:4] != b"\x7fELF":
        raise BenchmarkError(FailureKind.UNLOADABLE, "the artifact is not a shared object")
    machine = int.from_bytes(artifact[18:20], "little" if artifact[5] == 1 else "big")
    own = _OWN_MACHINE.get(platform.machine())
    if own is not None and machine != own:
        raise BenchmarkError(
            FailureKind.WRONG_ARCH,
            f"the artifact is made for {ELF_MACHINES.get(machine, f'ELF machine {machine}')}, "
            f"and the worker runs on {ELF_MACHINES[own]}",
            "Compile where the launcher leads to, or for it.",
        )


def _c_type(argument: KernelArgument) -> Callable[..., Any]:
    if argument.buffer is not None or argument.is_null:
        return ctypes.c_void_p
    if argument.c_type == "bool":
        return ctypes.c_bool
    return REALS.get(argument.c_type) or INTEGERS[argument.c_type][0]


def _check_argument(argument: KernelArgument) -> None:
    """ctypes cuts off what does not fit; raises BenchmarkError instead."""
    if argument.buffer is not None or argument.is_null or argument.c_type == "bool":
        return
    known = argument.c_type in REALS or argument.c_type in INTEGERS
    if not known:
        raise BenchmarkError(
            FailureKind.REFUSED,
            f"argument {argument.name} has the C type `{argument.c_type}`, which cannot be called from here",
            f"Known are: {', '.join([*INTEGERS, *REALS, 'bool'])}.",
        )
    if argument.c_type in INTEGERS:
        _, least, greatest = INTEGERS[argument.c_type]
        value = argument.value
        if not isinstance(value, int) or not least <= value <= greatest:
            raise BenchmarkError(
                FailureKind.REFUSED, f"argument {argument.name} = {value} does not fit {argument.c_type}"
            )
    elif not isinstance(argument.value, int | float):
        raise BenchmarkError(
            FailureKind.REFUSED, f"argument {argument.name} = {argument.value} does not fit {argument.c_type}"
        )
