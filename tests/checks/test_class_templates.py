"""Parameters of class templates, and what uses of them have to say with newer headers."""

from __future__ import annotations

import pytest

from ckwatch.checks.class_templates import declared_templates, rewritten_uses, used_templates
from ckwatch.headers.masked_text import masked

OLD = """
template <typename A, typename B, typename C, typename Shape, typename Traits,
          Scheduler Scheduler_ = Scheduler::Intrawave, bool HasHotLoop_ = true, // of the loop
          TailNumber TailNum_ = TailNumber::Full, typename AElementWise_ = element_wise::PassThrough,
          typename ComputeDataType_ = A>
struct PipelineProblem : Base<A, B> {};
"""
NEW = """
template <typename As, typename B, typename C, typename Shape, typename Traits,
          Scheduler Scheduler_ = Scheduler::Intrawave, typename AElementWise_ = element_wise::PassThrough,
          typename ComputeDataType_ = As>
struct PipelineProblem
{};
"""
ANOTHER_ORDER = """
template <typename A, typename B, typename C, typename Shape, typename Traits,
          Scheduler Scheduler_ = Scheduler::Intrawave, typename ComputeDataType_ = A, bool HasHotLoop_ = true,
          TailNumber TailNum_ = TailNumber::Full, typename AElementWise_ = element_wise::PassThrough, int Depth>
class PipelineProblem final_ {};
class PipelineProblem {};
"""
MARKED = "write `PipelineProblem</* Depth */, /* As */, W>`"
GONE = "`PipelineProblem` no longer has `HasHotLoop_` and `TailNum_`"


def rewritten(old: str, new: str, use: str) -> list[str]:
    code = masked(use)
    names = used_templates(code)
    return rewritten_uses(code, declared_templates([old], names), declared_templates([new], names))


@pytest.mark.parametrize(
    ("new", "use", "expected"),
    [
        (NEW, "PipelineProblem<X, W, float, Shape, Traits, s, HasHotLoop, Tail>",
         [f"{GONE}; write `PipelineProblem<X, W, float, Shape, Traits, s>`"]),
        (NEW, "x::PipelineProblem<X, W, float, Tile<1, 2>, Traits, s, true, Full, Add, half> p; // one more",
         [f"{GONE}; write `PipelineProblem<X, W, float, Tile<1, 2>, Traits, s, Add, half>`"]),
        (NEW, "PipelineProblem<X, W, float, Shape, Traits, s>", []),
        (NEW, "Other<X>; // PipelineProblem<X, W, float, Shape, Traits, s, true, Full>", []),
        (OLD, "PipelineProblem<X, W, float, Shape, Traits, s, true, Full>", []),
        (NEW.replace("typename As,", "int Depth, typename As,"), "PipelineProblem<X, W>",  # unlike in name and place
         [f"{GONE.replace('has', 'has `A` and', 1)} and has `Depth` and `As` besides; {MARKED}"]),
        ("struct PipelineProblem {};", "PipelineProblem<X, W>", []),
    ],
)  # fmt: skip
def test_uses_say_what_newer_headers_want(new: str, use: str, expected: list[str]) -> None:
    assert rewritten(OLD, new, use) == expected


def test_parameters_that_have_moved_take_their_arguments_along() -> None:
    new = ANOTHER_ORDER.replace("final_", "")
    (sentence,) = rewritten(OLD, new, "PipelineProblem<X, W, float, Shape, Traits, s, true, Full, Add, half>")
    assert "has `Depth` besides and has its parameters in another order" in sentence
    assert sentence.endswith(
        "write `PipelineProblem<X, W, float, Shape, Traits, s, half, true, Full, Add, /* Depth */>`"
    )
