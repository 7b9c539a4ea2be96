"""Hooks as templates see them: whatever is done with one that cannot work is an error that says what to do.

`PRINTED_HOOKS` may stand without a call, as the variables of PyTorch Inductor's templates do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from jinja2 import Undefined

from ckwatch.render.hooks import INDUCTOR_ORDER, PRINTED_HOOKS, HookError, KernelHooks
from ckwatch.render.values import did_you_mean, in_words


class Hook:
    """A hook as a template sees it: one to call, and for some of them to print."""

    __slots__ = ("_function", "name")

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, Undefined):
                    str(one)  # raises, unless undefined names are only looked for
                    return ""
        if self.name == "def_kernel" and len(args) > 2 and isinstance(args[2], list | tuple):
            args, kwargs = _in_our_order(args, kwargs)
        try:
            return self._function(*args, **kwargs)
        except TypeError as error:
            raise self._misused(args, kwargs, error) from error

    def __str__(self) -> str:
        if self.name in PRINTED_HOOKS:
            return self._function()  # type: ignore[no-any-return]  # text, which may remember its origin
        raise HookError(f"`{self.name}` is a hook: write {self.name}({self._arguments()})", name=self.name)

    def __iter__(self) -> Iterator[Any]:
        return iter(str(self))

    def _arguments(self) -> str:
        parameters = inspect.signature(self._function).parameters.values()
        return ", ".join(one.name for one in parameters if one.default is one.empty)

    def _misused(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: TypeError) -> HookError:
        """Describe the mistake in the arguments."""
        signature = inspect.signature(self._function)
        names = list(signature.parameters)
        how = f"{self.name}({', '.join(map(str, names))})"
        for name in kwargs:
            if name not in names:
                return HookError(f"{self.name} has no argument `{name}`{did_you_mean(name, names) or f': {how}'}", name)
        if len(args) > len(names):
            count = f"{len(names) or 'no'} argument{'s' * (len(names) != 1)}"
            return HookError(f"{self.name} takes {count}: {how}", len(names))
        given = {*names[: len(args)], *kwargs}
        for name, parameter in signature.parameters.items():
            if parameter.default is parameter.empty and name not in given:
                return HookError(f"{self.name} needs `{name}`: {how}")
        return HookError(f"{self.name}: {in_words(error)}")


def _in_our_order(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the order of PyTorch Inductor's `def_kernel`, whose third is `size_args`."""
    moved = dict(zip(INDUCTOR_ORDER[2:], args[2:], strict=False))
    if len(args) > len(INDUCTOR_ORDER) or not moved.keys().isdisjoint(kwargs):
        return args, dict(kwargs)
    return args[:2], {**moved, **kwargs}


class KernelNamespace(SimpleNamespace):
    """All hooks as attributes."""

    def __str__(self) -> str:
        raise HookError("`kernel` holds the hooks: write kernel.NAME(…)", name="kernel")


def hooks_by_name(hooks: KernelHooks) -> dict[str, Hook]:
    """The hooks as templates see them."""
    return {name: Hook(name, getattr(hooks, name)) for name in vars(KernelHooks) if not name.startswith("_")}
