"""Puts a session together: creates its features and registers them with the server, by what the editor can do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch_lsp.commands.build import BuildCommands
from ckwatch_lsp.commands.compare import CompareCommands
from ckwatch_lsp.commands.daemon import DaemonCommands, ServerStatusNotifier
from ckwatch_lsp.commands.running_tasks import DaemonProgress, RunningTasks
from ckwatch_lsp.commands.units import ChooseInstanceCommand, UnitsCommand
from ckwatch_lsp.diagnostics.delivery import DiagnosticsDelivery
from ckwatch_lsp.diagnostics.quick_fixes import QuickFixes
from ckwatch_lsp.figures.affected_units import AffectedUnits
from ckwatch_lsp.figures.anchors import FigureAnchors
from ckwatch_lsp.figures.presenter import FigurePresenter, UnitHistories
from ckwatch_lsp.figures.provider import FiguresProvider, FiguresRefresher, information
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers
from ckwatch_lsp.kernel_files.adapter.provider import KernelFileProvider
from ckwatch_lsp.session.configuration import EditorConfiguration
from ckwatch_lsp.session.documents import DocumentKind
from ckwatch_lsp.session.environment_messages import EnvironmentMessages
from ckwatch_lsp.session.handlers import RequestHandlers
from ckwatch_lsp.session.providers import TOKEN_MODIFIERS, TOKEN_TYPES
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.templates.adapter.provider import TemplateProvider
from ckwatch_lsp.virtual_documents.provider import VirtualDocumentCommands, VirtualDocumentProvider

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer


def add_commands(server: CkwatchServer) -> None:
    """Offer the commands, and show what goes on."""
    works = RunningTasks(server)
    BuildCommands(server, works)
    CompareCommands(server)
    ChooseInstanceCommand(server)
    DaemonCommands(server)
    server.session.parts += [UnitsCommand(server), ServerStatusNotifier(server), DaemonProgress(server, works)]


def add_diagnostics(server: CkwatchServer, params: types.InitializeParams) -> None:
    """Diagnostics and what mends them."""
    session = server.session
    diagnostics = DiagnosticsDelivery(server, params)
    session.parts.append(diagnostics)
    fixing = QuickFixes(session, diagnostics.tracker, diagnostics.reports)
    for kind in (DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE, DocumentKind.SETTINGS):
        session.languages.setdefault(kind, []).append(fixing)


def add_figures(server: CkwatchServer, params: types.InitializeParams) -> FigurePresenter:
    """Hints, lenses, hovers and Information diagnostics with figures; what they show."""
    session = server.session
    anchors, looked_at = FigureAnchors(session), UnitHistories(session)
    shown, affected = FigurePresenter(session, anchors, looked_at), AffectedUnits(session, anchors)
    text = params.capabilities.text_document
    hint = None if text is None else text.inlay_hint
    resolves = bool(hint and hint.resolve_support and "tooltip" in hint.resolve_support.properties)
    language = FiguresProvider(session, shown, affected, resolves=resolves)
    session.parts += [anchors, shown, looked_at, affected, FiguresRefresher(server, shown, language)]
    for kind in (DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE):
        session.languages.setdefault(kind, []).append(language)
    if resolves:
        server.feature(types.INLAY_HINT_RESOLVE)(language.resolve)
    session.diagnostics.add_source(partial(information, session, shown))
    return shown


def add_kernels(server: CkwatchServer) -> None:
    """Answers for kernel files and `ckwatch.toml`."""
    session = server.session
    knowledge = DaemonAnswers(session)
    session.parts.append(knowledge)
    language = KernelFileProvider(session, knowledge)
    for kind in (DocumentKind.KERNEL_FILE, DocumentKind.SETTINGS):
        session.languages.setdefault(kind, []).append(language)


def add_templates(server: CkwatchServer) -> None:
    """Answer for template documents."""
    session = server.session
    library = TemplateLibrary(session)
    session.parts.append(library)
    session.languages.setdefault(DocumentKind.TEMPLATE, []).append(TemplateProvider(session, library))


def compose(server: CkwatchServer, params: types.InitializeParams) -> None:
    """Put the session together, and register what its parts answer themselves."""
    session = server.session
    session.parts += [EditorConfiguration(server, params), EnvironmentMessages(server)]
    add_diagnostics(server, params)
    VirtualDocumentCommands(server, session.generated)
    session.languages.setdefault(DocumentKind.GENERATED, []).append(VirtualDocumentProvider(session, session.generated))
    add_figures(server, params)
    add_commands(server)
    add_kernels(server)
    add_templates(server)


def set_up(server: CkwatchServer, params: types.InitializeParams) -> None:
    """Put the session together and register what it can do. Capabilities are computed after this."""
    session = server.session
    answers = RequestHandlers(session)
    compose(server, params)
    able, feature = session.abilities, server.feature
    feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "|", '"', "'", "=", " "]))(
        answers.completion
    )
    feature(types.TEXT_DOCUMENT_HOVER)(answers.hover)
    feature(types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions(trigger_characters=["(", ","]))(
        answers.signature_help
    )
    feature(types.TEXT_DOCUMENT_DEFINITION)(answers.definition)
    feature(types.TEXT_DOCUMENT_REFERENCES)(answers.references)
    feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=able.rename_prepares or None))(
        answers.rename
    )
    if able.rename_prepares:
        feature(types.TEXT_DOCUMENT_PREPARE_RENAME)(answers.prepare_rename)
    feature(types.TEXT_DOCUMENT_DOCUMENT_LINK)(answers.links)
    feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(answers.symbols)
    feature(types.WORKSPACE_SYMBOL)(answers.workspace_symbols)
    feature(types.TEXT_DOCUMENT_FOLDING_RANGE)(answers.folds)
    feature(types.TEXT_DOCUMENT_SELECTION_RANGE)(answers.selections)
    feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)(answers.highlights)
    legend = types.SemanticTokensLegend(list(TOKEN_TYPES), list(TOKEN_MODIFIERS))
    feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)(answers.tokens)
    feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)(answers.range_tokens)
    if able.action_literals:
        kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite]
        feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))(answers.actions)
    if able.lenses:
        feature(types.TEXT_DOCUMENT_CODE_LENS)(answers.lenses)
    if able.hints:
        feature(types.TEXT_DOCUMENT_INLAY_HINT)(answers.hints)
