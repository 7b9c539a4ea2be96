"""A kind of operation: its keys in kernel files, its C arguments, and what it computes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import Generic, TypeVar, get_args

from ckwatch.model.kernels import Operation, ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.operations.tables import OperationTable
from ckwatch.workspace.problems import Problems

TableT = TypeVar("TableT", bound=OperationTable)

SizesFor = Callable[[Operation, int, int, int], dict[str, int]]
WrongSizes = Callable[[Mapping[str, int]], Iterator[tuple[str, str]]]
VerifiedSizes = Callable[[Operation, Mapping[str, ParameterValue]], Mapping[str, Mapping[str, int]]]
SpecialSizes = Callable[[Operation, int, int, int], Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationKind(Generic[TableT]):
    """A kind of `[operation]`. A module of this package makes one; `KINDS` lists them.

    `about` says in a line what it computes, `table` are its keys. `read` makes the operation of a table, or reports why
    there is none. `shape_docs` says what each size and runtime argument means, in their order; `*` stands for
    arguments that the kernel file names itself, `LD_*` for those that begin so. `tensors` are the names that templates
    have for its tensors.

    `sizes` and `runtime` are the arguments that shapes may give, `defaults` those of them that they need not; none of
    a kind whose kernel files name them.
    `may_be_zero`: sizes below their default that mean something: a stride of 0 repeats a row. `free_strides` may be
    anything, as long as no two elements of an output are one: matrices may lie within each other. `sizes_for` gives
    sizes that are a contraction of about M × N × K, to derive problems from; None where that cannot be said.
    `special_sizes` gives, by what they are called, further sizes to verify on, which say nothing of defaults: those
    that an operation has which is more than a product, for one that computes tiles of M × N × K. `verified_sizes`
    gives, by what they are called, the sizes that a unit of a kind that is no product is verified on, from its
    instance's parameters, the most telling first. `wrong_sizes` gives what is wrong with sizes beyond their least
    values, as the size's name and a message, the worst first.
    """

    about: str
    table: type[TableT]
    read: Callable[[Problems, TableT], Operation | None]
    shape_docs: Mapping[str, str]
    tensors: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    may_be_zero: frozenset[str] = frozenset()
    free_strides: frozenset[str] = frozenset()
    sizes_for: SizesFor | None = None
    special_sizes: SpecialSizes | None = None
    verified_sizes: VerifiedSizes | None = None
    wrong_sizes: WrongSizes | None = None

    @property
    def name(self) -> str:
        """The value of `kind` in kernel files."""
        return str(get_args(self.table.model_fields["kind"].annotation)[0])

    @property
    def outline(self) -> Operation | None:
        """Parts of an operation whose table has problems."""
        if not self.sizes:
            return None
        return Operation(self.name, (), (), "f32", self.sizes, self.runtime, size_defaults=self.defaults)

    def shape_doc(self, name: str) -> str:
        """Describe a size or runtime argument; of one that the kernel file names, the effect of `LD_*` or `*`."""
        return self.shape_docs[_known_as(name, self.shape_docs)]

    def is_free_stride(self, name: str) -> bool:
        """Return True if a stride may be anything."""
        return _known_as(name, self.free_strides) in self.free_strides


def _known_as(name: str, known: Collection[str]) -> str:
    """The name among `known` that ends with `*` and means `name`; `name` where there is none, or itself is known."""
    patterns = (pattern for pattern in known if pattern.endswith("*") and name.startswith(pattern[:-1]))
    return name if name in known else max(patterns, key=len, default=name)
