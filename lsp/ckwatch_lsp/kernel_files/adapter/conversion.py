"""Converts completions, symbols, folds, edits and hovers of kernel files to the protocol's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch.wire.language import KeyDescription, ParameterDetail, RuleDetail
from ckwatch.workspace.toml import toml_value
from ckwatch_lsp.kernel_files.language.completion import KernelFileCandidate
from ckwatch_lsp.kernel_files.language.edits import KernelFileEdit
from ckwatch_lsp.session.documents import TextDocument


def item(document: TextDocument, candidate: KernelFileCandidate, position: Position) -> types.CompletionItem:
    """A candidate; what the rules refuse is struck through."""
    reach = candidate.range
    if reach.start.line != reach.end.line or not reach.holds(position):
        reach = Range(position, position)
    doc = types.MarkupContent(types.MarkupKind.Markdown, candidate.doc) if candidate.doc else None
    return types.CompletionItem(
        label=candidate.label,
        kind=candidate.kind,
        detail=candidate.detail or None,
        documentation=doc,
        sort_text=f"{candidate.order:05}",
        filter_text=candidate.filter or None,
        text_edit=types.TextEdit(document.codec.encode_range(reach), candidate.text),
        tags=[types.CompletionItemTag.Deprecated] if candidate.refused else None,
    )


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


def parameter_text(
    name: str, detail: ParameterDetail | None, default: Any, others: Sequence[tuple[str, int]], missing_in: str
) -> str:
    """A parameter: what it means, what `[defaults]` says, values of other instances, and the rules it takes part in.

    `others` are values of the file as they are written, with how often each stands there. `missing_in` is the template
    that does not mention it, empty where it does or where that is not known.
    """
    head = f"parameter `{name}`"
    if detail is None:
        return f"{head}\n\n`{missing_in}` does not mention it." if missing_in else head
    parts = [f"{head}: {detail.kind}" if detail.kind else head, detail.doc]
    if detail.default is not None:
        parts.append("Optional.")
    if default is not None:
        parts.append(f"`{toml_value(default)}` in `[defaults]`.")
    if len(others) > 1:
        parts.append("In this file: " + ", ".join(f"`{text}` ({count})" for text, count in others[:8]))
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
