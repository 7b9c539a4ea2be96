"""Converts completions, symbols, folds, edits and hovers of kernel files to the protocol's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsprotocol import types

from ckwatch.wire.language import KeyDescription, ParameterDetail, RuleDetail
from ckwatch_lsp.kernel_files.language.edits import KernelFileEdit
from ckwatch_lsp.session.documents import TextDocument


def text_edits(document: TextDocument, edits: Iterable[KernelFileEdit]) -> dict[str, list[types.TextEdit]]:
    """Edits of a document, by its URI."""
    return {document.uri: [types.TextEdit(document.codec.encode_range(one.range), one.text) for one in edits]}


RULES_SHOWN = 12


def key_text(key: KeyDescription) -> str:
    """A key: what it means, its type, what it may be."""
    parts = [f"`{key.path}`: {key.type}{', required' if key.required else ''}", key.doc]
    if key.values:
        parts.append("One of " + ", ".join(f"`{value}`" for value in key.values) + ".")
    if key.default:
        parts.append(f"Default: `{key.default}`.")
    return "\n\n".join(part for part in parts if part)


def parameter_text(name: str, detail: ParameterDetail | None, facts: Iterable[str]) -> str:
    """A parameter: what it means, facts about it where the cursor is, and the rules it takes part in."""
    if detail is None:
        return "\n\n".join([f"parameter `{name}`", *facts])
    parts = [f"parameter `{name}`: {detail.kind}" if detail.kind else f"parameter `{name}`", detail.doc]
    if detail.default is not None:
        parts.append(f"Default: `{detail.default}`." if detail.default else "Optional.")
    parts += facts
    if detail.values:
        parts.append("One of " + ", ".join(f"`{value}`" for value in detail.values) + ".")
    if detail.rules:
        parts.append(_rules(detail.rules))
    return "\n\n".join(part for part in parts if part)


def _rules(rules: Sequence[RuleDetail]) -> str:
    lines = ["It takes part in the rules", ""]
    lines += [f"- `{rule.slug}`: `{rule.condition}`. {rule.explanation}" for rule in rules[:RULES_SHOWN]]
    if len(rules) > RULES_SHOWN:
        lines.append(f"- and {len(rules) - RULES_SHOWN} more")
    return "\n".join(lines)
