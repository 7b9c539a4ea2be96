"""References that users write in Python: the sources of one, and the mistakes that show when it is called."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass

REFERENCE_LIMIT_S = 30.0
"""After which a call of a reference is ended."""


@dataclass(frozen=True, slots=True)
class SourceModule:
    """A Python module: the name that it is imported by, its absolute path and its text."""

    name: str
    path: str
    text: str
    is_package: bool = False


@dataclass(frozen=True, slots=True)
class PythonReference:
    """The function `function` of the first of `modules`; the others lie beside it and are imported by it.

    `problem`: why it cannot be called, which is reported in a file; empty if it can. `makes_inputs`: the first module
    may have a function `inputs`. `takes`: the names of arguments of both, as far as the text tells.
    """

    function: str
    modules: tuple[SourceModule, ...]
    problem: str = ""
    makes_inputs: bool = False
    takes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of all that its results depend on beside its arguments."""
        digest = hashlib.sha256()
        texts = (text for module in self.modules for text in (module.name, module.text))
        for text in (self.function, self.problem, *texts):
            content = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(content) + content)
        return digest.hexdigest()

    @property
    def name(self) -> str:
        """`reference.py:softmax`."""
        file = self.modules[0].path.rpartition("/")[2] if self.modules else ""
        return f"{file}:{self.function}"


class MistakeKind(StrEnum):
    """Kinds of mistakes in a reference; a diagnostic's code is `reference/` and one of these."""

    RAISES = "raises"
    ARGUMENTS = "arguments"
    OUTPUTS = "outputs"
    NAN = "nan"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMistake:
    """A mistake in a reference, which showed on the problem `problem`.

    `path` and `line` (from 1) say where; without a path it stands nowhere in its modules. `detail`: the lines that led
    there.
    """

    kind: MistakeKind
    message: str
    path: str = ""
    line: int = 1
    detail: str = ""
    problem: str = ""

    @property
    def sentence(self) -> str:
        """`reference.py:12: ValueError: …`."""
        return f"{self.path.rpartition('/')[2]}:{self.line}: {self.message}" if self.path else self.message
