"""Hooks as templates see them: whatever is done with one that cannot work is an error that says what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from jinja2 import Undefined

from ckwatch.render.hooks import HOOK_NAMES, HookError, KernelHooks
from ckwatch.render.values import did_you_mean, in_words


class Hook:
    """A hook as a template sees it: nothing but calling it makes sense."""

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
        try:
            return self._function(*args, **kwargs)
        except TypeError as error:
            raise self._misused(args, kwargs, error) from error

    def __str__(self) -> str:
        raise HookError(f"`{self.name}` is a hook: write {self.name}({self._arguments()})", name=self.name)

    def __iter__(self) -> Iterator[Any]:
        str(self)
        return iter(())

    def _arguments(self) -> str:
        parameters = inspect.signature(self._function).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty]
        first = next((one.default for one in parameters if isinstance(one.default, str) and one.default), "")
        return ", ".join(needed) or (f'"{first}"' if self.name in ("header", "globals") else "")

    def _misused(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: TypeError) -> HookError:
        """What is wrong with the arguments."""
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


class KernelNamespace(SimpleNamespace):
    """All hooks as attributes."""

    def __str__(self) -> str:
        raise HookError("`kernel` holds the hooks: write kernel.NAME(…)", name="kernel")


def hooks_by_name(hooks: KernelHooks) -> dict[str, Hook]:
    """The hooks as templates see them."""
    return {name: Hook(name, getattr(hooks, name)) for name in HOOK_NAMES}
