"""The kernel's shared object: loaded at the first call, and what its error codes mean."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ckwatch.exported.runtime.kernel import Kernel, KernelError, LibraryError, UnsupportedError

C_TYPES: dict[str, type[ctypes._SimpleCData[int] | ctypes._SimpleCData[float] | ctypes.c_bool]] = {
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t, "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip

UNSUPPORTED = -23
NULL_POINTER = -1

RUNTIMES = {
    "hip": ("libamdhip64", "the HIP runtime of ROCm", "hipGetErrorName"),
    "cuda": ("libcuda", "NVIDIA's driver and CUDA runtime", "cudaGetErrorName"),
}
"""By kind of device: the library that a kernel needs, what it belongs to, and the function that names an error."""


class Library:
    """The C function of a kernel, in the shared object at `path`."""

    def __init__(self, kernel: Kernel, path: Path) -> None:
        self._kernel = kernel
        self._path = path
        self._lock = threading.Lock()
        self._loaded: ctypes.CDLL | None = None
        self._function: Callable[..., int] | None = None

    @property
    def function(self) -> Callable[..., int]:
        """The C function. Raises LibraryError when the shared object cannot be loaded or is another kernel's."""
        if self._function is None:
            with self._lock:
                if self._function is None:
                    self._function = self._load()
        return self._function

    def workspace_bytes(self, scalars: Sequence[int | float]) -> int:
        """The workspace that a call needs. Raises KernelError when it would be refused."""
        size = ctypes.c_size_t(0)
        nulls = [None] * len(self._kernel.pointers)
        self.check(self.function(*nulls, *scalars, ctypes.byref(size), None, None), scalars, "")
        return size.value

    def check(self, code: int, scalars: Sequence[int | float], asked: str) -> None:
        """Raise the error that `code` means; nothing for 0."""
        if code == 0:
            return
        kernel = self._kernel
        values = ", ".join(f"{name}={value}" for (name, _), value in zip(kernel.scalars, scalars, strict=True))
        call = f"{values}{asked}"
        if code == UNSUPPORTED:
            message = f"{kernel.unit} does not support {call} (code {code}; standard error has the kernel's reason)"
            raise UnsupportedError(message, code)
        meaning = "a pointer is null" if code == NULL_POINTER else self._name_of(code)
        raise KernelError(f"{kernel.unit} failed with code {code} ({meaning}) when called with {call}", code)

    def _load(self) -> Callable[..., int]:
        kernel, path = self._kernel, self._path
        if not path.exists():
            raise LibraryError(f"{path} is missing: the module needs the shared object that was exported with it")
        try:
            self._loaded = ctypes.CDLL(str(path))
        except OSError as error:
            library, owner, _ = RUNTIMES.get(kernel.kind, ("", "", ""))
            hint = f"{kernel.unit} needs {owner}" if library and library in str(error) else f"{kernel.unit} needs it"
            raise LibraryError(f"{path} cannot be loaded: {error}; {hint} on this machine") from error
        try:
            function = self._loaded[kernel.symbol]
        except AttributeError:
            raise LibraryError(f"{path} belongs to another export: it has no {kernel.symbol}") from None
        function.restype = ctypes.c_int
        function.argtypes = [
            *[ctypes.c_void_p] * len(kernel.pointers),
            *(C_TYPES[c_type] for _, c_type in kernel.scalars),
            ctypes.POINTER(ctypes.c_size_t),
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        return function

    def _name_of(self, code: int) -> str:
        """Return the name of the code in the runtime that the shared object is linked with."""
        _, _, name = RUNTIMES.get(self._kernel.kind, ("", "", ""))
        try:
            named = getattr(self._loaded, name)
        except AttributeError:
            return "the kernel's own"
        named.restype, named.argtypes = ctypes.c_char_p, [ctypes.c_int]
        found: bytes | None = named(code)
        return found.decode(errors="replace") if found else "the kernel's own"
