"""An endpoint of the daemon, declared once: a stub whose signature, annotations and docstring say all of it.

    @get("/units/{unit}/artifact", viewed=True)
    def artifact(self, unit: UnitName) -> messages.Artifact | None:
        \"\"\"What the unit compiled to last; None if nothing.\"\"\"

As an attribute of an `AsyncAsker` it is a method that is awaited, as one of a `SyncAsker` a method that waits. The
server makes its route and the OpenAPI document of it; the engine has a function for it in a table.

An argument travels in the path if `{name}` is there, else as query of GET and DELETE and as JSON of POST and PUT; one
that is called `request` is the whole JSON. `*patterns` are called `pattern` in a query and `units` in JSON. Annotations
are evaluated when an endpoint is first used, because the wire types load pydantic, and a command must start without.
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cached_property, partial, update_wrapper
from importlib import import_module
from types import MappingProxyType, MethodType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    overload,
)

from ckwatch.model.errors import UnknownUnitError
from ckwatch.wire.decoding import decoder

if TYPE_CHECKING:
    import inspect

    from pydantic import TypeAdapter

    from ckwatch.wire.state import Unit

P = ParamSpec("P")
Answer = TypeVar("Answer")
Line = TypeVar("Line")
Awaited = TypeVar("Awaited")
Waited = TypeVar("Waited")

Absolute = Callable[[str | os.PathLike[str]], str]
"""Makes a path absolute, as the daemon names it."""

Retry = Literal["always", "unsent", "never"]
"""When a request whose connection is lost is sent once more, to the daemon that is there then: `always`, because it
does no harm twice, or only if the first daemon cannot have received it. With `force`, `always` becomes `unsent`."""

NDJSON = "application/x-ndjson"
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Form:
    """How an argument travels: its type in a request, as an annotation, and how a client makes its value."""

    def __init__(self, wire: str, prepare: Callable[[Any, Absolute], Any]) -> None:
        self.wire, self.prepare = wire, prepare


class SentAs:
    """The name of an argument in a request, where it is another."""

    def __init__(self, name: str) -> None:
        self.name = name


def _unit_name(unit: str | Unit, _absolute: Absolute) -> str:
    return unit if isinstance(unit, str) else unit.id


UnitName = Annotated["str | Unit", Form("Name", _unit_name)]
"""A unit, or its id, in which `@ARCH` may be left out where the instance is compiled for one arch."""

FileName = Annotated[str | os.PathLike[str], Form("FilePath", lambda path, absolute: absolute(path))]
"""A file; a relative path is relative to the workspace."""

Pattern = Annotated[str, Form("list[Name] | None", lambda given, _: list(given) or None)]
"""The type of `*patterns`, which name units as on the command line; none means all."""

Names = Annotated[Iterable[str], Form("list[Name]", lambda names, _: list(names))]


Place = Literal["path", "query", "json", "whole"]


class Request(NamedTuple):
    """A client's request, and when to send it again."""

    method: str
    segments: Sequence[str]
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    retry: Retry = "always"


class Argument:
    """An argument of an endpoint. `annotation` is the client's, `default` is `Parameter.empty` without one."""

    def __init__(self, parameter: inspect.Parameter, annotation: Any, endpoint: AnyEndpoint) -> None:
        self.name: str = parameter.name
        self.annotation = annotation
        self.default: Any = parameter.default
        self.variadic = parameter.kind is parameter.VAR_POSITIONAL
        self.place: Place = "json" if endpoint.method in ("POST", "PUT") else "query"
        if f"{{{self.name}}}" in endpoint.path:
            self.place = "path"
        elif self.name == "request":
            self.place = "whole"
        metadata = list(_metadata(annotation))
        self.form = next((one for one in metadata if isinstance(one, Form)), None)
        usual = self.name if not self.variadic else "units" if self.place == "json" else "pattern"
        self.sent_as: str = next((one.name for one in metadata if isinstance(one, SentAs)), usual)


_TYPES_IN = (
    *("state", "verification", "messages", "benchmarks", "analysis", "unit_changes", "language", "imported_timings"),
    *("schema", "requests", "cpp", "rows"),
)
"""Modules of `ckwatch.wire` in which a name is looked up, those first that load little; the last ones load pydantic."""


class _Types(dict[str, Any]):
    """Types of the wire that annotations name and a module of declarations does not import."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, name: str) -> Any:
        if name not in self._known and not hasattr(builtins, name):
            return self._found(name)
        raise KeyError(name)

    def _found(self, name: str) -> Any:
        for module in _TYPES_IN:
            if (found := getattr(import_module(f"ckwatch.wire.{module}"), name, None)) is not None:
                return found
        raise KeyError(name)


class _AnyTypes(_Types):
    """The same where only the forms of arguments matter, which are here: nothing is loaded for the others."""

    def _found(self, _name: str) -> Any:
        return Any


class Endpoint(Generic[P, Awaited, Waited]):
    """One thing to ask or order. `viewed`: it is about what a client sees, with its unsaved text.

    `slow`: the answer takes as long as a compile, and comes with heartbeats. `media`: its type, if it is neither what
    follows from that nor JSON, or text for a string. `check` raises ValueError for arguments
    that do not go together. `operation`: its name in the OpenAPI document, if it is another than the clients'.
    `action`: of one that is followed, what ends too early where the daemon ends.

    `Awaited` is what its method of an `AsyncAsker` returns, `Waited` what that of a `SyncAsker` returns.
    """

    def __init__(
        self,
        stub: Callable[Concatenate[Any, P], Any],
        method: str,
        path: str,
        *,
        viewed: bool = False,
        slow: bool = False,
        media: str = "",
        retry: Retry = "always",
        operation: str = "",
        action: str = "",
        check: Callable[[Any], None] | None = None,
    ) -> None:
        self.name, self.action = stub.__name__, action
        self.method, self.path, self.viewed, self.slow, self.retry = method, path, viewed, slow, retry
        self.operation = operation or self.name
        self._media = media
        self.check = check
        update_wrapper(cast("Callable[..., Any]", self), stub)
        self._stub = stub

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: AsyncAsker, owner: Any) -> Callable[P, Awaited]: ...
    @overload
    def __get__(self, instance: SyncAsker, owner: Any) -> Callable[P, Waited]: ...
    def __get__(self, instance: AsyncAsker | SyncAsker | None, owner: Any) -> Any:
        if instance is None:
            return self

        ask: Callable[..., Any] = instance._follow if self.action else instance._ask

        def method(*given: P.args, **named: P.kwargs) -> Any:
            return ask(self, given, named)

        return update_wrapper(method, MethodType(self._stub, instance))

    def answered_by(self, function: Callable[..., Awaited]) -> tuple[AnyEndpoint, Callable[..., Any]]:
        """A row in a table of answers. The function is given `scope`, the view that is
        asked of, where it is viewed, and each argument by name."""
        return self, function

    def type(self, annotation: str, types: builtins.type[_Types] = _Types) -> Any:
        """The type that an annotation of the declaration names."""
        known = self._stub.__globals__
        return eval(annotation, known, types(known))  # noqa: S307  # the text is that of a declaration

    @cached_property
    def answer(self) -> Any:
        """The type of the answer, or of a line of it."""
        return self.type(self._stub.__annotations__["return"])

    @cached_property
    def sent(self) -> Any:
        """The type of what is sent: the answer, or a line of it."""
        if not self.slow:
            return self.answer
        from ckwatch.wire.messages import SlowAnswer

        return SlowAnswer[self.answer]  # type: ignore[name-defined]  # known when it runs

    @cached_property
    def media(self) -> str:
        """The media type of the answer."""
        if self._media or self.slow or self.action:
            return self._media or NDJSON
        return "text/plain" if self.answer is str else "application/json"

    @cached_property
    def decode(self) -> Callable[[Any], Any]:
        """Makes what is sent of what JSON has. It raises ValueError for other contents."""
        return decoder(self.sent)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Reads what is sent, large answers faster than `decode`."""
        from pydantic import TypeAdapter

        return TypeAdapter(self.sent)

    @cached_property
    def signature(self) -> inspect.Signature:
        """That of the clients' methods."""
        import inspect

        whole = inspect.signature(self._stub)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """All of them, but for the client whose view it is."""
        return self._arguments(_Types)

    def _arguments(self, types: builtins.type[_Types]) -> tuple[Argument, ...]:
        parameters = self.signature.parameters.values()
        return tuple(Argument(one, self.type(one.annotation, types), self) for one in parameters)

    @cached_property
    def _sent_arguments(self) -> tuple[Argument, ...]:
        """The same for a client, which need not know the types that are sent."""
        return self._arguments(_AnyTypes)

    def wire_type(self, argument: Argument) -> Any:
        """The type of an argument in a request."""
        return self._wired(argument.annotation)

    def _wired(self, annotation: Any) -> Any:
        form = next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Form)), None)
        if form is not None:
            return self.type(form.wire)
        if get_origin(annotation) is Annotated or not any(isinstance(one, Form) for one in _metadata(annotation)):
            return annotation
        return Union[tuple(map(self._wired, get_args(annotation)))]  # noqa: UP007  # of a computed tuple

    def request(
        self, given: tuple[Any, ...], named: Mapping[str, Any], absolute: Absolute, viewer: str | None = None
    ) -> Request:
        """The request that asks this. Raises UnknownUnitError for what is no unit's id in the path."""
        bound = self.signature.bind(*given, **named)
        bound.apply_defaults()
        parts: dict[str, tuple[str, ...]] = {}
        query: list[tuple[str, str]] = []
        fields: dict[str, Any] = {}
        body: bytes | None = None
        for argument in self._sent_arguments:
            value = bound.arguments[argument.name]
            if argument.form is not None and value is not None:
                value = argument.form.prepare(value, absolute)
            if argument.place == "path":
                is_unit = argument.annotation is UnitName
                parts[f"{{{argument.name}}}"] = _unit_segments(value) if is_unit else (str(value),)
            elif argument.place == "whole":
                body = value.model_dump_json().encode()
            elif value != argument.default and not (argument.variadic and value is None):
                fields[argument.sent_as] = value
        if viewer is not None:
            fields["client"] = viewer
        if self.method in ("GET", "DELETE"):
            query = [
                (name, str(one).lower() if isinstance(one, bool) else str(one))
                for name, value in fields.items()
                for one in (value if isinstance(value, list) else (value,))
            ]
        elif body is None and self.takes_json:
            body = json.dumps(fields).encode()
        segments = [part for name in self.path.split("/")[1:] for part in parts.get(name, (name,))]
        retry: Retry = "unsent" if self.retry == "always" and bound.arguments.get("force") else self.retry
        return Request(self.method, segments, query, body, retry)

    @property
    def takes_json(self) -> bool:
        """Return True if its requests have a body."""
        return any(one.place in ("json", "whole") for one in self._sent_arguments) or (
            self.viewed and self.method == "POST"
        )


AnyEndpoint: TypeAlias = Endpoint[..., Any, Any]
Question: TypeAlias = Endpoint[P, Coroutine[Any, Any, Answer], Answer]
Followed: TypeAlias = Endpoint[
    P, AbstractAsyncContextManager[AsyncIterator[Line]], AbstractContextManager[Iterator[Line]]
]


class AsyncAsker:
    """Asks the daemon; its methods are awaited."""

    async def _ask(
        self, question: Question[..., Answer], given: tuple[Any, ...] = (), named: Mapping[str, Any] = NOTHING
    ) -> Answer:
        raise NotImplementedError

    def _follow(
        self, lines: Endpoint[..., Any, Any], given: tuple[Any, ...], named: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        raise NotImplementedError


class SyncAsker:
    """Asks the daemon; its methods wait."""

    def _ask(self, question: Question[..., Answer], given: tuple[Any, ...], named: Mapping[str, Any]) -> Answer:
        raise NotImplementedError

    def _follow(
        self, lines: Endpoint[..., Any, Any], given: tuple[Any, ...], named: Mapping[str, Any]
    ) -> AbstractContextManager[Iterator[Any]]:
        raise NotImplementedError


class _declaration:  # noqa: N801  # a decorator
    """Makes an endpoint of a stub; the options are those of `Endpoint`."""

    def __init__(self, method: str, path: str, **options: Any) -> None:
        self._options: Mapping[str, Any] = {"method": method, "path": path, **options}

    def __call__(self, stub: Callable[Concatenate[Any, P], Answer]) -> Question[P, Answer]:
        return Endpoint(stub, **self._options)


get, post = partial(_declaration, "GET"), partial(_declaration, "POST")
put, delete = partial(_declaration, "PUT"), partial(_declaration, "DELETE")


class follow:  # noqa: N801  # a decorator beside `get`
    """Makes an endpoint of a stub whose result is a line: it does something and reports it line by line, and leaving
    the context gives it up. `action` is the word for it: a build.

    The last line's event is `done`, and `heartbeat` says that nothing has happened for a while.
    """

    def __init__(self, path: str, *, action: str, **options: Any) -> None:
        self._options: Mapping[str, Any] = {"path": path, "action": action, **options}

    def __call__(self, stub: Callable[Concatenate[Any, P], Line]) -> Followed[P, Line]:
        return Endpoint(stub, "POST", viewed=True, **self._options)


def _metadata(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        yield from _metadata(part)


def _unit_segments(name: str) -> tuple[str, str]:
    kernel, slash, instance = name.partition("/")
    if not slash or not instance:
        hint = "a unit's id is KERNEL/INSTANCE@ARCH; @ARCH may be left out where there is one"
        raise UnknownUnitError(f"'{name}' is not the id of a unit", hint)
    return kernel, instance
