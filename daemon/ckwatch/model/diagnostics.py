"""Diagnostics: messages at a place in a file, with related places and fixes."""

from __future__ import annotations

from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.names import in_message
from ckwatch.model.text import Span


class Severity(StrEnum):
    """As in the Language Server Protocol."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


class Source(StrEnum):
    """The stage that found it."""

    KERNEL_FILE = "kernel-file"
    WORKSPACE = "workspace"
    JINJA = "jinja"
    RULE = "rule"
    CLANG = "clang"
    NVCC = "nvcc"
    LINKER = "linker"
    HOST = "host"
    PERFORMANCE = "performance"
    REFERENCE = "reference"
    BENCHMARK = "benchmark"
    VERIFY = "verify"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Related:
    """One link of the chain that explains a diagnostic: a macro call, a CK header, an instantiation."""

    message: str
    span: Span | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", in_message(self.message))


@dataclass(frozen=True, slots=True)
class Fix:
    """Replace the text at `span` by `text`; an empty span inserts."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message at one place.

    `code` is a stable, documented identifier such as `rule/m-per-block` or `clang/undeclared_var_use`. `detail`
    holds the full text where `message` was shortened. `units` names the units in which it arises, and `unit_count`
    is the number of units that were checked ("fails in 3 of 24 instances"). `approximate` is true where the
    source map could not give an exact place. `stale`: it is about an input that has been replaced; its units are being
    worked on. `toolchains` names those that report an error, where it was looked for with others, too, and not all do.
    """

    severity: Severity
    source: Source
    code: str
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    detail: str = ""
    fixes: tuple[Fix, ...] = ()
    units: tuple[str, ...] = ()
    unit_count: int = 0
    approximate: bool = False
    stale: bool = False
    toolchains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", in_message(self.message))
