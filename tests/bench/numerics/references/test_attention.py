"""The reference of attention, against sums worked out one by one, and where packed sequences begin."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.references import REFERENCES, Given
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from helpers.workspaces import INSTANCE, TOP, workspace

REFERENCE = REFERENCES["attention"]
OPERATION = '[operation]\nkind = "attention"\ndtype = "f16"\nhead = 4\nhead_v = 3\nlse = true\n'


def problem(root: Path, more: str, q: int = 5, k: int = 3, batch: int = 2) -> KernelProblem:
    sizes = {"batch": batch, "nhead_q": 4, "nhead_k": 2}
    if "variable" in more:
        longest = {"max_seqlen_q": q, "max_seqlen_k": k}
        sizes |= {"total_q": q + (batch - 1) * (q // 2), "total_k": k + (batch - 1) * (k // 2), **longest}
    else:
        sizes |= {"seqlen_q": q, "seqlen_k": k}
    shape = "".join(f"{name} = {value}\n" for name, value in sizes.items())
    text = TOP + OPERATION + more + INSTANCE + f"\n[[shape]]\n{shape}"
    kernel = workspace(root, {"k.kernel.toml": text}).kernels[0]
    return problem_of(kernel.operation, kernel.shapes[0], "gfx942")


class Attention:
    """Return the attention of a query, one key after the other."""

    def __init__(self, given: Given, more: str) -> None:
        self.given, self.more = given, more
        self.packed = "variable" in more

    def starts(self, side: str) -> list[int]:
        return [int(start) for start in self.given.integers(f"start_{side}")]

    def lengths(self, sequence: int) -> tuple[int, int]:
        if not self.packed:
            return self.given.sizes["seqlen_q"], self.given.sizes["seqlen_k"]
        q, k = self.starts("q"), self.starts("k")
        return q[sequence + 1] - q[sequence], k[sequence + 1] - k[sequence]

    def value(self, role: str, sequence: int, token: int, head: int, at: int) -> float:
        if self.packed:
            first = self.starts("q" if role == "q" else "k")[sequence]
            return float(self.given.read(role, first + token, head, at).item())
        return float(self.given.read(role, sequence, token, head, at).item())

    def sees(self, query: int, key: int, lengths: tuple[int, int]) -> bool:
        own = query if "top-left" in self.more else query + lengths[1] - lengths[0]
        if "causal" in self.more:
            return key <= own
        return "sliding" not in self.more or own - 1 <= key <= own + 2

    def score(self, sequence: int, query: int, head: int, key: int, lengths: tuple[int, int]) -> float:
        products = (
            self.value("q", sequence, query, head, at) * self.value("k", sequence, key, head // 2, at)
            for at in range(4)
        )
        score = sum(products) * 0.5
        if "soft_cap" in self.more:
            score = 2 * math.tanh(score / 2)
        if "elementwise" in self.more:
            first = self.starts("q")[sequence] if self.packed else 0
            place = (head, first + query, key) if self.packed else (sequence, head, query, key)
            score += float(self.given.read("bias", *place).item())
        if "alibi" in self.more:
            slope = float(self.given.read("slopes", head).item())
            score += slope * (key if "causal" in self.more else -abs(query + lengths[1] - lengths[0] - key))
        return score

    def row(self, sequence: int, query: int, head: int) -> tuple[list[float], float]:
        lengths = self.lengths(sequence)
        keys = [key for key in range(lengths[1]) if self.sees(query, key, lengths)]
        powers = {key: math.exp(self.score(sequence, query, head, key, lengths)) for key in keys}
        total = sum(powers.values())
        values = [
            sum(power * self.value("v", sequence, key, head // 2, at) for key, power in powers.items()) / (total or 1)
            for at in range(3)
        ]
        return values, math.log(total) if total else math.nan


@pytest.mark.parametrize(
    "more",
    [
        "",
        'mask = "causal"\n',
        'mask = "causal"\naligned = "top-left"\n',
        'mask = "sliding"\nwindow = [1, 2]\n',
        'bias = "elementwise"\n',
        'bias = "alibi"\n',
        'mask = "causal"\nbias = "alibi"\n',
        "soft_cap = 2.0\n",
        'lengths = "variable"\n',
        'lengths = "variable"\nmask = "causal"\nbias = "elementwise"\n',
    ],
)
@pytest.mark.parametrize(("q", "k"), [(5, 3), (3, 6), (1, 1)])
def test_rows_are_those_of_the_sums(tmp_path: Path, more: str, q: int, k: int) -> None:
    found = problem(tmp_path, more, q, k)
    given = Given(found, make_inputs(found, 7))
    attention = Attention(given, more)
    for role in ("o", "lse"):
        shape = given.shape(role)[:-1]
        rows = np.arange(math.prod(shape))
        expected = REFERENCE.expected(given, role, rows)
        for row in rows:
            index = [int(at) for at in np.unravel_index(row, shape)]
            if role == "lse":
                index[-2:] = reversed(index[-2:])
            *first, token, head = index
            sequence = (
                first[0] if first else next(at for at, start in enumerate(attention.starts("q")[1:]) if token < start)
            )
            token -= attention.starts("q")[sequence] if attention.packed else 0
            values, lse = attention.row(sequence, token, head)
            right = values if role == "o" else [lse]
            assert list(expected[row]) == pytest.approx(right, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(("q", "k", "batch"), [(1, 1, 1), (5, 7, 9), (100, 3, 4), (64, 64, 17)])
def test_packed_sequences_are_uneven_and_have_all_tokens(tmp_path: Path, q: int, k: int, batch: int) -> None:
    given = Given(problem(tmp_path, 'lengths = "variable"\n', q, k, batch), {})
    assert REFERENCE.contents is not None
    for seed in range(9):
        contents = REFERENCE.contents(given, seed)
        for side, longest in (("q", q), ("k", k)):
            lengths = np.diff(contents[f"start_{side}"])
            assert contents[f"start_{side}"][[0, -1]].tolist() == [0, given.sizes[f"total_{side}"]]
            assert lengths.shape == (batch,)
            assert lengths.min() >= 0
            assert lengths.max() <= longest
        if batch == 17:
            assert len(set(np.diff(contents["start_q"]).tolist())) > 4


def test_tokens_behind_the_last_sequence_are_left_out(tmp_path: Path) -> None:
    found = problem(tmp_path, 'lengths = "variable"\n', 8, 8)
    inputs = dict(make_inputs(found, 1))
    inputs["SeqStartQ"][:] = [0, 3, 10]
    given = Given(found, inputs)
    assert REFERENCE.left_out is not None
    assert REFERENCE.left_out(given, "o").reshape(12, 4)[:, 0].tolist() == [False] * 10 + [True] * 2
    assert REFERENCE.left_out(given, "lse").reshape(4, 12)[0].tolist() == [False] * 10 + [True] * 2
    assert np.isnan(REFERENCE.expected(given, "o", np.array([4 * 11]))).all()
