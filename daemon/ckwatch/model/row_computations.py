"""Operations other than sums of products over fixed indices: attention, norms, products of groups.

It is computed row by row. A row are the elements of an output along its last axis; rows count through the other axes,
the last of them fastest. How a row follows from the inputs says a reference by name, one module of
`ckwatch.bench.numerics.references` and, for the standalone runner, one template in `runner/references`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ckwatch.model.contractions import EpilogueStep
from ckwatch.model.lazy_dataclass import dataclass

OptionValue = int | float | bool | str | tuple[int | str | tuple[int, ...] | tuple[str, ...], ...]
"""An option that is fixed when a kernel is compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowComputation:
    """A computation that is done row by row.

    `reference` names it. `tensors` says which tensor of the operation has which role in it; a role without one is
    absent. `sizes` are expressions of size arguments by the names that the reference has for them, `options` what is
    fixed when the kernel is compiled. `macs` is an expression for the multiply-adds of a call; 0 where only memory
    counts. `depth` says how often a result is rounded in the accumulator's precision: the length of its sums. `compute`
    is the dtype of the operands as they are multiplied. `scales`: roles whose inputs are scales. `steps` follow the
    sum, where the reference applies some, each with the role of its operand.
    """

    reference: str
    tensors: Mapping[str, str]
    macs: str
    depth: str
    compute: str
    sizes: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    scales: tuple[str, ...] = ()
    steps: tuple[EpilogueStep[str], ...] = ()
