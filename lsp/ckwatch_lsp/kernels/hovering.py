"""What stands at a place of a kernel file, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckwatch.wire.language import Key, ParameterDetail, RuleDetail
from ckwatch_lsp.kernel_file.toml_text import toml_value

RULES_SHOWN = 12


def key_text(key: Key) -> str:
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
