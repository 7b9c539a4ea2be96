"""Finds the instance parameter that a name inside CK's headers stands for, and the one to blame.

CK renames its template parameters on the way down: `MPerXDL` becomes `MPerXdl` in the gridwise GEMM, `MXdlPerWave`
becomes `MRepeat` in the blockwise pipelines, and the block transfers know only `ThreadClusterLengths`. `ALIASES` lists
those names (CK 7.2, `include/ck/tensor_operation/gpu/{device/impl,grid,block,thread}`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ckwatch.checks.rules.rule import folded
from ckwatch.model.kernels import Kernel, ParameterValue, Unit

ALIASES: dict[str, str] = {
    "mrepeat": "MXdlPerWave",
    "nrepeat": "NXdlPerWave",
    "mperxdlops": "MPerXDL",
    "nperxdlops": "NPerXDL",
    "ak1value": "AK1",
    "ak1number": "AK1",
    "bk1value": "BK1",
    "bk1number": "BK1",
    "numthread": "BlockSize",
    "threadclusterlengths": r"\w*ClusterLengths\w*",
    "threadclusterarrangeorder": r"[AB]BlockTransferThreadClusterArrangeOrder",
    "srcdimaccessorder": r"[AB]BlockTransferSrcAccessOrder",
    "srcvectordim": r"[AB]BlockTransferSrcVectorDim",
    "srcscalarpervector": r"[AB]BlockTransferSrcScalarPerVector",
    "dstscalarpervector": r"[AB]BlockTransferDstScalarPerVector\w*|CDE?ShuffleBlockTransferScalarPerVectors?\w*",
}
"""Normalised name in CK's headers → regular expression over the instance parameters that have this value."""

DERIVED: dict[str, str] = {
    "threadclusterdesc": r"\w*ClusterLengths\w*",
    "threadslicelengths": r"\w*ClusterLengths\w*",
    "blockslicelengths": r"\w*ClusterLengths\w*",
    "slicelengths": r"\w*ClusterLengths\w*",
    "getnumofthread": "BlockSize",
    "mwaves": r"MPerBlock|MPerXDL|MXdlPerWave",
    "nwaves": r"NPerBlock|NPerXDL|NXdlPerWave",
    "kpack": "AK1|BK1",
    "kperthread": "KPerBlock",
}
"""Normalised name in CK's headers → the instance parameters from which its value is computed."""

CK_SPELLINGS = {"MPerXDL": "MPerXdl", "NPerXDL": "NPerXdl"}
"""How CK's own conditions spell parameters that the device operation spells otherwise."""

_SIDES = (
    ("A", re.compile(r"\ba_(?:blockwise|thread|block|grid)\w*|\bABlockTransfer\w*")),
    ("B", re.compile(r"\bb_(?:blockwise|thread|block|grid)\w*|\bBBlockTransfer\w*")),
    ("C", re.compile(r"\b(?:c|cde|ds)_\w*(?:shuffle|block|thread|grid)\w*|\bC(?:DE)?Shuffle\w*")),
)


class InstanceParameters:
    """The parameters of a unit's instance, as names inside CK's headers refer to them. `worked` are those with which
    it last compiled."""

    def __init__(self, unit: Unit, worked: Mapping[str, ParameterValue] | None = None) -> None:
        self.values = unit.instance.parameters
        self._worked = worked or {}
        self.spans = unit.instance.spans
        self.kernel: Kernel = unit.kernel
        self._instance = unit.instance.name
        self._by_name = {folded(name): name for name in self.values}

    def meant_by(self, name: str, statements: Sequence[str] = ()) -> tuple[str, ...]:
        """The instance parameters that `name` of a header stands for, () when it is none.

        `statements` are the header statements along the template backtrace, innermost first: they decide between the
        transfers of A, B and C, which share their code.
        """
        key = folded(name)
        if key in self._by_name:
            return (self._by_name[key],)
        pattern = ALIASES.get(key) or DERIVED.get(key)
        if pattern is None:
            return ()
        found = [own for own in self.values if re.fullmatch(pattern, own, re.IGNORECASE)]
        sided = [own for own in found if own[:1] == self.side(statements)]
        return tuple(sided or found)

    def same_as(self, name: str, statements: Sequence[str] = ()) -> str | None:
        """The one instance parameter whose value `name` of a header is; None when there is none, or several."""
        meant = () if folded(name) in DERIVED else self.meant_by(name, statements)
        return meant[0] if len(meant) == 1 else None

    def side(self, statements: Iterable[str]) -> str:
        """`A`, `B` or `C`: the transfer that the innermost telling statement belongs to; "" when none tells."""
        for statement in statements:
            named = [letter for letter, pattern in _SIDES if pattern.search(statement)]
            if len(named) == 1:
                return named[0]
        return ""

    def blamed(self, names: Sequence[str], fixes: Callable[[str, ParameterValue], bool] | None = None) -> str | None:
        """The parameter among `names` that is most plausibly wrong; None when `names` is empty.

        In this order: one that has a place in the kernel file; one that was changed since the unit compiled; one whose
        value in another instance of the kernel would fix the condition (`fixes`); the one whose value is rarest among
        the kernel's other instances; one that is no power of two; one of which a power of two less would fix it; the
        last one, as CK writes the most specific factor last.
        """
        known = [name for name in dict.fromkeys(names) if name in self.values]
        if not known:
            return None

        def rank(name: str) -> tuple[bool, bool, bool, float, bool, bool, int]:
            others = [
                instance.parameters[name]
                for instance in self.kernel.instances
                if instance.name != self._instance and name in instance.parameters
            ]
            value = self.values[name]
            different = [other for other in others if other != value]
            fixing = fixes is not None and any(fixes(name, other) for other in dict.fromkeys(different))
            rarity = len(different) / len(others) if others else 0.0
            less = (value >> by for by in range(1, value.bit_length())) if isinstance(value, int) else ()
            smaller = fixes is not None and any(fixes(name, other) for other in less)
            changed = name in self._worked and self._worked[name] != value
            odd = type(value) is int and value & (value - 1) != 0
            return name in self.spans, changed, fixing, rarity, odd, smaller, known.index(name)

        return max(known, key=rank)
