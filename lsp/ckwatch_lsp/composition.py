"""Which parts and languages a session has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch_lsp.commands.composition import add_commands
from ckwatch_lsp.configuring import Configuring
from ckwatch_lsp.diagnostics.composition import add_diagnostics
from ckwatch_lsp.documents import Kind
from ckwatch_lsp.figures.composition import add_figures
from ckwatch_lsp.generated.commands import GeneratedCommands
from ckwatch_lsp.generated.language import GeneratedLanguage
from ckwatch_lsp.kernels.composition import add_kernels
from ckwatch_lsp.manners import Manners
from ckwatch_lsp.templates.composition import add_templates

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


def compose(server: CkwatchServer, params: types.InitializeParams) -> None:
    """Put the session together, and register what its parts answer themselves."""
    session = server.session
    session.parts += [Configuring(server, params), Manners(server)]
    add_diagnostics(server, params)
    GeneratedCommands(server, session.generated)
    session.languages.setdefault(Kind.GENERATED, []).append(GeneratedLanguage(session, session.generated))
    add_figures(server, params)
    add_commands(server)
    add_kernels(server)
    add_templates(server)
