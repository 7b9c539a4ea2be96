"""The rules for people: what one parameter takes part in, and the page `docs/rules.md`."""

from __future__ import annotations

from ckwatch.rules.checking import OPERATIONS
from ckwatch.rules.model import DeviceOperation, Rule

_HEAD = """\
# Instance rules

What makes Composable Kernel reject an instance is checked before a compiler runs. Each rule mirrors a check in CK's
headers, or something that cannot be instantiated, and names it. A rule is silent when it cannot read an argument (an
alias, an expression in C++). **A rule never rejects an instance that compiles**; warnings are for instances that
compile and do not do what they say. The diagnostic's code is `rule/` and the rule's name.

A condition reads as in C++: `/` is integer division. Names that are no template parameters are defined in a table after
the rules of their operation. "Host and device" says which compiler passes would find the mistake: most are
found only by the device pass, seconds later.

This page is written by `python -m ckwatch.rules`. How the rules were compared with the compiler is in
`benchmarks/rules_against_hipcc.py`.
"""


def rules_of(device_operation: str, parameter: str) -> tuple[Rule, ...]:
    """The rules that `parameter` takes part in, through definitions too; none for an unknown operation."""
    operation = OPERATIONS.get(device_operation)
    if operation is None:
        return ()
    return tuple(rule for rule in operation.rules if parameter in operation.parameters_of(rule.names))


def page() -> str:
    """The text of `docs/rules.md`."""
    return "\n".join([_HEAD, *(_operation(operation) for operation in OPERATIONS.values())])


def _operation(operation: DeviceOperation) -> str:
    parts = [f"## {operation.name}\n", f"`{operation.header}`, Composable Kernel 7.2.\n"]
    parts += [_rule(rule) for rule in operation.rules]
    parts += ["### Definitions\n", "| name | formula | meaning |", "|---|---|---|"]
    parts += [
        f"| `{definition.name}` | `{definition.formula}` | {definition.meaning} |"
        for definition in operation.definitions.values()
    ]
    return "\n".join(parts) + "\n"


def _rule(rule: Rule) -> str:
    where = "code generation" if rule.codegen else "host and device" if rule.host else "device only"
    lines = [f"### `{rule.slug}`\n", f"`{rule.condition}`\n", rule.explanation, ""]
    if rule.when != "1":
        lines.append(f"- Applies when `{rule.when}`.")
    outcome = "found by " + where if rule.severity == "error" else "a warning: it compiles"
    if rule.asserted_by:
        outcome += ", unless the template itself asserts it, as `ck/gemm_universal.hip.j2` does; there it is an error"
    lines += [f"- Source: {rule.source}.", f"- {outcome[0].upper()}{outcome[1:]}.", ""]
    return "\n".join(lines)
