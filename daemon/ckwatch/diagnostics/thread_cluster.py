"""The two conditions on thread-cluster lengths, which CK states about descriptors and sequences.

`ThreadGroupTensorSliceTransfer_*` asserts that the block's slice is the threads' slices times the cluster
(`is_same<BlockSliceLengths, decltype(thread_slice_lengths * ThreadClusterLengths{})>`), and that the block has as many
threads as the cluster. Neither names a parameter: which transfer it is follows from the template backtrace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from ckwatch.diagnostics.clang_text import ClangMessage
from ckwatch.diagnostics.expression import spelled
from ckwatch.diagnostics.finding import Finding
from ckwatch.diagnostics.parameters import InstanceParameters, shown
from ckwatch.diagnostics.requirement import Requirement
from ckwatch.model.kernel import ParameterValue

SLICES: Mapping[str, tuple[str, str, str]] = {
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": ("KPerBlock", "MPerBlock", "AK1"),
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": ("KPerBlock", "NPerBlock", "BK1"),
}
"""The parameters that give a block's slice: (first / third, second, third)."""


def thread_cluster_finding(
    requirement: Requirement, message: ClangMessage, parameters: InstanceParameters, statements: Sequence[str]
) -> Finding | None:
    """What a failed condition on a thread cluster says about the instance; None when it is another condition."""
    names = requirement.names
    about_slice = "BlockSliceLengths" in names
    if not about_slice and not any(name.startswith("thread_cluster_desc") for name in names):
        return None
    candidates = parameters.meant_by("ThreadClusterLengths", statements)
    cluster = parameters.blamed(_printed_in(message, candidates, parameters) or candidates)
    lengths = parameters.values.get(cluster) if cluster else None
    if cluster is None or not isinstance(lengths, tuple):
        return None
    return _slice(requirement, parameters, cluster, lengths) if about_slice else _size(parameters, cluster, lengths)


def _slice(requirement: Requirement, parameters: InstanceParameters, cluster: str, lengths: tuple[int, ...]) -> Finding:
    """The block's slice is no multiple of the cluster."""
    block = _first_sequence(requirement)
    names = [cluster]
    if block is None or len(block) != len(lengths) or 0 in lengths:
        outcome = f"{cluster} = {shown(lengths)}"
    else:
        rest = tuple(length % threads for length, threads in zip(block, lengths, strict=True))
        outcome = f"{shown(block)} % {shown(lengths)} = {shown(rest)}"
        names = [name for name, over in zip(SLICES.get(cluster, ()), rest, strict=False) if over] + names

    def mends(name: str, other: ParameterValue) -> bool:
        threads = other if name == cluster else lengths
        changed = block
        if name != cluster:
            sizes = [other if own == name else parameters.values.get(own) for own in SLICES[cluster]]
            k, rows, vector = (size if isinstance(size, int) else 0 for size in sizes)
            changed = (k // vector, rows, vector) if vector else None
        if changed is None or not isinstance(threads, tuple) or len(threads) != len(changed) or 0 in threads:
            return False
        return all(length % thread == 0 for length, thread in zip(changed, threads, strict=True))

    return Finding(
        "ck/thread-cluster-lengths",
        f"BlockSliceLengths % {cluster} == 0: {outcome}",
        tuple(names),
        parameters.blamed(names, mends),
        ("thread-cluster", cluster, "slice"),
    )


def _size(parameters: InstanceParameters, cluster: str, lengths: tuple[int, ...]) -> Finding:
    """The cluster has more threads than the block."""
    size = parameters.values.get("BlockSize", "BlockSize")
    product = " * ".join(str(length) for length in lengths)

    def mends(name: str, other: ParameterValue) -> bool:
        threads = other if name == "BlockSize" else size
        taken = lengths if name == "BlockSize" else other
        return isinstance(threads, int) and isinstance(taken, tuple) and prod(taken) <= threads

    names = ("BlockSize", cluster)
    return Finding(
        "ck/thread-cluster-size",
        f"product({cluster}) <= BlockSize: {product} = {prod(lengths)}, BlockSize = {shown(size)}",
        names,
        parameters.blamed(names, mends),
        ("thread-cluster", cluster, "size"),
    )


def _printed_in(message: ClangMessage, candidates: Sequence[str], parameters: InstanceParameters) -> tuple[str, ...]:
    """Those of `candidates` whose value the innermost instantiation prints as `Sequence<…>`."""
    first = next((note.text for note in message.notes if "in instantiation of" in note.text), "")
    printed = []
    for name in candidates:
        value = parameters.values[name]
        if isinstance(value, tuple) and re.search(rf"Sequence<{', '.join(map(str, value))}>", first):
            printed.append(name)
    return tuple(printed)


def _first_sequence(requirement: Requirement) -> tuple[int, ...] | None:
    match = re.search(r"Sequence<((?:\d+, )*\d+)>", spelled(requirement.substituted))
    return tuple(int(number) for number in match[1].split(", ")) if match else None
