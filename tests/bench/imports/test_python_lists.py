"""Lists in Python are evaluated as Python would, and nothing else of it can be reached."""

from __future__ import annotations

import pytest

from ckwatch.bench.imports.python_lists import PythonClass, PythonInstance, UnknownPythonError, evaluate_lists
from helpers.each_row import each_row

LIST = """
import copy
import os, sys
from dataclasses import dataclass, field
from chip_info import get_gfx
from elsewhere import unknown

sys.path.insert(0, os.path.dirname(__file__))
TAGS = {"sk": "splitk", "plain": ""}

@dataclass
class Kernel:
    '''An instance.'''
    tile: int
    spread: list[int]
    tag: str = "plain"
    outputs: list[str] = field(default_factory=lambda: ["f32"])
    persistent: bool = False

    @property
    def is_wide(self) -> bool:
        return self.tile >= 128

    def part(self, sign="x"):
        return sign.join(map(str, self.spread))

    @property
    def name(self) -> str:
        parts = ["k", "x".join(str(one) for one in [self.tile, len(self.spread)]), self.part(), f"v{self.tile // 64}"]
        if TAGS[self.tag]:
            parts.insert(1, TAGS[self.tag])
        elif self.is_wide:
            parts.append("wide")
        return "_".join(parts).lower()

def _made(tile, *spread, **flags):
    kernel = Kernel(tile, list(spread))
    for key, value in flags.items():
        setattr(kernel, key, value)
    return kernel

def expanded(base, most=2, name="tile"):
    found = dict(base)
    following = max(base.keys()) + 1
    for number, kernel in base.items():
        if number in (99,):
            continue
        for factor in range(2, most + 1):
            other = copy.copy(kernel)
            other.tile = getattr(kernel, name) * factor
            found[following] = other
            following += 1
            if following > 100:
                break
    return found

kernels = {0: Kernel(64, [1, 2]), 1: _made(128, 4), -1: Kernel(tile=32, spread=[8], tag="sk")}
kernels |= {number + 10: _made(16 * number, number, tag="sk") for number in range(1, 4) if number % 2}
if get_gfx().startswith("gfx95"):
    kernels = expanded(kernels, most=2)
by_name = {kernel.name: number for number, kernel in kernels.items()}
total = sum(len(kernel.outputs) for kernel in kernels.values())
lost = kernels_of(unknown)
changed = {0: Kernel(1, [])}
changed.update(unknown)
"""


def names(text: str, arch: str) -> dict[str, int]:
    """Return what `by_name` is for an arch."""
    found = evaluate_lists(text, {"chip_info": {"get_gfx": lambda: arch}})["by_name"]
    assert isinstance(found, dict)
    return found


def test_a_list_is_what_python_makes_of_it() -> None:
    assert names(LIST, "gfx942") == {
        "k_64x2_1x2_v1": 0, "k_128x1_4_v2_wide": 1, "k_splitk_32x1_8_v0": -1, "k_splitk_16x1_1_v0": 11,
        "k_splitk_48x1_3_v0": 13,
    }  # fmt: skip
    assert set(names(LIST, "gfx950")) - set(names(LIST, "gfx942")) == {
        "k_128x2_1x2_v2_wide", "k_256x1_4_v4_wide", "k_splitk_64x1_8_v1", "k_splitk_32x1_1_v0", "k_splitk_96x1_3_v1"
    }  # fmt: skip


def test_what_cannot_be_known_is_missing_with_all_that_depends_on_it() -> None:
    values = evaluate_lists(LIST, {})
    assert {"TAGS", "Kernel", "_made"} <= values.keys()
    # without get_gfx() nothing says what the condition changed
    assert values.keys().isdisjoint({"kernels", "by_name", "total", "lost", "changed", "sys", "unknown"})


@each_row(
    "text",
    [
        "x = ().__class__",
        "x = ().__class__.__base__.__subclasses__()",
        "x = open('/etc/passwd').read()",
        "x = __import__('os')",
        "import os\nx = os.getcwd()",
        "x = eval('1')",
        "x = '{0.__class__}'.format(1)",
        "x = getattr((), '__class__')",
        "x = (lambda: 1).__globals__",
        "x = f'{1!r}'",
        "x = f'{1:9999999999}'",
        "x = 'a' * 10**9",
        "x = 'a' * 1000000000",
        "x = [0] * 1000000000",
        "x = 2 ** 100000",
        "y = 'a'\nfor _ in range(100):\n    y = y + y\nx = y",
        "y = 9\nfor _ in range(100):\n    y = y * y\nx = y",
        "y = []\nfor _ in range(100):\n    y.append(1)\n    y.extend(y)\nx = y",
        "x = list(range(1000000000000))",
        "x = list(zip(*[range(9999)] * 9999))",
        "x = str([[0] * 9999] * 9999)",
        "def f(): return f()\nx = f()",
        "x = [1][5]",
        "x = {}['a']",
        "x = 1 // 0",
        "x = '%s' % 1",
        "class A(dict):\n    pass\nx = A()",
        "with open('f') as x:\n    pass",
        "x = yield_()",
        "def f():\n    break\nx = f()",
        "def f():\n    continue\nx = f()",
        "x = (y := 1)",
        "x = min([])",
        "x = next(iter([]))",
        "class A:\n    a: int\nx = A()",
        "class A:\n    a: int\nx = A(1, 2)",
        "class A:\n    a: int\nx = A(b=1)",
        "class A:\n    a: int\nx = A(1).b",
        "class A:\n    a: int\nx = A(1).__class__",
        "class A:\n    a: int\nx = A(1)\nx.a.real = 3",
    ],
)
def test_a_value_that_is_not_plain_is_unknown(text: str) -> None:
    assert "x" not in evaluate_lists(text, {})


def test_loops_end_as_in_python() -> None:
    text = "x = 0\nwhile x < 3:\n    x += 1\n    if x == LAST:\n        break\nelse:\n    x = 9\n"
    assert [evaluate_lists(text.replace("LAST", last), {})["x"] for last in ("2", "5")] == [2, 9]
    text = "x = 0\nfor one in (1, 2, 3):\n    if one == 2:\n        continue\n    x += one\nelse:\n    x += 10\n"
    assert evaluate_lists(text, {})["x"] == 14


def test_endless_work_ends() -> None:
    assert evaluate_lists("y = 1\nx = 0\nwhile True:\n    x += 1\n", {}, 10_000) == {"y": 1}


@pytest.mark.parametrize("text", ["kernels = {", "\0", "x = " + "(" * 3000])
def test_another_text(text: str) -> None:
    with pytest.raises(UnknownPythonError, match="not Python"):
        evaluate_lists(text, {})


def test_a_record_keeps_its_class() -> None:
    found = evaluate_lists("class A:\n    a: int = 3\nx = A()\n", {})
    assert isinstance(found["A"], PythonClass)
    assert isinstance(found["x"], PythonInstance)
    assert found["x"].fields == {"a": 3}
