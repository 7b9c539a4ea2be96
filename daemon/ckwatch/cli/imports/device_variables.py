"""`__constant__` and `__device__` variables that the host fills and a kernel reads: inputs that are no arguments."""

from __future__ import annotations

import re

from ckwatch.cli.imports.host_code import HostCode
from ckwatch.cli.imports.source_text import line_of, namespaces, one_line
from ckwatch.model.lazy_dataclass import dataclass

_VARIABLE = re.compile(
    r"\b__(?:constant__|device__)\s+(?:(?:static|const|__constant__|__device__)\s+)*(?P<type>[A-Za-z_][\w:]*(?:\s+(?:int|long|char|short))?)"
    r"\s+(?P<name>\w+)\s*(?P<extents>(?:\[[^\]]*\]\s*)*);"
)


@dataclass(frozen=True, slots=True)
class DeviceVariable:
    """A variable of the device that the host copies to. `elements` is None where its extents are not written out."""

    name: str
    type: str
    elements: int | None
    line: int
    scope: tuple[str, ...]

    @property
    def symbol(self) -> str:
        """The variable by its whole name, which no argument hides."""
        return "::" + "::".join((*self.scope, self.name))


def device_variables(text: str, code: str) -> list[DeviceVariable]:
    """The variables of a file that its host code fills by `hipMemcpyToSymbol`; `code` is the masked `text`."""
    host = HostCode(text, code, "", 0)
    found = []
    for one in _VARIABLE.finditer(code):
        if not re.search(
            rf"\b(?:hip|cuda)MemcpyToSymbol\w*\s*\(\s*(?:HIP_SYMBOL\s*\(\s*)?&?\s*(?:\w*::)*{one['name']}\b", code
        ):
            continue
        elements: int | None = 1
        for extent in re.findall(r"\[([^\]]*)\]", one["extents"]):
            number = host.number(extent) if extent.strip() else None
            elements = None if number is None or elements is None else elements * number
        found.append(
            DeviceVariable(
                one["name"], one_line(one["type"]), elements, line_of(code, one.start()), namespaces(code, one.start())
            )
        )
    return found
