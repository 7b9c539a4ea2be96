"""Explains compiler errors inside CK: the condition, its values, and the parameters of the instance that it concerns.

Three sources: a failed `static_assert`, whose condition names the parameters; `CK_ERROR_PATTERNS`, a table of other
errors that follow from a parameter without naming it; and the two conditions on thread-cluster lengths, which CK
states about descriptors and sequences. `ThreadGroupTensorSliceTransfer_*` asserts that the block's slice is the
threads' slices times the cluster
(`is_same<BlockSliceLengths, decltype(thread_slice_lengths * ThreadClusterLengths{})>`),
and that the block has as many threads as the cluster. Neither names a parameter: which transfer it is follows from the
template backtrace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from ckwatch.checks.ck_parameters import CK_SPELLINGS, InstanceParameters
from ckwatch.checks.clang_output import ClangMessage
from ckwatch.checks.cpp_expression import spelled
from ckwatch.checks.parameter_values import value_words
from ckwatch.checks.places import ReadLine
from ckwatch.checks.static_assertion import FailedRequirement, read_requirement, statement
from ckwatch.model.kernels import ParameterValue, is_integers
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CkFinding:
    """A mistake in the instance. `parameters` are those of the condition, `blamed` the one to look at first.

    `key` is equal for the repeats of one mistake. `formula`: the message is the condition with its values
    alone.
    """

    code: str
    message: str
    parameters: tuple[str, ...]
    blamed: str | None
    key: tuple[str, ...]
    formula: bool = False


SLICES: Mapping[str, tuple[str, str, str]] = {
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": ("KPerBlock", "MPerBlock", "AK1"),
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": ("KPerBlock", "NPerBlock", "BK1"),
}
"""The parameters that give a block's slice: (first / third, second, third)."""


def thread_cluster_finding(
    requirement: FailedRequirement, message: ClangMessage, parameters: InstanceParameters, statements: Sequence[str]
) -> CkFinding | None:
    """Return the finding of a failed condition on a thread cluster; None for any other condition."""
    names = requirement.names
    about_slice = "BlockSliceLengths" in names
    if not about_slice and not any(name.startswith("thread_cluster_desc") for name in names):
        return None
    candidates = parameters.meant_by("ThreadClusterLengths", statements)
    cluster = parameters.blamed(_printed_in(message, candidates, parameters) or candidates)
    lengths = parameters.values.get(cluster) if cluster else None
    if cluster is None or not is_integers(lengths):
        return None
    return (
        _slice_finding(requirement, parameters, cluster, lengths)
        if about_slice
        else _size_finding(parameters, cluster, lengths)
    )


def _slice_finding(
    requirement: FailedRequirement, parameters: InstanceParameters, cluster: str, lengths: tuple[int, ...]
) -> CkFinding:
    """The block's slice is not a multiple of the cluster."""
    printed = re.search(r"Sequence<((?:\d+, )*\d+)>", spelled(requirement.substituted))
    block = tuple(map(int, printed[1].split(", "))) if printed else None
    names = [cluster]
    if block is None or len(block) != len(lengths) or 0 in lengths:
        outcome = f"{cluster} = {value_words(lengths)}"
    else:
        rest = tuple(length % threads for length, threads in zip(block, lengths, strict=True))
        outcome = f"{value_words(block)} % {value_words(lengths)} = {value_words(rest)}"
        names = [name for name, over in zip(SLICES.get(cluster, ()), rest, strict=False) if over] + names

    def fixes(name: str, other: ParameterValue) -> bool:
        threads = other if name == cluster else lengths
        changed = block
        if name != cluster:
            sizes = [other if own == name else parameters.values.get(own) for own in SLICES[cluster]]
            k, rows, vector = (size if isinstance(size, int) else 0 for size in sizes)
            changed = (k // vector, rows, vector) if vector else None
        if changed is None or not is_integers(threads) or len(threads) != len(changed) or 0 in threads:
            return False
        return all(length % thread == 0 for length, thread in zip(changed, threads, strict=True))

    return CkFinding(
        "ck/thread-cluster-lengths",
        f"BlockSliceLengths % {cluster} == 0: {outcome}",
        tuple(names),
        parameters.blamed(names, fixes),
        ("thread-cluster", cluster, "slice"),
        formula=True,
    )


def _size_finding(parameters: InstanceParameters, cluster: str, lengths: tuple[int, ...]) -> CkFinding:
    """The cluster has more threads than the block."""
    size = parameters.values.get("BlockSize", "BlockSize")
    product = " * ".join(str(length) for length in lengths)

    def fixes(name: str, other: ParameterValue) -> bool:
        threads = other if name == "BlockSize" else size
        taken = lengths if name == "BlockSize" else other
        return isinstance(threads, int) and is_integers(taken) and prod(taken) <= threads

    names = ("BlockSize", cluster)
    return CkFinding(
        "ck/thread-cluster-size",
        f"product({cluster}) <= BlockSize: {product} = {prod(lengths)}, BlockSize = {value_words(size)}",
        names,
        parameters.blamed(names, fixes),
        ("thread-cluster", cluster, "size"),
        formula=True,
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


@dataclass(frozen=True, slots=True)
class CkErrorPattern:
    """An error that follows from parameters without naming them.

    `text` is searched in the error. `parameters` is a regular expression over the instance's parameters, `explanation`
    may name parameters and groups of `text` in braces; `equal_to` names a group whose number the parameter's value
    equals, where that tells which parameter it was.
    """

    text: re.Pattern[str]
    code: str
    parameters: str
    explanation: str
    equal_to: str = ""


CK_ERROR_PATTERNS: tuple[CkErrorPattern, ...] = (
    # blockwise_gemm_pipeline_xdlops_v3.hpp (v4, v5 likewise): the primary template is empty, and only the scheduler
    # that it supports is specialised. Every use of the pipeline then fails.
    CkErrorPattern(
        re.compile(
            r"no (?:member|type|template) named '\w+' in 'ck::BlockwiseGemm\w*_pipeline_(?P<version>\w+?)<"
            r"ck::BlockGemmPipelineScheduler::(?P<scheduler>\w+),"
        ),
        "ck/pipeline-scheduler",
        "BlkGemmPipelineVer|BlkGemmPipeSched",
        "the block GEMM pipeline {version} has no {scheduler} form",
    ),
    CkErrorPattern(
        re.compile(r"'(?:ck::)?vector_type<(?P<type>[^,<>]+), (?P<width>\d+)(?:, void)?>'"),
        "ck/vector-width",
        r"\w*ScalarPerVector\w*|AK1|BK1",
        "CK has no vector of {width} × {type}",
        equal_to="width",
    ),
    # amd_buffer_addressing_builtins.hpp lists the widths of each type.
    CkErrorPattern(
        re.compile(r"is_same<(?P<type>\w+), \w+>::value && \((?P<width>\d+) == 1 \|\|"),
        "ck/vector-width",
        r"\w*ScalarPerVector\w*|AK1|BK1",
        "CK has no buffer access of {width} × {type}",
        equal_to="width",
    ),
    CkErrorPattern(
        re.compile(r"local memory \((?P<size>\d+)\) exceeds limit \((?P<limit>\d+)\)"),
        "ck/lds-size",
        "MPerBlock|NPerBlock|KPerBlock|BlkGemmPipelineVer",
        "LDS: {size} bytes needed, {arch} has {limit}",
    ),
    CkErrorPattern(
        re.compile(r"(?:scalar|vector) registers \((?P<size>\d+)\) exceeds limit \((?P<limit>\d+)\)"),
        "ck/registers",
        "MPerBlock|NPerBlock|MXdlPerWave|NXdlPerWave",
        "registers: {size} needed, {arch} has {limit}",
    ),
    CkErrorPattern(
        re.compile(r"'GetMfma<(?P<type>[^,<>]+), (?P<m>\d+), (?P<n>\d+)\b"),
        "ck/mfma-shape",
        "MPerXDL|NPerXDL",
        "CK has no MFMA instruction for MPerXdl = {m}, NPerXdl = {n} with {type}",
    ),
)


def find_ck_finding(
    message: ClangMessage, parameters: InstanceParameters, arch: str, read_line: ReadLine
) -> CkFinding | None:
    """Return the finding about the instance in `message`, or None if the message is not understood."""
    requirement = read_requirement(message, read_line)
    finding = None if requirement is None else _finding_of_requirement(requirement, message, parameters, read_line)
    return finding or _finding_of_pattern(message, parameters, arch)


def backtrace_statements(message: ClangMessage, read_line: ReadLine) -> list[str]:
    """The header statements along the template backtrace, innermost first, without the failing line itself."""
    found = []
    for note in message.notes:
        if note.position is not None and "requested here" in note.text:
            text = statement(note.path, note.position.line - 1, read_line)
            if text:
                found.append(text)
    return found


def _finding_of_requirement(
    requirement: FailedRequirement, message: ClangMessage, parameters: InstanceParameters, read_line: ReadLine
) -> CkFinding | None:
    statements = backtrace_statements(message, read_line)
    special = thread_cluster_finding(requirement, message, parameters, statements)
    if special is not None:
        return special
    meant = {name: parameters.meant_by(name, statements) for name in requirement.names}
    meant = {name: own for name, own in meant.items() if own}
    if not meant:
        return None
    names = tuple(dict.fromkeys(own for found in meant.values() for own in found))
    single = {
        name: own
        for name in meant
        if (own := parameters.same_as(name, statements)) is not None and _agrees(requirement, name, own, parameters)
    }

    def fixes(name: str, other: ParameterValue) -> bool:
        if not isinstance(other, int):
            return False
        values: dict[str, int] = {}
        for header_name, own in single.items():
            value = other if own == name else parameters.values[own]
            if isinstance(value, int):
                values[header_name] = value
        return requirement.holds_with(values) is True

    condition = tuple(
        CK_SPELLINGS.get(single[token], single[token]) if token in single else token for token in requirement.symbolic
    )
    text = spelled(condition)
    canonical = tuple(single.get(token, token) for token in requirement.symbolic)
    blamed = parameters.blamed(tuple(single.values()) or names, fixes)
    outcome = requirement.outcome(condition)
    return CkFinding(
        f"ck/{_slug(blamed or 'condition')}",
        f"{text}: {outcome}",
        names,
        blamed,
        ("requirement", *sorted(canonical), outcome if len(single) == 0 else ""),
        formula=True,
    )


def _agrees(requirement: FailedRequirement, name: str, own: str, parameters: InstanceParameters) -> bool:
    """Return True if clang's value for `name` is the instance's value for `own` (or clang printed none)."""
    bound = requirement.bindings.get(name)
    if bound is None:
        return True
    value = parameters.values[own]
    return "".join(bound) == value_words(value)


def _finding_of_pattern(message: ClangMessage, parameters: InstanceParameters, arch: str) -> CkFinding | None:
    for pattern in CK_ERROR_PATTERNS:
        match = pattern.text.search(message.text)
        if match is None:
            continue
        names = [name for name in parameters.values if re.fullmatch(pattern.parameters, name)]
        if pattern.equal_to:
            width = int(match[pattern.equal_to])
            names = [name for name in names if _mentions(parameters.values[name], width)]
        if not names and pattern.parameters:
            continue
        values: Mapping[str, str] = {
            "arch": arch,
            **{name: value_words(value) for name, value in parameters.values.items()},
            **{name: value for name, value in match.groupdict().items() if value is not None},
        }
        text = pattern.explanation.format_map(_KeepsUnknownNames(values))
        return CkFinding(pattern.code, text, tuple(names), parameters.blamed(names), (pattern.code, text))
    return None


class _KeepsUnknownNames(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return key


def _mentions(value: ParameterValue, number: int) -> bool:
    return number in value if isinstance(value, tuple) else value == number


def _slug(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).replace("_", "-").lower()
