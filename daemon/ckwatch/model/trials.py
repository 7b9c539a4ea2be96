"""Problems to verify on as a worker gets them, which needs nothing of how they are chosen (`verification.problems`)."""

from __future__ import annotations

from enum import StrEnum

from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.lazy_dataclass import dataclass


class GapFill(StrEnum):
    """The content of the gaps that leading dimensions leave in the inputs."""

    NAN = "nan"
    INFINITY = "infinity"


class Contents(StrEnum):
    """The content of the inputs. `largest`: each row of X picks rows of W, whose elements are as large as a result may
    be; `signed scales`: scales of -1, 0 and 1. Those behind are drawn for a judge, of operations of any kind: random
    values, 4 or 1/1024 times as large, or with a factor from 1/8 to 8 that changes from row to row; with their rows in
    another order, or with another value in one place; 100 more; with NaN and infinities here and there."""

    RANDOM = "random"
    ZEROS = "zeros"
    ONES = "ones"
    LARGEST = "largest"
    SIGNED_SCALES = "signed scales"
    LARGE = "large values"
    SMALL = "small values"
    UNEVEN = "uneven rows"
    SHUFFLED = "rows in another order"
    ONE_CHANGED = "one element changed"
    SHIFTED = "values far from zero"
    NON_FINITE = "NaN and infinities"


GEMM_CONTENTS = (Contents.ZEROS, Contents.ONES, Contents.LARGEST, Contents.SIGNED_SCALES)
"""Contents that products of matrices are always tried with."""

LEFT_TO_THE_REFERENCE = (Contents.SHIFTED, Contents.NON_FINITE)
"""Contents that count for a candidate only where the kernel that it is judged against is right on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One problem to verify on. `name`, `shape`: as those of `VerifiedProblem`; `refusal`: why the instance does not
    support it, by documented rules, empty if it must not refuse it, None if it may; `offset`: elements by which the
    pointer of the buffer `off`, or all, are off their allocation's alignment; `workgroups`: how many are computed, None
    for all; `may_be_sampled`: some will do if there are many, and none needs what others do; `not_tried`: why none is.
    `dense`: the same problem without gaps, which inputs and reference are made for where the gaps are too large to be
    filled: nothing has written those. `hint`: what to do where the kernel need not support it. `seed`: of the inputs,
    where a judge has drawn the problem, which looks at the host's code and at streams, too. `memory`: tensors lie where
    those of earlier trials with this word did, if they are as large. `again`: an earlier trial with the same inputs,
    whose work must be done once more."""

    name: str
    shape: str
    problem: KernelProblem
    refusal: str | None = None
    gaps: GapFill = GapFill.NAN
    contents: Contents = Contents.RANDOM
    offset: int = 0
    off: str = ""
    workgroups: int | None = None
    may_be_sampled: bool = False
    not_tried: str = ""
    dense: KernelProblem | None = None
    hint: str = ""
    seed: int | None = None
    memory: str = ""
    again: str = ""

    @property
    def compared(self) -> KernelProblem:
        """The problem whose inputs and outputs are held in memory as a whole."""
        return self.problem if self.dense is None else self.dense

    def offset_of(self, buffer: str) -> int:
        """Elements by which the buffer's pointer is off."""
        return self.offset if self.off in ("", buffer) else 0
