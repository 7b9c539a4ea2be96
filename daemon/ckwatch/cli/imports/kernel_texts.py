"""The text of a kernel file that an import writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ckwatch.model.kernels import ParameterValue
from ckwatch.workspace.toml import table_text, toml_string


def kernel_text(
    comment: str,
    template: str,
    operation: str,
    shapes: Sequence[Mapping[str, int | str]],
    instances: Mapping[str, Mapping[str, ParameterValue]],
    shown: Collection[str],
) -> str:
    """A kernel file. `operation` is the text of its table; `shown` are parameters that each instance says itself."""
    defaults = common_values(list(instances.values()), shown)
    blocks = [
        f"# {comment}\n",
        f"template = {toml_string(template)}\n",
        f"[operation]\n{operation}",
        *(f"[[shape]]\n{table_text(shape)}" for shape in shapes),
        *([f"[defaults]\n{table_text(defaults)}"] if defaults else []),
    ]
    for name, parameters in instances.items():
        own = {key: value for key, value in parameters.items() if key not in defaults or defaults[key] != value}
        blocks.append(f"[[instance]]\n{table_text({'name': name, **own})}")
    return "\n".join(blocks)


def common_values(tables: Sequence[Mapping[str, ParameterValue]], shown: Collection[str]) -> dict[str, ParameterValue]:
    """The values that most of several instances have, of parameters that all have and that are not `shown`."""
    found: dict[str, ParameterValue] = {}
    for name in tables[0] if len(tables) > 1 else ():
        if name in shown or not all(name in table for table in tables):
            continue
        value, count = Counter(table[name] for table in tables).most_common(1)[0]
        if 2 * count > len(tables):
            found[name] = value
    return found
