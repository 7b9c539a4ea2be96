"""Resources and prompts: the documentation, units' sources and instructions, and how to go about two tasks."""

from __future__ import annotations

import json

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from ckwatch.cli.code_documentation import page_text
from ckwatch.cli.schema import command_schema
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch.system.documentation_files import page_names

FASTER = """\
Make the kernel {kernel} faster{shape}, with ckwatch's tools.
1. `workspace`: which units there are. Choose one as the baseline; `verify` it, `inspect` and `profile` it.
2. Read what the profile calls lost (LDS conflicts, cache lines, idle lanes), what limits occupancy, and spills.
3. Change one thing with `edit`: a parameter of an instance, or the template. `check`, then `build` that unit alone.
4. `verify` it `against` the first one: a wrong kernel is no result, however fast, and one that cheats is refused.
5. `profile` with `against` the baseline, and `rank`. Keep the change if less is lost; else `edit` with `discard`.
6. Repeat from 2. Say at the end what was counted and predicted; only `rank` by `measured` has times of a device."""

BRING = """\
Bring the kernel in {source} into this workspace.
1. The user runs `ckwatch import hip {source}` (a HIP kernel) or `ckwatch import cpp {source}` (a program of Composable
   Kernel), which write a template and a kernel file; or write both with `edit`: ckwatch://docs/custom-kernels says how.
2. Answer what is open in the kernel file: grid, sizes of tensors, their values, limits.
3. `check` until nothing is reported, then `build` one unit.
4. Write a reference in Python (`[operation] reference = "reference.py:NAME"`), so that results are compared.
5. `verify` until it is right on all shapes; exit status 3 means that nothing was compared."""


def add_documents(server: MCPServer, client: Client) -> None:
    """Add all resources and prompts to a server."""

    @server.resource("ckwatch://docs", mime_type="text/plain")
    def pages() -> str:
        """The names of the pages of the documentation."""
        return "\n".join(f"ckwatch://docs/{name}" for name in sorted({*page_names(), "rules"}))

    @server.resource("ckwatch://docs/{page}", mime_type="text/markdown")
    def page(page: str) -> str:
        """A page of the documentation; `rules` has every instance rule with its place in Composable Kernel."""
        text = page_text(page)
        if text is None:
            raise ResourceNotFoundError(f"there is no page '{page[:80]}'; ckwatch://docs lists them")
        return text

    @server.resource("ckwatch://schema/{command}", mime_type="application/schema+json")
    def schema(command: str) -> str:
        """The JSON Schema of the lines of a command's answers."""
        try:
            return json.dumps(command_schema(command))
        except CkwatchError as error:
            raise ResourceNotFoundError(error.message) from None

    @server.resource("ckwatch://source/{+unit}", mime_type="text/x-c++src")
    async def source(unit: str) -> str:
        """The C++ text that a unit's template gives, with this session's edits."""
        try:
            return (await client.rendered(unit)).text or ""
        except CkwatchError as error:
            raise ResourceNotFoundError(error.message) from None

    @server.resource("ckwatch://isa/{+unit}", mime_type="text/plain")
    async def isa(unit: str) -> str:
        """The instructions of a built unit's main kernel."""
        try:
            return (await client.isa(unit, lines=False)).text
        except CkwatchError as error:
            raise ResourceNotFoundError(error.message) from None

    @server.prompt()
    def make_this_kernel_faster(kernel: str, shape: str = "") -> str:
        """Go from a profile to a change that is verified, and repeat."""
        return FASTER.format(kernel=kernel, shape=f" on {shape}" if shape else "")

    @server.prompt()
    def bring_this_kernel_in(source: str) -> str:
        """Make a unit of a HIP kernel or a program of Composable Kernel, and verify it."""
        return BRING.format(source=source)
