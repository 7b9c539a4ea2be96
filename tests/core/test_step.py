"""Exact requests of a step: a row for each thing that may happen when everything is built, and its story."""

from __future__ import annotations

import pytest

from ckwatch.core.events import BuildRequested, FocusChanged, OptionsChanged, ViewOverrides
from core.language import TOML
from core.workspace import (
    FILES,
    H1,
    H3,
    K1,
    K2,
    MACROS,
    T2,
    A,
    Act,
    C,
    built,
    edited,
    lost,
    set_overlay,
    story,
    way,
)
from helpers.each_row import each_row


@each_row(
    ("act", "expected"),
    [
        pytest.param(edited(MACROS, "token 1"), way("k1/a", "k1/b"), id="a macro file touches its users"),
        pytest.param(edited(T2, "token 1\nheader h2"), way("k2/c"), id="a template touches its units"),
        pytest.param(edited(T2, "blank\ntoken 0\nheader h2"), ["render k2/c"], id="a comment costs a render"),
        pytest.param(edited(T2, "broken"), ["render k2/c"], id="an error needs no compiler"),
        pytest.param(edited(T2, None), ["render k2/c"], id="a removed template"),
        pytest.param(edited("/ws/over/t2", "token 2"), way("k2/c"), id="a file where one was looked for in vain"),
        pytest.param(edited("/ws/templates/other", "token 2"), [], id="a file that nobody reads"),
        pytest.param(edited(H1, "token 1"), way("k1/a", "k1/b"), id="a header touches those who included it"),
        pytest.param(edited("/ck/first/h2", "token 1"), way("k2/c"), id="a header that shadows one"),
        pytest.param(edited(H3, "token 1"), [], id="a header that nobody reads"),
        pytest.param(
            edited(K1, "template t1\ninstance a 5\ninstance b 2"), way("k1/a"), id="one instance edited: one unit"
        ),
        pytest.param(
            edited(K1, "template t1\ninstance a 1\ninstance b 2\ninstance d 4"), way("k1/d"), id="a new instance"
        ),
        pytest.param(edited(K1, "template t1\ninstance b 2"), [], id="an instance less"),
        pytest.param(edited(K1, "blank\ntemplate t1\ninstance a 1\ninstance b 2"), [], id="places that moved"),
        pytest.param(
            edited(K2, "template t2\nflags x\ninstance c 1"), way("k2/c"), id="flags: the same tokens, another result"
        ),
        pytest.param(edited(K2, "broken"), [], id="a kernel file that cannot be read has no units"),
        pytest.param(
            edited(TOML, "settings 1\njobs 2"),
            way("k1/a", "k1/b", "k2/c", to="look-up"),
            id="settings: what is not requested is not compiled",
        ),
        pytest.param(edited(TOML, "settings 0\njobs 4"), [], id="more cores"),
        pytest.param(lost(A), way("k1/a"), id="what the store has lost is built again"),
        pytest.param(lambda world: world.lose({"another"}), [], id="what nobody has is nobody's loss"),
        pytest.param(edited(TOML, None), [], id="no ckwatch.toml: all stays as it was"),
        pytest.param(lambda world: set_overlay(world, "ann", T2, FILES[T2]), [], id="a file opened in an editor"),
        pytest.param(
            lambda world: set_overlay(world, "ann", T2, "blank\ntoken 0\nheader h2"),
            ["ann: render k2/c"],
            id="a comment in an editor",
        ),
        pytest.param(
            lambda world: set_overlay(world, "ann", K1, "template t1\ninstance a 5\ninstance b 2"),
            ["ann: render k1/a", "ann: look-up k1/a", "ann: compile k1/a"],
            id="an instance edited in an editor",
        ),
        pytest.param(
            lambda world: set_overlay(world, "ann", K2, "template t2\nflags x\ninstance c 1"),
            ["ann: render k2/c", "ann: look-up k2/c", "ann: compile k2/c"],
            id="flags edited in an editor",
        ),
        pytest.param(
            lambda world: world.send(OptionsChanged("ann", ViewOverrides(archs=("gfx90a",)))),
            [f"ann: {step} {name}@gfx90a" for name in ("k1/a", "k1/b", "k2/c") for step in ("render", "look-up")],
            id="other archs",
        ),
        pytest.param(lambda world: world.send(FocusChanged("ann", frozenset({A}))), [], id="a built unit in focus"),
        pytest.param(
            lambda world: world.send(BuildRequested("r", "", ("k2",), force=True)),
            ["render k2/c", "compile k2/c", "notify r k2/c", "notify r end"],
            id="force compiles again",
        ),
        pytest.param(
            lambda world: world.send(BuildRequested("r", "", ("k2",), force=True, check_only=True)),
            ["notify r k2/c", "notify r end"],
            id="checks force nothing",
        ),
    ],
)
def test_what_follows(act: Act, expected: list[str]) -> None:
    world = built()
    act(world)
    # Units go their ways side by side; each goes its own in order.
    log = world.run()
    assert sorted(log, key=lambda line: line.rsplit(maxsplit=1)[-1]) == sorted(
        expected, key=lambda line: line.rsplit(maxsplit=1)[-1]
    )
    world.drain()


@each_row(
    ("act", "name", "expected"),
    [
        (edited(MACROS, "token 1"), A, ["compiled in 1.0 s: built", "templates/macros changed"]),
        (edited(MACROS, None), A, ["the template or the instance has errors", "templates/macros was removed"]),
        (edited("/ws/over/t2", "token 2"), C, ["compiled in 1.0 s: built", "over/t2 appeared"]),
        (edited(H1, "fail"), A, ["compiled in 1.0 s: failed", "/ck/h1 changed"]),
        (edited(T2, "blank\n" + FILES[T2]), C, ["rendered with the same tokens: nothing to compile", "templates/t2 changed"]),
        (
            edited(K1, "template t1\ninstance a 5\ninstance b 2"),
            A,
            ["compiled in 1.0 s: built", "k1.kernel.toml: p 1 → 5"],
        ),
        (edited(K2, "template t1\ninstance c 1"), C, ["found in the store: built", "k2.kernel.toml: template t2 → t1"]),
        (edited(K2, "template t2\nflags x\ninstance c 1"), C, ["compiled in 1.0 s: built", "k2.kernel.toml: the flags changed"]),
        (
            edited(TOML, "settings 1\njobs 2"),
            A,
            ["not in the store, and not requested", "the settings or the compiler changed"],
        ),
        (
            edited(TOML, "settings 1\njobs 2\nno-compiler"),
            A,
            ["checked; there is no compiler", "the settings or the compiler changed"],
        ),
    ],
)  # fmt: skip
def test_every_state_has_its_story(act: Act, name: str, expected: list[str]) -> None:
    world = built()
    act(world)
    world.drain()
    assert story(world, name) == expected


def test_what_was_there_before_is_found_again() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.drain()
    world.take_log()
    world.save(T2, FILES[T2])
    assert world.run() == ["render k2/c", "look-up k2/c"]
    assert story(world, C) == ["found in the store: built", "templates/t2 changed"]
