"""Lazy dataclasses do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any, ClassVar, get_type_hints

import pytest

from ckwatch.model import lazy_dataclass

Decorator = Callable[..., Any]


def _types(decorate: Decorator) -> dict[str, type]:
    """Classes of all kinds that the project has."""

    @decorate
    class Plain:
        number: int
        names: list[str] = dataclasses.field(default_factory=list)
        kind: ClassVar[str] = "plain"

    @decorate(slots=True)
    class Slotted:
        number: int
        derived: int = dataclasses.field(default=0, init=False)
        hidden: int = dataclasses.field(default=7, repr=False, compare=False)

        def __post_init__(self) -> None:
            self.derived = self.number + 1

    @decorate(frozen=True, slots=True, order=True)
    class Ordered:
        number: int
        text: str = "x"

    @decorate(frozen=True, slots=True, kw_only=True, weakref_slot=True)
    class Named:
        number: int
        unhashed: list[int] = dataclasses.field(default_factory=list, hash=False)

    @decorate(eq=False)
    class Identical:
        number: int

    @decorate(frozen=True)
    class Base:
        number: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 5

    @decorate(frozen=True)
    class Derived(Base):
        text: str = dataclasses.field(default="y", kw_only=True)

    @decorate
    class OwnEquality:
        number: int

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = object.__hash__

    classes = (Plain, Slotted, Ordered, Named, Identical, Base, Derived, OwnEquality)
    return {each.__name__: each for each in classes}


OURS, THEIRS = _types(lazy_dataclass.dataclass), _types(dataclasses.dataclass)


def _outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Exception as error:  # noqa: BLE001  # what is raised is compared
        return type(error), str(error).replace("test_lazy_dataclass.", "")


def _facts(cls: type) -> list[Any]:
    one, same, other = cls(number=1), cls(number=1), cls(number=2)
    found: list[Any] = [
        *(one == same, one == other, one != same, one == 1, repr(other), vars(cls).get("__match_args__")),
        *(_outcome(lambda: hash(one) == hash(same)), _outcome(lambda: one < other), _outcome(lambda: one >= other)),
        *(_outcome(lambda: cls(number=1, nothing=2)), _outcome(cls)),
        *(copy.deepcopy(other) == other, dataclasses.replace(one, number=2) == other, dataclasses.asdict(other)),
        *(str(inspect.signature(cls)), get_type_hints(vars(cls)["__init__"]), hasattr(one, "__dict__")),
        *(vars(cls)["__init__"].__qualname__, _outcome(lambda: vars(one))),
    ]
    for act in (lambda: setattr(one, "number", 3), lambda: delattr(one, "number")):
        found += [_outcome(act), getattr(one, "number", None)]
    return found


@pytest.mark.parametrize("name", OURS)
def test_class_behaves_as_that_of_the_standard_library(name: str) -> None:
    assert _facts(OURS[name]) == _facts(THEIRS[name])


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Kept:
    """Found by its name."""

    number: int
    text: str = "t"


def test_frozen_value_takes_no_other_attribute() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'other'"):
        Kept(3).other = 1  # type: ignore[attr-defined]


def test_value_survives_pickle() -> None:
    assert pickle.loads(pickle.dumps(Kept(3))) == Kept(3)


def test_methods_are_written_when_they_are_used() -> None:
    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Fresh:
        number: int

    assert {name for name in ("__init__", "__eq__", "__hash__") if inspect.isfunction(vars(Fresh)[name])} == set()
    assert Fresh(1) == Fresh(1)
    assert inspect.isfunction(vars(Fresh)["__init__"])
    assert not inspect.isfunction(vars(Fresh)["__hash__"])


def test_threads_that_use_a_class_first_agree() -> None:
    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Shared:
        number: int

    start, made = threading.Barrier(8), []

    def make(number: int) -> None:
        start.wait()
        made.append(Shared(number))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(made) == {Shared(number) for number in range(8)}


def test_recursive_value_has_a_representation() -> None:
    @lazy_dataclass.dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


@pytest.mark.parametrize("base", [lazy_dataclass.dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("derived", [lazy_dataclass.dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("frozen", [False, True])
def test_classes_of_both_kinds_derive_from_each_other(base: Decorator, derived: Decorator, frozen: bool) -> None:
    @base(frozen=frozen)
    class Base:
        number: int

    @derived(frozen=frozen)
    class Derived(Base):
        text: str = "y"

    make: Callable[..., Any] = Derived
    assert make(1) == make(1, "y")
    assert repr(make(1)).endswith("Derived(number=1, text='y')")
    with pytest.raises(TypeError, match="cannot inherit"):
        derived(frozen=not frozen)(type("Mixed", (Base,), {"__annotations__": {}}))


@pytest.mark.parametrize("base", [lazy_dataclass.dataclass, dataclasses.dataclass])
def test_plain_class_derived_from_a_frozen_one_has_attributes_of_its_own(base: Decorator) -> None:
    @base(frozen=True)
    class Base:
        number: int

    class Derived(Base):
        pass

    one: Any = Derived(1)  # type: ignore[call-arg]
    one.note = "mine"
    assert vars(one) == {"number": 1, "note": "mine"}
    del one.note
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.number = 2
