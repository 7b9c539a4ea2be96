"""`ckwatch.run`, `build` and `cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ckwatch_lsp.commands.arguments import flag_in, requested_units, text_in
from ckwatch_lsp.commands.running_tasks import RunningTasks, title_of

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer


class BuildCommands:
    """They answer when the work is done; ending the request early ends the work."""

    def __init__(self, server: CkwatchServer, works: RunningTasks) -> None:
        self._server = server
        self._session = server.session
        self._works = works
        server.add_command("ckwatch.run", self.run)
        server.add_command("ckwatch.build", self.build)
        server.add_command("ckwatch.cancel", self.cancel)

    async def run(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Build units and time them: how many timings there are, and why there are no others."""
        force, shape = flag_in(argument, "force"), text_in(argument, "shape")
        folder, units = await requested_units(self._session, argument)
        client = folder.ready
        timed, failed = 0, 0
        skipped: dict[str, str] = {}
        with self._works.begin(title_of("Timing", units), folder, units) as work:
            names = [unit.id for unit in units]
            settled: set[str] = set()
            async with client.bench(*names, shapes=None if shape is None else [shape], force=force) as lines:
                async for line in lines:
                    if line.event == "skipped" and line.unit is not None:
                        skipped.setdefault(line.unit, line.text)
                    if line.timing is not None:
                        timed += line.timing.failure is None
                        failed += line.timing.failure is not None
                    if line.unit is not None:
                        settled.add(line.unit)
                        about = line.unit.partition("@")[0] + (f", {line.shape}" if line.shape else "")
                        work.report(f"{len(settled)} of {len(names)}: {about}", len(settled) - 1, len(names))
        if skipped and not timed and not work.cancelled:
            unit, why = next(iter(skipped.items()))
            more = f", as {len(skipped) - 1} more" if len(skipped) > 1 else ""
            self._say(f"{unit} is not timed{more}: {why.partition(chr(10))[0]}")
        return {
            "units": names, "timed": timed, "failed": failed, "skipped": skipped, "cancelled": work.cancelled
        }  # fmt: skip

    async def build(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Build units: what became of each."""
        force = flag_in(argument, "force")
        folder, units = await requested_units(self._session, argument)
        client = folder.ready
        outcomes: dict[str, str | None] = {unit.id: None for unit in units}
        errors = 0
        with self._works.begin(title_of("Building", units), folder, units) as work:
            settled = 0
            async with client.building(*outcomes, force=force) as lines:
                async for line in lines:
                    if line.event != "unit" or line.id is None:
                        continue
                    settled += 1
                    outcomes[line.id] = line.problem or (None if line.unit is None else line.unit.outcome)
                    errors += sum(found.severity == "error" for found in line.diagnostics)
                    work.report(f"{settled} of {len(units)}: {line.id.partition('@')[0]}", settled, len(units))
        return {"units": outcomes, "errors": errors, "cancelled": work.cancelled}

    async def cancel(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Stop working on units until they are edited or asked for: which were being worked on."""
        folder, units = await requested_units(self._session, argument)
        names = [unit.id for unit in units]
        self._works.cancel(folder, frozenset(names))
        return {"units": await folder.ready.cancel(*names)}

    def _say(self, text: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
