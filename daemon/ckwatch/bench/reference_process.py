"""The process that calls a user's reference: `python -m ckwatch.bench.reference_process`.

The user's code runs here alone, with limits: of time for each call, of memory, without files to write. What it prints
goes nowhere. Requests and answers are `array_messages`: the first request holds the modules, each other one the
arguments of a call. Modules are not read from disk but taken from the request, so that what runs is what was read.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import inspect
import math
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, BinaryIO

import numpy as np

from ckwatch.bench.array_messages import Array, ArrayMessageError, receive, send

MEMORY_LIMIT_BYTES = 4 << 30
"""That a reference may take beside its arguments, and for each byte of these MEMORY_PER_BYTE more."""

MEMORY_PER_BYTE = 16

_PR_SET_PDEATHSIG = 1
_SHOWN_CHARACTERS = 400
_DETAIL_CHARACTERS = 4000


class _Overrun(BaseException):
    """The call takes too long; no Exception, so that the user's code does not catch it by chance."""


class _MistakeError(Exception):
    """A mistake of the reference that is no exception of its own."""

    def __init__(self, kind: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.line = kind, message, line


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the user's modules from their texts."""

    def __init__(self, modules: Sequence[Mapping[str, Any]]) -> None:
        self._modules = {str(one["name"]): one for one in modules}
        self.paths = [str(one["path"]) for one in modules]

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        known = self._modules.get(fullname)
        if known is None:
            return None
        return importlib.machinery.ModuleSpec(
            fullname, self, origin=known["path"], is_package=bool(known["is_package"])
        )

    def is_package(self, fullname: str) -> bool:
        return bool(self._modules[fullname]["is_package"])

    def get_source(self, fullname: str) -> str:
        return str(self._modules[fullname]["text"])

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.get_source(fullname), self._modules[fullname]["path"], "exec", dont_inherit=True)
        return code


class _Reference:
    """The user's function, loaded when it is called first."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._sources = _Sources(request["modules"])
        self._function_name = str(request["function"])
        self._main = str(request["modules"][0]["name"])
        self._limit_s = float(request["limit_s"])
        self._module: ModuleType | None = None
        sys.meta_path.insert(0, self._sources)

    def answer(self, request: Mapping[str, Any], given: Mapping[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
        """The answer to one request: arrays, or a mistake."""
        try:
            with _limited(self._limit_s):
                if self._module is None:
                    self._module = importlib.import_module(self._main)
                if request["call"] == "inputs":
                    return {}, self._inputs(request)
                return {}, self._outputs(request, given)
        except _MistakeError as mistake:
            return self._reported(mistake.kind, mistake.message, mistake.line), {}
        except _Overrun as error:
            message = f"it had not ended after {self._limit_s:g} s"
            return self._reported("limit", message, *_innermost(error.__traceback__, self._sources.paths)), {}
        except MemoryError as error:
            shown = f": {error}" if str(error) else ""
            message = f"it needs more memory than the {MEMORY_LIMIT_BYTES >> 30} GiB that it may have{shown}"
            return self._reported("limit", message, *_innermost(error.__traceback__, self._sources.paths)), {}
        except BaseException as error:  # noqa: BLE001  # SystemExit and KeyboardInterrupt are the user's, too
            return self._raised(error), {}

    def _raised(self, error: BaseException) -> dict[str, Any]:
        shown = str(error).strip().splitlines()
        message = f"{type(error).__name__}: {shown[0]}" if shown else type(error).__name__
        if isinstance(error, SyntaxError) and error.filename in self._sources.paths:
            return self._reported("raises", f"{type(error).__name__}: {error.msg}", error.lineno, error.filename)
        line, path = _innermost(error.__traceback__, self._sources.paths)
        frames = traceback.extract_tb(error.__traceback__)
        lines = traceback.format_list([one for one in frames if one.filename in self._sources.paths])
        return self._reported("raises", message, line, path, "".join(lines) + "\n".join(shown))

    def _reported(
        self, kind: str, message: str, line: int | None = None, path: str | None = None, detail: str = ""
    ) -> dict[str, Any]:
        if len(message) > _SHOWN_CHARACTERS:
            message = message[: _SHOWN_CHARACTERS - 1] + "…"
        place = {"path": path or self._sources.paths[0], "line": line or self._first_line()}
        return {"mistake": {"kind": kind, "message": message, **place, "detail": detail[:_DETAIL_CHARACTERS]}}

    def _first_line(self) -> int:
        code = getattr(inspect.unwrap(getattr(self._module, self._function_name, None)), "__code__", None)  # type: ignore[arg-type]
        return code.co_firstlineno if code is not None and code.co_filename == self._sources.paths[0] else 1

    def _outputs(self, request: Mapping[str, Any], given: Mapping[str, Array]) -> dict[str, Array]:
        function = getattr(self._module, self._function_name, None)
        if not callable(function):
            raise _MistakeError("arguments", f"there is no function `{self._function_name}`")
        tensors = {**given, **dict.fromkeys(request["absent"])}
        arguments = {**request["parameters"], **tensors, **request["sizes"], **request["runtime"]}
        result = function(**_accepted(function, self._function_name, arguments))
        line = self._return_line(function)
        wanted = request["arrays_wanted"]
        named = _by_name(result, [str(one["name"]) for one in wanted], line)
        return {str(one["name"]): _checked(one, named[one["name"]], line) for one in wanted}

    def _return_line(self, function: Callable[..., Any]) -> int | None:
        """The line of the function's `return`, if it has one."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None or code.co_filename != self._sources.paths[0]:
            return None
        import ast  # only of those that return what they must not, or nearly

        tree = ast.parse(self._sources.get_source(self._main))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.Lambda) and _starts_at(node, code.co_firstlineno):
                returns = [one.lineno for one in ast.walk(node) if isinstance(one, ast.Return)]
                return returns[0] if len(returns) == 1 else None
        return None

    def _inputs(self, request: Mapping[str, Any]) -> dict[str, Array]:
        function = getattr(self._module, "inputs", None)
        if not callable(function):
            return {}
        line = function.__code__.co_firstlineno if hasattr(function, "__code__") else None
        found = function(
            request["sizes"], np.random.default_rng(request["seed"]), **_named(function, request["parameters"], line)
        )
        if not isinstance(found, dict):
            raise _MistakeError(
                "outputs", f"`inputs` returns {_described(found)}; a dict of arrays by name is needed", line
            )
        shapes = {one["name"]: one for one in request["arrays_wanted"]}
        for name in found:
            if name not in shapes:
                known = ", ".join(shapes)
                raise _MistakeError(
                    "outputs", f"`inputs` returns `{name}`, which is not an input; known: {known}", line
                )
        return {name: _checked(shapes[name], value, line) for name, value in found.items()}


def _starts_at(node: Any, line: int) -> bool:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    return bool(first == line)


def _named(function: Callable[..., Any], parameters: Mapping[str, Any], line: int | None) -> dict[str, Any]:
    """The parameters of the instance that `inputs(sizes, rng, …)` names behind its own two."""
    with suppress(TypeError, ValueError):
        others = [*inspect.signature(function).parameters.values()][2:]
        for one in others:
            if one.name not in parameters and one.default is one.empty and one.kind is not one.VAR_KEYWORD:
                message = f"`inputs` has a parameter `{one.name}`, which is not a parameter of the instance"
                raise _MistakeError("arguments", message, line)
        return {one.name: parameters[one.name] for one in others if one.name in parameters}
    return {}


def _accepted(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that the function names, or all of them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return dict(arguments)
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return dict(arguments)
    found = {}
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            continue
        if one.kind is one.POSITIONAL_ONLY:
            raise _MistakeError("arguments", f"`{name}` takes `{one.name}` by place; arguments are given by name")
        if one.name in arguments:
            found[one.name] = arguments[one.name]
        elif one.default is one.empty:
            known = ", ".join(arguments)
            message = (
                f"`{name}` has a parameter `{one.name}`, which is not an input, size, runtime argument or parameter of"
            )
            message += " the instance"
            raise _MistakeError("arguments", f"{message}; known: {known}")
    return found


def _by_name(result: Any, names: Sequence[str], line: int | None) -> dict[str, Any]:
    listed = ", ".join(names)
    if isinstance(result, dict):
        missing, others = [name for name in names if name not in result], [one for one in result if one not in names]
        if missing or others:
            what = f"no `{missing[0]}`" if missing else f"`{others[0]}`, which is not an output"
            raise _MistakeError("outputs", f"it returns a dict with {what}; the outputs are {listed}", line)
        return result
    if result is None:
        raise _MistakeError("outputs", f"it returns nothing; the outputs are {listed}", line)
    if isinstance(result, tuple):
        if len(result) != len(names):
            raise _MistakeError("outputs", f"it returns {len(result)} arrays; the outputs are {listed}", line)
        return dict(zip(names, result, strict=True))
    if len(names) > 1:
        message = f"it returns {_described(result)}; a tuple or dict of {len(names)} arrays is needed: {listed}"
        raise _MistakeError("outputs", message, line)
    return {names[0]: result}


def _described(value: Any) -> str:
    return (
        f"an array of shape {value.shape}"
        if isinstance(value, np.ndarray)
        else f"a value of type {type(value).__name__}"
    )


def _checked(wanted: Mapping[str, Any], value: Any, line: int | None) -> Array:
    """An output as float64, or as int64 (of u64 uint64) where it is exact; of the shape that it must have."""
    name, shape = wanted["name"], tuple(wanted["shape"])
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise _MistakeError("outputs", f"{name} has the NumPy type {array.dtype}; numbers are needed", line)
    if array.shape != shape:
        raise _MistakeError(
            "outputs", f"{name} has the shape {array.shape}; it must be {shape}: {wanted['sizes']}", line
        )
    if array.dtype.kind in "iub":
        if wanted["integers"] is None:
            return array.astype(np.float64)
        exact = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
        low, high = wanted["integers"]
        wrong = (exact < low) | (exact > high)
        if wrong.any():
            at, found = _first(wrong), exact[wrong][0]
            raise _MistakeError("outputs", f"{name}{at} is {found}, which {wanted['dtype']} cannot hold", line)
        return exact.astype(np.int64 if high < 2**63 else np.uint64)
    doubles = array.astype(np.float64)
    missing = np.isnan(doubles)
    if missing.any() and not wanted["nan"]:
        count = int(np.count_nonzero(missing))
        others = f" and so are {count - 1:,} more of {doubles.size:,} elements" if count > 1 else ""
        hint = f"; `nan = true` at {name} allows it" if wanted["may_be_nan"] else ""
        raise _MistakeError("nan", f"{name}{_first(missing)} is NaN{others}{hint}", line)
    return doubles


def _first(wrong: Array) -> str:
    return str([int(axis) for axis in np.argwhere(wrong)[0]]) if wrong.ndim else ""


def _innermost(trace: TracebackType | None, paths: Sequence[str]) -> tuple[int | None, str | None]:
    """The line and path of the innermost frame in one of the user's files."""
    found: tuple[int | None, str | None] = (None, None)
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path in paths:
            found = trace.tb_lineno, path
        trace = trace.tb_next
    return found


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _Overrun in the main thread when the time is over; end the process when that is of no use."""

    def overrun(_number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 1.0)  # it may have been caught
        raise _Overrun

    signal.signal(signal.SIGALRM, overrun)
    used = resource.getrusage(resource.RUSAGE_SELF)
    processors = len(os.sched_getaffinity(0))
    limit = math.ceil(used.ru_utime + used.ru_stime + (seconds + 10) * processors)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory(more_bytes: int) -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123  # no file of anybody's
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + MEMORY_LIMIT_BYTES + MEMORY_PER_BYTE * more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the other side closes the pipe."""
    reference: _Reference | None = None
    while True:
        try:
            request, given = receive(requests)
        except ArrayMessageError:
            return
        if reference is None:
            reference = _Reference(request)
            continue
        _limit_memory(sum(one.nbytes for one in given.values()))
        send(answers, *reference.answer(request, given))


def main() -> None:
    """Keep both pipes for messages: what the user's code reads is empty, what it prints is dropped."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it is of no use without its worker
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123  # no file of anybody's
        file.write("1000")
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    with suppress(BrokenPipeError):  # no process waits for it any more
        serve(requests, answers)
    os._exit(0)  # threads of the user's do not keep it


if __name__ == "__main__":
    main()
