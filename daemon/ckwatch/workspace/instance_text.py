"""Instances as text of a kernel file."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.workspace.toml import table_text


def instance_table(name: str, parameters: Mapping[str, ParameterValue]) -> str:
    """The `[[instance]]` table of an instance. Raises CkwatchError for text that is no Unicode."""
    for value in (name, *parameters.values()):
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise CkwatchError(f"{value!r} is not valid Unicode") from None
    return f"[[instance]]\n{table_text({'name': name, **parameters})}"
