"""What a compiler error inside CK says about the instance: the condition, its values, and the parameters it concerns.

Two sources: a failed `static_assert`, whose condition names the parameters, and `PATTERNS`, a table of other errors
that follow from a parameter without naming it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.diagnostics.clang_text import ClangMessage
from ckwatch.diagnostics.expression import spelled
from ckwatch.diagnostics.finding import Finding
from ckwatch.diagnostics.parameters import SHOWN_AS, InstanceParameters, shown
from ckwatch.diagnostics.places import ReadLine
from ckwatch.diagnostics.requirement import Requirement, read_requirement, statement
from ckwatch.diagnostics.thread_cluster import thread_cluster_finding
from ckwatch.model.kernel import ParameterValue


@dataclass(frozen=True, slots=True)
class Pattern:
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


PATTERNS: tuple[Pattern, ...] = (
    # blockwise_gemm_pipeline_xdlops_v3.hpp (v4, v5 likewise): the primary template is empty, and only the scheduler
    # that it supports is specialised. Every use of the pipeline then fails.
    Pattern(
        re.compile(
            r"no (?:member|type|template) named '\w+' in 'ck::BlockwiseGemm\w*_pipeline_(?P<version>\w+?)<"
            r"ck::BlockGemmPipelineScheduler::(?P<scheduler>\w+),"
        ),
        "ck/pipeline-scheduler",
        "BlkGemmPipelineVer|BlkGemmPipeSched",
        "the block GEMM pipeline {version} has no {scheduler} form",
    ),
    Pattern(
        re.compile(r"'(?:ck::)?vector_type<(?P<type>[^,<>]+), (?P<width>\d+)(?:, void)?>'"),
        "ck/vector-width",
        r"\w*ScalarPerVector\w*|AK1|BK1",
        "CK has no vector of {width} × {type}",
        equal_to="width",
    ),
    # amd_buffer_addressing_builtins.hpp lists the widths of each type.
    Pattern(
        re.compile(r"is_same<(?P<type>\w+), \w+>::value && \((?P<width>\d+) == 1 \|\|"),
        "ck/vector-width",
        r"\w*ScalarPerVector\w*|AK1|BK1",
        "CK has no buffer access of {width} × {type}",
        equal_to="width",
    ),
    Pattern(
        re.compile(r"local memory \((?P<size>\d+)\) exceeds limit \((?P<limit>\d+)\)"),
        "ck/lds-size",
        "MPerBlock|NPerBlock|KPerBlock|BlkGemmPipelineVer",
        "LDS: {size} bytes needed, {arch} has {limit}",
    ),
    Pattern(
        re.compile(r"(?:scalar|vector) registers \((?P<size>\d+)\) exceeds limit \((?P<limit>\d+)\)"),
        "ck/registers",
        "MPerBlock|NPerBlock|MXdlPerWave|NXdlPerWave",
        "registers: {size} needed, {arch} has {limit}",
    ),
    Pattern(
        re.compile(r"'GetMfma<(?P<type>[^,<>]+), (?P<m>\d+), (?P<n>\d+)\b"),
        "ck/mfma-shape",
        "MPerXDL|NPerXDL",
        "CK has no MFMA instruction for MPerXdl = {m}, NPerXdl = {n} with {type}",
    ),
)


def find(message: ClangMessage, parameters: InstanceParameters, arch: str, read_line: ReadLine) -> Finding | None:
    """What `message` says about the instance, None when it says nothing that is understood."""
    requirement = read_requirement(message, read_line)
    finding = None if requirement is None else _of_requirement(requirement, message, parameters, read_line)
    return finding or _of_pattern(message, parameters, arch)


def backtrace_statements(message: ClangMessage, read_line: ReadLine) -> list[str]:
    """The header statements along the template backtrace, innermost first, without the failing line itself."""
    found = []
    for note in message.notes:
        if note.position is not None and "requested here" in note.text:
            text = statement(note.path, note.position.line - 1, read_line)
            if text:
                found.append(text)
    return found


def _of_requirement(
    requirement: Requirement, message: ClangMessage, parameters: InstanceParameters, read_line: ReadLine
) -> Finding | None:
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

    def mends(name: str, other: ParameterValue) -> bool:
        if not isinstance(other, int):
            return False
        values: dict[str, int] = {}
        for header_name, own in single.items():
            value = other if own == name else parameters.values[own]
            if isinstance(value, int):
                values[header_name] = value
        return requirement.holds_with(values) is True

    condition = tuple(
        SHOWN_AS.get(single[token], single[token]) if token in single else token for token in requirement.symbolic
    )
    text = spelled(condition)
    canonical = tuple(single.get(token, token) for token in requirement.symbolic)
    blamed = parameters.blamed(tuple(single.values()) or names, mends)
    outcome = requirement.outcome(condition)
    return Finding(
        f"ck/{_slug(blamed or 'condition')}",
        f"{text}: {outcome}",
        names,
        blamed,
        ("requirement", *sorted(canonical), outcome if len(single) == 0 else ""),
    )


def _agrees(requirement: Requirement, name: str, own: str, parameters: InstanceParameters) -> bool:
    """Whether clang's value for `name` is the instance's value for `own` (or clang printed none)."""
    bound = requirement.bindings.get(name)
    if bound is None:
        return True
    value = parameters.values[own]
    return "".join(bound) == shown(value)


def _of_pattern(message: ClangMessage, parameters: InstanceParameters, arch: str) -> Finding | None:
    for pattern in PATTERNS:
        match = pattern.text.search(message.text)
        if match is None:
            continue
        names = [name for name in parameters.values if re.fullmatch(pattern.parameters, name)]
        if pattern.equal_to:
            width = int(match[pattern.equal_to])
            names = [name for name in names if _mentions(parameters.values[name], width)]
        if not names and pattern.parameters:
            continue
        told: Mapping[str, str] = {
            "arch": arch,
            **{name: shown(value) for name, value in parameters.values.items()},
            **{name: value for name, value in match.groupdict().items() if value is not None},
        }
        text = pattern.explanation.format_map(_Known(told))
        return Finding(pattern.code, text, tuple(names), parameters.blamed(names), (pattern.code, text))
    return None


class _Known(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return key


def _mentions(value: ParameterValue, number: int) -> bool:
    return number in value if isinstance(value, tuple) else value == number


def _slug(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).replace("_", "-").lower()
