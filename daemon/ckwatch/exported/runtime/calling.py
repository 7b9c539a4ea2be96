"""The call: arguments are checked, memory that is missing is allocated, and the C function runs on the right stream."""

from __future__ import annotations

import ctypes
import operator
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ckwatch.exported.runtime.arrays import Array, Form, array_of, stream_handle
from ckwatch.exported.runtime.kernel import Kernel, Operand
from ckwatch.exported.runtime.loading import Library
from ckwatch.exported.runtime.planning import Plan, plan_of

ALIGNMENT = 64
"""Of a workspace in host memory, in bytes: a cache line, and the widest vector register."""


def new_output(
    kernel: Kernel, operand: Operand, shape: tuple[int, ...], strides: tuple[int, ...], like: Array, dtypes: set[str]
) -> Any:
    """An uninitialised array for an output, of the library and on the device of `like`.

    `dtypes` are those of the inputs: where numpy's arrays hold bits, the output does too. Raises TypeError for
    libraries in which none is made.
    """
    if like.library == "torch" and like.form is not None:
        torch: Any = sys.modules["torch"]
        kind, _, index = like.form.device.partition(":")
        where = torch.device("cpu") if kind == "cpu" else torch.device("cuda", int(index))
        return torch.empty_strided(shape, strides, dtype=getattr(torch, operand.dtypes[0]), device=where)
    if like.library == "numpy":
        numpy: Any = sys.modules["numpy"]
        dtype = numpy_dtype(numpy, operand, dtypes)
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0
        memory = numpy.empty(extent, dtype)
        steps = tuple(step * dtype.itemsize for step in strides)
        return numpy.ndarray(shape, dtype, memory, strides=steps)
    raise TypeError(f"{operand.name} cannot be made for these arguments: pass out=…, for {kernel.unit} to write to")


def numpy_dtype(numpy: Any, operand: Operand, dtypes: set[str]) -> Any:
    """numpy's type for an output."""
    for name in (*(name for name in operand.dtypes if name in dtypes), *operand.dtypes):
        try:
            return numpy.dtype(name)
        except TypeError:  # a type of ml_dtypes, which is not there
            continue
    raise TypeError(f"numpy has no {operand.dtypes[0]} for {operand.name}")


class Workspaces:
    """Workspaces in host memory, one for each thread, as large as the largest that it needed; and those that a given
    function allocated, one for each size and stream: a kernel on a GPU still runs when its call has returned."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._given: dict[tuple[Callable[[int], object], int, int], object] = {}

    def host(self, size: int) -> int:
        """The address of `size` bytes that this thread may write until it asks again."""
        memory = getattr(self._own, "memory", None)
        if memory is None or len(memory) < size + ALIGNMENT:
            memory = (ctypes.c_ubyte * (size + ALIGNMENT))()
            self._own.memory = memory
        return -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT

    def given(self, workspace: Any, size: int, stream: int) -> Array:
        """The workspace that was given as memory, or as a function that allocates so many bytes. Raises ValueError for
        one that is too small."""
        if callable(workspace):
            key = (workspace, size, stream)
            if key not in self._given:
                self._given[key] = workspace(size)
            workspace = self._given[key]
        array = array_of("workspace", workspace, stream)
        if array.form is not None and not packed_bytes(array.form) >= size:
            raise ValueError(f"workspace has {packed_bytes(array.form)} bytes; it must have {size} without gaps")
        return array


def packed_bytes(form: Form) -> int:
    """Bytes of an array; 0 for one with gaps."""
    step = 1
    for size, stride in sorted(zip(form.shape, form.strides, strict=True), key=lambda axis: axis[1]):
        if size > 1 and stride != step:
            return 0
        step *= size
    digits = "".join(letter for letter in form.dtype.partition("_")[0] if letter.isdigit())
    return step * int(digits or 8) // 8


INTEGERS = {
    "int32_t": (-(2**31), 2**31 - 1), "int64_t": (-(2**63), 2**63 - 1), "uint32_t": (0, 2**32 - 1),
    "uint64_t": (0, 2**64 - 1), "size_t": (0, 2**64 - 1), "bool": (0, 1),
}  # fmt: skip
"""Least and greatest value of each C type."""

PREPARED_CALLS = 4096
"""How many calls of different forms and sizes are remembered."""


class Prepared:
    """The values that calls of one form share.

    `workspace_bytes` is None until the kernel has been asked; `candidates` are the instances, where there are several.
    """

    def __init__(self, plan: Plan, scalars: tuple[int | float, ...], *, is_empty: bool) -> None:
        self.plan = plan
        self.scalars = scalars
        self.is_empty = is_empty
        self.workspace_bytes: int | None = None
        self.candidates: tuple[Any, ...] = ()


class Callee:
    """A kernel that is called on arrays."""

    def __init__(self, kernel: Kernel, library: Library, workspaces: Workspaces | None = None) -> None:
        self.kernel = kernel
        self._library = library
        operands = kernel.operands
        self._outputs = tuple(index for index, one in enumerate(operands) if one.output)
        self._optional = tuple(one.output or one.nullable for one in operands)
        places = {one.name: index for index, one in enumerate(operands)}
        self._pointers = tuple(places[name] for name in kernel.pointers)
        self._same = tuple((index, places[one.same_as]) for index, one in enumerate(operands) if one.same_as)
        self._apart = tuple((out, index) for out in self._outputs for index, one in enumerate(operands) if one.reread)
        self._workspaces = workspaces or Workspaces()
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self._suited: set[int] = set()

    def __call__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        sizes: tuple[int | None, ...],
        runtime: tuple[int | float, ...],
        stream: Any = None,
        workspace: Any = None,
    ) -> tuple[Any, ...]:
        """Call the kernel, and give its outputs; those that are None are made.

        `inputs` and `outputs` are arrays in the order of the operands, `sizes` values of the size arguments or None.
        """
        kernel = self.kernel
        handle = None if stream is None else stream_handle(stream)
        arrays = [
            None if value is None and optional else array_of(operand.name, value, handle)
            for operand, optional, value in zip(kernel.operands, self._optional, (*inputs, *outputs), strict=True)
        ]
        key = (sizes, runtime, *(None if array is None else array.form for array in arrays))
        prepared = self._prepared.get(key) or self._prepare(key)
        used_on = handle if handle is not None else self._stream(arrays)
        device = None if kernel.kind == "cpu" else self._torch_device(arrays)
        results = list(outputs)
        with self._on(device, handle):
            for place, index in enumerate(self._outputs):
                if results[place] is None:
                    results[place] = self._new(index, prepared.plan, arrays)
                    arrays[index] = array_of(kernel.operands[index].name, results[place])
            self._check_addresses(arrays)
            if not prepared.is_empty:
                self.run(prepared, arrays, used_on, device, workspace)
        return tuple(results)

    def workspace_size(self, sizes: tuple[int | None, ...], runtime: tuple[int | float, ...]) -> int:
        """Bytes of workspace that a call with these sizes needs."""
        plan = plan_of(self.kernel, (None,) * len(self.kernel.operands), sizes)
        return self._library.workspace_bytes(self._scalars(plan, runtime))

    def load(self) -> None:
        """Load the shared object. Raises LibraryError where that is not possible."""
        _ = self._library.function

    def _prepare(self, key: tuple[Any, ...]) -> Prepared:
        sizes, runtime, *forms = key
        given = tuple(None if size is None else operator.index(size) for size in sizes)
        plan = plan_of(self.kernel, tuple(forms), given)
        is_empty = all(0 in plan.shapes[index] for index in self._outputs)
        prepared = Prepared(plan, self._scalars(plan, runtime), is_empty=is_empty)
        if len(self._prepared) >= PREPARED_CALLS:
            self._prepared.clear()
        self._prepared[key] = prepared
        return prepared

    def needed(self, prepared: Prepared) -> int:
        """Bytes of workspace; the kernel is asked once. Raises UnsupportedError where it refuses."""
        if prepared.workspace_bytes is None:
            prepared.workspace_bytes = self._library.workspace_bytes(prepared.scalars)
        return prepared.workspace_bytes

    def run(
        self, prepared: Prepared, arrays: Sequence[Array | None], stream: int, device: int | None, workspace: Any
    ) -> None:
        """Run the kernel on checked arrays, in `workspace` or in memory that is allocated here."""
        scalars = prepared.scalars
        needed = self.needed(prepared)
        held: Any = None
        address: int | None = None
        if needed and workspace is not None:
            held = self._workspaces.given(workspace, needed, stream)
            address = held.pointer
        elif needed and self.kernel.kind == "cpu":
            address = self._workspaces.host(needed)
        elif needed and device is not None:
            torch: Any = sys.modules["torch"]
            held = torch.empty(needed, dtype=torch.uint8, device=torch.device("cuda", device))
            address = held.data_ptr()
        elif needed:
            raise ValueError(f"{self.kernel.unit} needs a workspace of {needed} bytes: add workspace=…")
        found = [arrays[index] for index in self._pointers]
        pointers = [None if array is None else array.pointer for array in found]
        code = self._library.function(*pointers, *scalars, None, address, stream or None)
        if code:
            self._library.check(code, scalars, self._asked(found, needed))

    def _scalars(self, plan: Plan, runtime: Sequence[int | float]) -> tuple[int | float, ...]:
        """The scalars in the order of the C function. Raises TypeError or ValueError for values of another type."""
        scalars: list[int | float] = []
        values = iter(runtime)
        for name, c_type in self.kernel.scalars:
            value = plan.sizes[name] if name in plan.sizes else next(values)
            if c_type in INTEGERS:
                try:
                    value = operator.index(value)  # type: ignore[arg-type]  # a float is what it refuses
                except TypeError:
                    raise TypeError(f"{name} is {value!r}; it must be an integer ({c_type})") from None
                least, greatest = INTEGERS[c_type]
                if not least <= value <= greatest:
                    raise ValueError(f"{name} is {value}; it must be from {least} to {greatest} ({c_type})")
            elif not isinstance(value, (int, float)):
                raise TypeError(f"{name} is {value!r}; it must be a number ({c_type})")
            scalars.append(value)
        return tuple(scalars)

    def _new(self, index: int, plan: Plan, arrays: Sequence[Array | None]) -> Any:
        """New memory for an output, of the library of the first array that has one."""
        like = next((array for array in arrays if array is not None and array.library), Array(0, None))
        dtypes = {array.form.dtype for array in arrays if array is not None and array.form is not None}
        operand = self.kernel.operands[index]
        return new_output(self.kernel, operand, plan.shapes[index], plan.strides[index], like, dtypes)

    def _check_addresses(self, arrays: Sequence[Array | None]) -> None:
        """Raise ValueError for addresses that no kernel can work with."""
        operands = self.kernel.operands
        for operand, array in zip(operands, arrays, strict=True):
            if array is not None and array.pointer % operand.itemsize:
                at = f"{array.pointer:#x}"
                raise ValueError(f"{operand.name} lies at {at}, which is not aligned to {operand.itemsize} bytes")
        for index, other in self._same:
            if pointer_of(arrays[index]) != pointer_of(arrays[other]):
                one, owner = operands[index].name, operands[other].name
                raise ValueError(f"{one} must be the same memory as {owner}: the kernel takes one pointer for both")
        for index, other in self._apart:
            if pointer_of(arrays[index]) == pointer_of(arrays[other]) != 0:
                one, owner = operands[index].name, operands[other].name
                raise ValueError(f"{one} must not lie where {owner} does, which is still read while it is written")

    def _torch_device(self, arrays: Sequence[Array | None]) -> int | None:
        """The device of torch's tensors, None where there are none. Raises ValueError for one of another arch."""
        tensor = next((array for array in arrays if array is not None and array.library == "torch"), None)
        if tensor is None or tensor.form is None:
            return None
        index = int(tensor.form.device.partition(":")[2])
        if index not in self._suited:
            torch: Any = sys.modules["torch"]
            properties = torch.cuda.get_device_properties(index)
            if self.kernel.kind == "hip":
                check_hip_arch(self.kernel, str(properties.gcnArchName))
            else:
                check_cuda_arch(self.kernel, int(properties.major), int(properties.minor))
            self._suited.add(index)
        return index

    def _stream(self, arrays: Sequence[Array | None]) -> int:
        """The stream where none is given: the one that the arrays name, torch's current one for its tensors."""
        found = -1
        for array in arrays:
            if array is not None and array.stream is not None:
                if found not in (-1, array.stream):
                    raise ValueError(
                        f"the arrays are used on several streams ({found:#x}, {array.stream:#x}): add stream=…"
                    )
                found = array.stream
        return max(found, 0)

    def _on(self, device: int | None, chosen: int | None) -> AbstractContextManager[Any]:
        """Makes the tensors' device the current one. A stream that the caller chose is also made torch's, so that what
        is allocated for the call is not given to others before it has ended on that stream."""
        if device is None:
            return nullcontext()
        cuda: Any = sys.modules["torch"].cuda
        if chosen is None:
            guard: AbstractContextManager[Any] = (
                nullcontext() if cuda.current_device() == device else cuda.device(device)
            )
        else:
            guard = cuda.stream(cuda.ExternalStream(chosen, device=device))
        return guard

    def _asked(self, arrays: Sequence[Array | None], workspace_bytes: int) -> str:
        """The arrays of a call, for an error's message."""
        shown = []
        for name, array in zip(self.kernel.pointers, arrays, strict=True):
            if array is None:
                shown.append(f"{name}=null")
            elif array.form is None:
                shown.append(f"{name} at {array.pointer:#x}")
            else:
                form = array.form
                shown.append(f"{name} {form.dtype} {form.shape} with strides {form.strides} at {array.pointer:#x}")
        return "; " + ", ".join((*shown, f"workspace of {workspace_bytes} bytes"))


def pointer_of(array: Array | None) -> int:
    """The address of an array; 0 for none."""
    return 0 if array is None else array.pointer


def check_hip_arch(kernel: Kernel, device: str) -> None:
    """Raise ValueError unless code for the kernel's arch runs on `device` (`gfx942:sramecc+:xnack-`)."""
    wanted, *features = kernel.arch.split(":")
    name, *present = device.split(":")
    if name != wanted or any(feature not in present for feature in features):
        raise ValueError(f"{kernel.unit} is for {kernel.arch}; the tensors are on a device of arch {device}")


def check_cuda_arch(kernel: Kernel, major: int, minor: int) -> None:
    """Raise ValueError unless code for the kernel's arch (`sm_80`, `sm_90a`, `sm_100f`) runs on this compute
    capability: the same major one and no lower minor one, and for `a` exactly this one. There is no PTX for others."""
    digits = "".join(letter for letter in kernel.arch if letter.isdigit())
    wanted_major, wanted_minor = int(digits[:-1]), int(digits[-1])
    fits = minor == wanted_minor if kernel.arch.endswith("a") else minor >= wanted_minor
    if major != wanted_major or not fits:
        raise ValueError(f"{kernel.unit} is for {kernel.arch}; the tensors are on a device of arch sm_{major}{minor}")
