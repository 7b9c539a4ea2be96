"""Puts the commands together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch_lsp.commands.building import BuildCommands
from ckwatch_lsp.commands.busy import Busy
from ckwatch_lsp.commands.choosing import ChooseCommand
from ckwatch_lsp.commands.comparing import CompareCommands
from ckwatch_lsp.commands.environment import EnvironmentCommands
from ckwatch_lsp.commands.status import StatusPart
from ckwatch_lsp.commands.units import UnitsCommand
from ckwatch_lsp.commands.works import Works

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


def add_commands(server: CkwatchServer) -> None:
    """Offer the commands, and show what goes on."""
    works = Works(server)
    BuildCommands(server, works)
    CompareCommands(server)
    ChooseCommand(server)
    EnvironmentCommands(server)
    server.session.parts += [UnitsCommand(server), StatusPart(server), Busy(server, works)]
