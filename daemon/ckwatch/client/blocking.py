"""`SyncClient`: the client for plain scripts and notebooks, without `await`.

It has the methods of `Client`, which run on an event loop in a thread of its own. The questions are declared for both;
each other method is made from that of `Client` and has its types.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from functools import partial, update_wrapper
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ckwatch.client.builds import Sweep, UnitResult
from ckwatch.client.client import Client, connect
from ckwatch.client.cpp import CppClient
from ckwatch.client.events import BriefChange, ReadChange, ReadUnit
from ckwatch.client.overlays import Overlay
from ckwatch.client.sweep import Parameters
from ckwatch.questions.endpoint import NOTHING, AnyEndpoint, Question, SyncAsker
from ckwatch.questions.timings import TimingQuestions
from ckwatch.questions.units import UnitQuestions
from ckwatch.questions.workspace import WorkspaceQuestions
from ckwatch.wire.state import Change

if TYPE_CHECKING:  # numpy comes with them
    from ckwatch.tuning.dispatch import DispatchSet
    from ckwatch.tuning.plan import TuningStep  # noqa: F401  # a base names it as text
    from ckwatch.tuning.results import BestInstance, TuningRecord
    from ckwatch.tuning.runner import Tuning
    from ckwatch.wire.rows import UnitRow

P = ParamSpec("P")
Result = TypeVar("Result")
Asynchronous = TypeVar("Asynchronous", covariant=True)
Item = TypeVar("Item")
Entered = TypeVar("Entered")
Given = TypeVar("Given")
Given_co = TypeVar("Given_co", covariant=True)

_END: Any = object()


class _Apart(Generic[Result]):
    """A call in a thread of its own, whose end another thread waits for.

    Ctrl-C raises KeyboardInterrupt between any two steps of the main thread, also where it has just taken a lock that
    the loop's thread needs next, or is about to tell that thread to end. So the main thread does nothing of the kind:
    it starts a thread and waits, both in single steps.
    """

    def __init__(self, call: Callable[[], Result], give_up: Callable[[], object], undo: Callable[[], object]) -> None:
        self._call = call
        self._give_up = give_up
        self._undo = undo
        self._result: Result = _END
        self._error: BaseException | None = None
        self._ended = allocate_lock()
        self._ended.acquire()

    def wait(self) -> Result:
        """Return or raise as the call does. An interrupt of this thread gives it up and undoes what it has done."""
        try:
            start_new_thread(self._run, ())
            self._ended.acquire()
        except BaseException:
            start_new_thread(self._leave, ())
            raise
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, `wait` raises it
            self._error = error
        self._ended.release()

    def _leave(self) -> None:
        # nothing waits for this thread: errors are of no interest any more
        with suppress(BaseException):
            self._give_up()
            self._ended.acquire()
            if self._error is None:
                self._undo()


def _nothing() -> None:
    pass


@contextmanager
def _held(context: AbstractContextManager[Item]) -> Iterator[Item]:
    """The same context, entered and left apart from this thread."""
    leave = partial(context.__exit__, None, None, None)
    entered = _Apart(context.__enter__, _nothing, leave).wait()
    try:
        yield entered
    except GeneratorExit:
        # an interrupt came before the block; the loop may have gone since
        with suppress(RuntimeError):
            _Apart(leave, _nothing, _nothing).wait()
        raise
    except BaseException as error:
        if not _Apart(partial(context.__exit__, type(error), error, error.__traceback__), _nothing, _nothing).wait():
            raise
    else:
        _Apart(leave, _nothing, _nothing).wait()


class _Request(Generic[Result]):
    """A coroutine on the loop."""

    def __init__(self, portal: BlockingPortal, call: Callable[[], Awaitable[Result]]) -> None:
        self._portal = portal
        self._call = call
        self._future: Future[Result] | None = None
        self._is_cancelled = False

    def answer(self) -> Result:
        """Return or raise as it does."""
        self._future = self._portal.start_task_soon(self._call)
        if self._is_cancelled:
            self._future.cancel()
        return self._future.result()

    def cancel(self) -> None:
        """End it; for any thread, also before it begins."""
        self._is_cancelled = True
        if self._future is not None:
            self._future.cancel()


class _Loop:
    """The event loop of the client's coroutines."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    def run(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Return or raise as the coroutine does. An interrupt cancels it."""
        request = _Request(self._portal, call)
        return _Apart(request.answer, request.cancel, _nothing).wait()

    def context(self, entered: AbstractAsyncContextManager[Item]) -> AbstractContextManager[Item]:
        """The same context for this thread."""
        return _held(self._portal.wrap_async_context_manager(entered))


class Items(Generic[Item]):
    """Iterates over what an asynchronous iterator gives."""

    def __init__(self, loop: _Loop, items: AsyncIterator[Item]) -> None:
        self._loop = loop
        self._items = items

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        """The next one. Raises as the asynchronous iterator."""
        item = self._loop.run(partial(_next, self._items))
        if item is _END:
            raise StopIteration
        return item


async def _next(items: AsyncIterator[Item]) -> Item:
    return await anext(items, _END)


class SyncSweep(Items[UnitResult]):
    """Iterates over the results of a sweep as they settle. `units` are the parameters of all its units, by id."""

    def __init__(self, loop: _Loop, sweep: Sweep) -> None:
        super().__init__(loop, sweep)
        self.units: dict[str, Parameters] = dict(sweep.units)
        self._sweep = sweep

    @property
    def skipped(self) -> dict[str, str]:
        """As that of `Sweep`."""
        return dict(self._sweep.skipped)

    @property
    def summary(self) -> str:
        """As that of `Sweep`."""
        return self._sweep.summary


class SyncTuning(Items["TuningStep"]):
    """Iterates over the results of a tuning run as they settle, as `Tuning`."""

    def __init__(self, loop: _Loop, tuning: Tuning) -> None:
        super().__init__(loop, aiter(tuning))
        self._tuning = tuning

    @property
    def record(self) -> TuningRecord:
        """The results so far."""
        return self._tuning.record

    def best(self, shape: str) -> BestInstance | None:
        """The fastest instance on a shape so far."""
        return self._tuning.best(shape)

    def dispatch_set(self) -> DispatchSet | None:
        """As that of `Tuning`."""
        return self._tuning.dispatch_set()

    @property
    def id(self) -> int:
        """As that of `Tuning`."""
        return self._tuning.id

    def finish(self) -> TuningRecord:
        """Wait for the end of the run; what it found."""
        return self._loop.run(self._tuning.finish)

    def write_winners(self) -> list[str]:
        """As that of `Tuning`."""
        return self._loop.run(self._tuning.write_winners)


class _Closable(Protocol[Given_co]):
    """An asynchronous iterator that can be ended."""

    def __aiter__(self) -> AsyncIterator[Given_co]: ...
    async def __anext__(self) -> Given_co: ...
    def close(self) -> None: ...


class SyncEvents(Items[Item]):
    """`Events` or `TuningChanges` without `await`; closed at the end of its context, or by `close`."""

    def __init__(self, loop: _Loop, events: _Closable[Item]) -> None:
        super().__init__(loop, events)
        self._events = events

    def close(self) -> None:
        """End it."""
        self._loop.run(self._close)

    async def _close(self) -> None:
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncOverlay:
    """An unsaved text."""

    def __init__(self, loop: _Loop, overlay: Overlay) -> None:
        self._loop = loop
        self._overlay = overlay

    def change(self, text: str) -> None:
        """Put another text in its place."""
        self._loop.run(partial(self._overlay.change, text))


class _Blocking(Protocol[Asynchronous]):
    """A blocking stand-in for an asynchronous `client`, whose coroutines run on `loop`."""

    @property
    def client(self) -> Asynchronous: ...
    @property
    def loop(self) -> _Loop: ...


class _Method(Generic[Asynchronous, P, Result]):
    """A method that waits for one of `Client`, or of what that gives."""

    def __init__(self, method: Callable[Concatenate[Asynchronous, P], Awaitable[Result]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: _Blocking[Asynchronous], owner: type[object]) -> Callable[P, Result]:
        def call(*given: P.args, **named: P.kwargs) -> Result:
            return instance.loop.run(partial(self._method, instance.client, *given, **named))

        return update_wrapper(call, self._method)


class _Context(Generic[P, Entered, Given]):
    """A context of `SyncClient` made from one of `Client`: what the latter gives goes through `convert`."""

    def __init__(
        self,
        method: Callable[Concatenate[Client, P], AbstractAsyncContextManager[Entered]],
        convert: Callable[[_Loop, Entered], Given],
    ) -> None:
        self._method = method
        self._convert = convert
        self.__doc__ = method.__doc__

    def __get__(self, instance: SyncClient, owner: type[SyncClient]) -> Callable[P, AbstractContextManager[Given]]:
        @contextmanager
        def call(*given: P.args, **named: P.kwargs) -> Iterator[Given]:
            with instance.loop.context(self._method(instance.client, *given, **named)) as entered:
                yield self._convert(instance.loop, entered)

        return update_wrapper(call, self._method)


class SyncCpp:
    """`SyncClient.cpp`: the methods of `CppClient`."""

    def __init__(self, client: CppClient, loop: _Loop) -> None:
        self.client = client
        self.loop = loop

    ask = _Method(CppClient.ask)
    hover = _Method(CppClient.hover)
    completion = _Method(CppClient.completion)
    signatures = _Method(CppClient.signatures)
    definition = _Method(CppClient.definition)
    type_definition = _Method(CppClient.type_definition)
    implementation = _Method(CppClient.implementation)
    references = _Method(CppClient.references)
    highlights = _Method(CppClient.highlights)
    symbols = _Method(CppClient.symbols)
    tokens = _Method(CppClient.tokens)
    hints = _Method(CppClient.hints)
    prepare_rename = _Method(CppClient.prepare_rename)
    rename = _Method(CppClient.rename)
    actions = _Method(CppClient.actions)
    calls = _Method(CppClient.calls)
    incoming_calls = _Method(CppClient.incoming_calls)
    outgoing_calls = _Method(CppClient.outgoing_calls)


class SyncClient(WorkspaceQuestions, UnitQuestions, TimingQuestions, SyncAsker):
    """`Client` for plain scripts and notebooks: the same methods, which wait instead of being awaited.

    `connect_sync` makes one. Its methods may be called by any thread.
    """

    def __init__(self, client: Client, portal: BlockingPortal) -> None:
        self.client = client
        self.loop = _Loop(portal)
        self.root: Path = client.root
        self.id: str = client.id

    sync = _Method(Client.sync)
    kernels = _Method(Client.kernels)
    diagnostics = _Method(Client.diagnostics)
    build = _Method(Client.build)
    rerun = _Method(Client.rerun)
    check = _Method(Client.check)
    overlay = _Context(Client.overlay, SyncOverlay)
    focus = _Method(Client.focus)
    view = _Method(Client.view)
    editor = _Method(Client.editor)
    sweep = _Context(Client.sweep, SyncSweep)
    adding_to = _Context(Client.adding_to, SyncOverlay)
    tune = _Context(Client.tune, SyncTuning)
    tuning_runs = _Method(Client.tuning_runs)
    tuning_record = _Method(Client.tuning_record)
    verify = _Method(Client.verify)
    upgrade = _Method(Client.upgrade)
    readers_of = _Method(Client.readers_of)
    stop = _Method(Client.stop)

    def _ask(
        self, question: Question[..., Result], given: tuple[Any, ...] = (), named: Mapping[str, Any] = NOTHING
    ) -> Result:
        return self.loop.run(partial(self.client._ask, question, given, named))

    @contextmanager
    def _follow(self, lines: AnyEndpoint, given: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Items[Item]]:
        with self.loop.context(self.client._follow(lines, given, named)) as entered:
            yield Items(self.loop, entered)

    @property
    def cpp(self) -> SyncCpp:
        """Questions about C++, as `Client.cpp`."""
        return SyncCpp(self.client.cpp, self.loop)

    def tuning_changes(self) -> SyncEvents[None]:
        """When to ask again, as by `Client.tuning_changes`."""
        return SyncEvents(self.loop, self.client.tuning_changes())

    def events(self) -> SyncEvents[Change]:
        """The state of everything, followed, as by `Client.events`."""
        return SyncEvents(self.loop, self.client.events())

    def events_in_brief(self) -> SyncEvents[BriefChange]:
        """The same with units in brief, as by `Client.events_in_brief`."""
        return SyncEvents(self.loop, self.client.events_in_brief())

    def events_as(self, of_unit: Callable[[Mapping[str, Any]], ReadUnit]) -> SyncEvents[ReadChange[ReadUnit]]:
        """The same with units as `of_unit` makes them of their JSON, as by `Client.events_as`."""
        return SyncEvents(self.loop, self.client.events_as(of_unit))

    def events_in_rows(self) -> SyncEvents[ReadChange[UnitRow]]:
        """The same with units as rows of a table, as by `Client.events_in_rows`."""
        return SyncEvents(self.loop, self.client.events_in_rows())


@contextmanager
def connect_sync(
    path: str | os.PathLike[str] = ".",
    *,
    start: bool = True,
    trust: bool = False,
    client_name: str | None = None,
    private: bool = False,
) -> Iterator[SyncClient]:
    """`connect` for code that is not asynchronous, also where an event loop runs already, as in a notebook."""
    chosen = connect(path, start=start, trust=trust, client_name=client_name, private=private)
    with _held(start_blocking_portal()) as portal, _held(portal.wrap_async_context_manager(chosen)) as client:
        yield SyncClient(client, portal)
