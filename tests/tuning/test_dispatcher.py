"""The decision tree of a dispatcher, and what is written of it."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from ckwatch.tuning.dispatcher import Dispatcher, Leaf, Split, cpp_text, dispatcher, python_text

SIZES = {
    f"{m}x{n}": {"M": m, "N": n, "K": 512} for m, n in itertools.product([2**power for power in range(13)], (256, 8192))
}


def times_of(m: int, n: int) -> dict[str, float]:
    """`small` is best for few rows, `large` for many tiles; `odd` never, and `wide` refuses few columns."""
    best = "small" if m <= 48 else "large" if m * n > 100_000 else "middle"
    return {one: 10.0 if one == best else 15.0 for one in ("small", "large", "middle", "odd")} | (
        {"wide": 12.0} if n > 1000 else {}
    )


def found() -> Dispatcher:
    return dispatcher({name: times_of(own["M"], own["N"]) for name, own in SIZES.items()}, SIZES)


def test_every_shape_gets_its_best_instance() -> None:
    chosen = found()
    assert set(chosen.instances) == {"small", "middle", "large"}
    for own in SIZES.values():
        assert times_of(own["M"], own["N"])[chosen.choose(own)] == 10.0
    assert chosen.seen == 1.0


def test_shapes_between_those_that_were_seen_get_theirs_too() -> None:
    chosen = found()
    rng = random.Random(2)
    own = [{"M": rng.randint(1, 4096), "N": rng.choice([256, 8192]), "K": 512} for _ in range(200)]
    best = sum(times_of(one["M"], one["N"])[chosen.choose(one)] == 10.0 for one in own)
    assert best > 180
    assert chosen.unseen is not None
    assert (chosen.unseen.shapes, chosen.unseen.refused) == (len(SIZES), 0)
    assert chosen.unseen.mean < 1.1


def test_what_is_called_often_decides() -> None:
    times = {"a": {"p": 10.0, "q": 11.0}, "b": {"p": 11.0, "q": 10.0}}
    sizes = {name: {"M": 4} for name in times}
    for often, instance in (("a", "p"), ("b", "q")):
        assert dispatcher(times, sizes, {often: 100.0}).choose({"M": 4}) == instance


def test_an_instance_that_refuses_a_shape_is_not_chosen_for_it() -> None:
    times = {str(size): {"fast": 1.0, "any": 2.0} if size % 2 else {"any": 2.0} for size in range(1, 40)}
    chosen = dispatcher(times, {name: {"M": int(name)} for name in times})
    for name, own in times.items():
        assert chosen.choose({"M": int(name)}) in own


@pytest.mark.parametrize("times", [{}, {"a": {}}])
def test_shapes_without_times_are_an_error(times: dict[str, dict[str, float]]) -> None:
    with pytest.raises(ValueError, match="no shape with a time"):
        dispatcher(times, {"a": {"M": 1}})


def test_the_python_module_chooses_as_the_tree_does() -> None:
    chosen = found()
    module: dict[str, object] = {}
    exec(python_text(chosen, 'with """quotes""" and \\'), module)  # noqa: S102  # what was just written
    assert module["INSTANCES"] == chosen.instances
    choose = module["choose"]
    assert callable(choose)
    for m, n in itertools.product((1, 33, 70, 5000), (100, 9000)):
        own = {"M": m, "N": n, "K": 512}
        assert choose(**own) == chosen.choose(own)


def test_the_header_has_the_same_tree() -> None:
    tree = Split(("M", "N"), 4096, Leaf("1x1 a"), Split(("K",), 64, Leaf("1x1-a"), Leaf('"')))
    text = cpp_text(
        Dispatcher(("M", "N", "K"), ("1x1 a", "1x1-a", '"'), tree, 0.02, True, 1.0, None), "1 gemm", "about"
    )
    assert "namespace k_1_gemm_dispatch {" in text
    assert re.findall(r"^    (k_\w*),$", text, re.MULTILINE) == ["k_1x1_a", "k_1x1_a_2", "k_"]
    assert '    "\\"",\n' in text
    body = text[text.index("    if (") : text.index("\n}\n\n}")]
    assert body == (
        "    if (M * N <= 4096) {\n        return Instance::k_1x1_a;\n    }\n"
        "    if (K <= 64) {\n        return Instance::k_1x1_a_2;\n    }\n    return Instance::k_;"
    )
