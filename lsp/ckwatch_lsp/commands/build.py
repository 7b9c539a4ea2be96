"""`ckwatch.run`, `build`, `verify` and `cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lsprotocol import types

from ckwatch_lsp.commands.arguments import CommandTargets, flag_in, text_in
from ckwatch_lsp.commands.running_tasks import RunningTasks, title_of
from ckwatch_lsp.protocol.server import CkwatchServer


class BuildCommands:
    """They answer when the task is done; cancelling the request cancels the task."""

    def __init__(self, editor: CkwatchServer, targets: CommandTargets, tasks: RunningTasks) -> None:
        self._editor = editor
        self._targets = targets
        self._tasks = tasks
        editor.add_command("ckwatch.run", self.run)
        editor.add_command("ckwatch.build", self.build)
        editor.add_command("ckwatch.verify", self.verify)
        editor.add_command("ckwatch.cancel", self.cancel)

    async def run(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Build units and time them: how many timings there are, and why there are no others."""
        force, shape = flag_in(argument, "force"), text_in(argument, "shape")
        folder, units = await self._targets.units(argument)
        client = folder.ready
        timed, failed = 0, 0
        skipped: dict[str, str] = {}
        with self._tasks.begin(title_of("Timing", units), folder, units) as task:
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
                        task.report(f"{len(settled)} of {len(names)}: {about}", len(settled) - 1, len(names))
        if skipped and not timed and not task.cancelled:
            unit, why = next(iter(skipped.items()))
            more = f", as {len(skipped) - 1} more" if len(skipped) > 1 else ""
            text = f"{unit} is not timed{more}: {why.partition(chr(10))[0]}"
            self._editor.show_message(types.MessageType.Info, text)
        return {
            "units": names, "timed": timed, "failed": failed, "skipped": skipped, "cancelled": task.cancelled
        }  # fmt: skip

    async def build(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Build units: what became of each."""
        force = flag_in(argument, "force")
        folder, units = await self._targets.units(argument)
        client = folder.ready
        outcomes: dict[str, str | None] = {unit.id: None for unit in units}
        errors = 0
        with self._tasks.begin(title_of("Building", units), folder, units) as task:
            settled = 0
            async with client.building(*outcomes, force=force) as lines:
                async for line in lines:
                    if line.event != "unit" or line.id is None:
                        continue
                    settled += 1
                    outcomes[line.id] = line.problem or (None if line.unit is None else line.unit.outcome)
                    errors += sum(found.severity == "error" for found in line.diagnostics)
                    task.report(f"{settled} of {len(units)}: {line.id.partition('@')[0]}", settled, len(units))
        return {"units": outcomes, "errors": errors, "cancelled": task.cancelled}

    async def verify(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Build units and have an emulator execute them: the outcome and a line about each."""
        force = flag_in(argument, "force")
        folder, units = await self._targets.units(argument)
        outcomes: dict[str, str] = {}
        summaries: dict[str, str] = {}
        with self._tasks.begin(title_of("Verifying", units), folder, units) as task:
            async with folder.ready.verifying(*(unit.id for unit in units), force=force) as lines:
                async for line in lines:
                    if line.result is not None:
                        outcomes[line.result.unit] = line.result.outcome
                        summaries[line.result.unit] = line.result.summary
                    if line.unit is not None:
                        about = line.unit.partition("@")[0] + (f", {line.text}" if line.event == "stage" else "")
                        task.report(f"{len(outcomes)} of {len(units)}: {about}", len(outcomes), len(units))
        wrong = [unit for unit, outcome in outcomes.items() if outcome != "verified"]
        if not task.cancelled and summaries:
            shown = wrong or list(outcomes)
            more = f", and {len(shown) - 1} more" if len(shown) > 1 else ""
            text = summaries[shown[0]].partition(chr(10))[0]
            kind = types.MessageType.Warning if wrong else types.MessageType.Info
            self._editor.show_message(kind, f"{shown[0]}: {text}{more}")
        return {"units": outcomes, "summaries": summaries, "cancelled": task.cancelled}

    async def cancel(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Stop working on units until they are edited or asked for: which were being worked on."""
        folder, units = await self._targets.units(argument)
        names = [unit.id for unit in units]
        self._tasks.cancel(folder, frozenset(names))
        return {"units": await folder.ready.cancel(*names)}
