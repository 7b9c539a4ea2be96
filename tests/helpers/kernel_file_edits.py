"""Texts of kernel files after edits."""

from __future__ import annotations

from collections.abc import Iterable

from ckwatch.workspace.toml import TomlFile
from ckwatch_lsp.kernel_files.language.edits import KernelFileEdit


def applied(text: str, file: TomlFile, edits: Iterable[KernelFileEdit]) -> str:
    """The text after edits that do not overlap; of several at one place the first one comes first."""
    spans = [(file.offset(edit.range.start), file.offset(edit.range.end), edit.text) for edit in edits]
    spans.sort(key=lambda span: (span[0], span[1]))
    for start, end, new in spans[::-1]:
        text = text[:start] + new + text[end:]
    return text
