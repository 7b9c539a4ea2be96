"""What a template renders to, told by the suffix before `.j2`."""

from __future__ import annotations

from enum import StrEnum


class Language(StrEnum):
    """A language that can be compiled, or will be (`CU`)."""

    HIP = "hip"
    CPP = "cpp"
    CU = "cu"

    @property
    def source_name(self) -> str:
        """The name under which a source is compiled, and that its log calls it."""
        return f"kernel.{self.value}"


def language_of(template: str) -> Language:
    """The language of a template's name, `ck/gemm_universal.hip.j2`. Raises ValueError for one not known."""
    stem, dot, suffix = template.removesuffix(".j2").rpartition(".")
    if template.endswith(".j2") and stem and dot and suffix in {language.value for language in Language}:
        return Language(suffix)
    raise ValueError(f"'{template}' does not say what it renders to: its name must end in .hip.j2, .cpp.j2 or .cu.j2")
