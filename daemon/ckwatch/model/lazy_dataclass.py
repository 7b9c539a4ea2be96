"""Dataclasses that compile each method when it is first used.

`dataclasses.dataclass` compiles up to six functions for each class: of the seven hundred that a daemon imports, half a
second of processor time and 8 MB, most for methods that nobody ever calls. The classes here are the same but for that:
the standard library collects their fields and makes their slots, and what it would compile is written here.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from dataclasses import FrozenInstanceError, fields
from functools import cache
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`, with its parameters except `init`, `repr`, `match_args` and `unsafe_hash`."""
        return _made(cls) if cls is not None else lambda given: _made(given, **options)


_ORDERS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _made(cls: type, *, eq: bool = True, order: bool = False, frozen: bool = False, **options: Any) -> type:
    own = dict(vars(cls))
    if any(map(dataclasses.is_dataclass, cls.__mro__[1:])):
        options["frozen"] = frozen  # which refuses to mix both
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    made.__dataclass_params__.frozen = frozen  # type: ignore[attr-defined]  # asked where a class is derived
    methods: dict[str, Any] = {
        "__init__": _Lazy("__init__", _frozen_init if frozen else _init),
        "__repr__": _Lazy("__repr__", _repr),
    }
    if eq:
        methods["__eq__"] = _Lazy("__eq__", _eq)
        # one that Python has set to None because the class has `__eq__` is no choice of the class
        if own.get("__hash__") is None and not ("__hash__" in own and "__eq__" not in own):
            made.__hash__ = _Lazy("__hash__", _hash) if frozen else None  # type: ignore[assignment]
    if order:
        methods |= {name: _Lazy(name, _order) for name in _ORDERS}
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        if options.get("slots"):  # else the attributes are in `__dict__`, which needs no assignment
            methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


class _Absent:
    def __repr__(self) -> str:
        return "<factory>"  # so signatures show it


_ABSENT = _Absent()


class _Lazy:
    """Stands in a class for a method until that is used."""

    __slots__ = ("_name", "_write")

    def __init__(self, name: str, write: Callable[[type, str], Callable[..., Any]]) -> None:
        self._name, self._write = name, write

    def __get__(self, instance: Any, owner: type) -> Any:
        owner = instance if isinstance(instance, type) else owner  # so `inspect` asks from Python 3.13 on
        for cls in owner.__mro__:
            if vars(cls).get(self._name) is self:
                setattr(cls, self._name, self._write(cls, self._name))
                break
        return getattr(owner, self._name).__get__(instance, owner)  # another thread may have written it


def _function(cls: type, name: str, parameters: Iterable[str], body: Iterable[str], known: dict[str, Any]) -> Any:
    lines = (f"def make({', '.join(known)}):", f" def {name}({', '.join(parameters)}):", *(f"  {one}" for one in body))
    made: dict[str, Any] = {}
    exec("\n".join((*lines, f" return {name}")), vars(sys.modules[cls.__module__]), made)  # noqa: S102  # names of fields
    function = made["make"](**known)
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    return function


def _init(cls: type, name: str, assign: str = "self.{0} = {1}") -> Any:
    known: dict[str, Any] = {"_set": object.__setattr__, "_absent": _ABSENT}
    positional, named, body = ["self"], list[str](), list[str]()
    for one in fields(cls):
        value = one.name
        default = f"_default_{one.name}"
        if one.default_factory is not dataclasses.MISSING:
            known[default] = one.default_factory
            value = f"{default}() if {one.name} is _absent else {one.name}" if one.init else f"{default}()"
            parameter = f"{one.name}=_absent"
        elif one.default is not dataclasses.MISSING:
            known[default] = one.default
            parameter, value = f"{one.name}={default}", value if one.init else default
        else:
            parameter, value = one.name, value if one.init else ""
        if one.init:
            (named if one.kw_only else positional).append(parameter)
        if value:
            body.append(assign.format(one.name, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    function = _function(cls, name, (*positional, *(("*", *named) if named else ())), body or ("pass",), known)
    function.__annotations__ = {one.name: one.type for one in fields(cls) if one.init} | {"return": None}
    return function


def _frozen_init(cls: type, name: str) -> Any:
    return _init(cls, name, '_set(self, "{0}", {1})')


def _values(cls: type, of: str) -> str:
    return "(" + "".join(f"{of}.{one.name}," for one in fields(cls) if one.compare) + ")"


def _eq(cls: type, name: str, operator: str = "==") -> Any:
    compared = f"return {_values(cls, 'self')} {operator} {_values(cls, 'other')}"
    body = ("if other.__class__ is self.__class__:", f" {compared}", "return NotImplemented")
    return _function(cls, name, ("self", "other"), body, {})


def _order(cls: type, name: str) -> Any:
    return _eq(cls, name, _ORDERS[name])


def _hash(cls: type, name: str) -> Any:
    hashed = [f"self.{one.name}," for one in fields(cls) if (one.compare if one.hash is None else one.hash)]
    return _function(cls, name, ("self",), (f"return hash(({''.join(hashed)}))",), {})


def _repr(cls: type, name: str) -> Any:
    shown = ", ".join(f"{one.name}={{self.{one.name}!r}}" for one in fields(cls) if one.repr)
    written = _function(cls, name, ("self",), (f'return f"{{self.__class__.__qualname__}}({shown})"',), {})
    return recursive_repr("...")(written)


def _refuse_set(self: Any, name: str, value: object) -> None:
    if _is_frozen(type(self), name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    if _is_frozen(type(self), name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(cls: Any, name: str) -> bool:
    """A derived class that is no dataclass may have attributes of its own."""
    return "__dataclass_fields__" in vars(cls) or name in cls.__dataclass_fields__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in _names(self.__class__)]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(_names(self.__class__), state, strict=True):
        object.__setattr__(self, name, value)


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls))
