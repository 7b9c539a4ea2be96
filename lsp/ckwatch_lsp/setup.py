"""Sets a session up: creates its features and registers them with the editor, by what the editor can do."""

from __future__ import annotations

from functools import partial

from lsprotocol import types

from ckwatch_lsp.commands.arguments import CommandTargets
from ckwatch_lsp.commands.build import BuildCommands
from ckwatch_lsp.commands.compare import CompareCommands
from ckwatch_lsp.commands.daemon import DaemonCommands, ServerStatusNotifier
from ckwatch_lsp.commands.running_tasks import DaemonProgress, RunningTasks
from ckwatch_lsp.commands.tune import TuneCommand
from ckwatch_lsp.commands.units import ChooseInstanceCommand, UnitsCommand
from ckwatch_lsp.cpp.headers import Headers
from ckwatch_lsp.cpp.provider import CppProvider
from ckwatch_lsp.cpp.questions import CppQuestions
from ckwatch_lsp.cpp.readiness import Readiness
from ckwatch_lsp.diagnostics.delivery import DiagnosticsDelivery
from ckwatch_lsp.diagnostics.quick_fixes import QuickFixes
from ckwatch_lsp.figures.affected_units import AffectedUnits
from ckwatch_lsp.figures.anchors import FigureAnchors
from ckwatch_lsp.figures.imported import ImportedTimingsCache
from ckwatch_lsp.figures.presenter import FigurePresenter, UnitHistories
from ckwatch_lsp.figures.provider import FiguresProvider, FiguresRefresher, information
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers
from ckwatch_lsp.kernel_files.adapter.provider import KernelFileProvider
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.editor_client import EditorClient
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.configuration import EditorConfiguration
from ckwatch_lsp.session.documents import DocumentKind
from ckwatch_lsp.session.environment_messages import EnvironmentMessages
from ckwatch_lsp.session.handlers import RequestHandlers
from ckwatch_lsp.session.providers import TOKEN_MODIFIERS, TOKEN_TYPES, LanguageProvider
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.shown_places import ShownPlaces
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.templates.adapter.provider import TemplateProvider
from ckwatch_lsp.virtual_documents.provider import VirtualDocumentCommands, VirtualDocumentProvider
from ckwatch_lsp.virtual_documents.store import VirtualDocuments, VirtualFiles

TEMPLATE, KERNEL_FILE, SETTINGS = DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE, DocumentKind.SETTINGS

FORMATTED = ("**/*.kernel.toml", "**/ckwatch.toml")
"""Files that can be formatted."""


def set_up(session: Session, files: VirtualFiles, editor: EditorClient, params: types.InitializeParams) -> None:
    """Create the features and register them. Listeners are called, and answers joined, in the order of this function.

    The server's capabilities are computed after this.
    """
    session.capabilities = editor.capabilities
    active = ActiveUnits(session)
    documents = VirtualDocuments(session, active, editor, files)
    targets = CommandTargets(session, active)
    session.listeners += [
        active,
        documents,
        EditorConfiguration(session, editor, params),
        EnvironmentMessages(session, editor),
        ShownPlaces(session, editor),
    ]
    diagnostics = DiagnosticsDelivery(session, active, editor, params)
    session.listeners.append(diagnostics)
    add_provider(session, QuickFixes(session, diagnostics.store, diagnostics.reports), TEMPLATE, KERNEL_FILE, SETTINGS)
    library = TemplateLibrary(session, editor)
    cpp = cpp_provider(session, active, editor, library, documents)
    add_provider(session, cpp, DocumentKind.VIRTUAL, DocumentKind.HEADER)
    add_provider(session, VirtualDocumentProvider(session, documents), DocumentKind.VIRTUAL)
    add_figures(session, active, editor, params, library)
    add_commands(session, active, editor, targets, documents)
    answers = DaemonAnswers(session)
    session.listeners += [answers, library]
    add_provider(session, KernelFileProvider(session, active, answers), KERNEL_FILE, SETTINGS)
    add_provider(session, TemplateProvider(session, active, library), TEMPLATE)
    add_provider(session, cpp, TEMPLATE, KERNEL_FILE)  # what Jinja or a kernel file has an answer to is not C++
    register_requests(editor, RequestHandlers(session), editor.capabilities)


def add_provider(session: Session, provider: LanguageProvider, *kinds: DocumentKind) -> None:
    """Have a provider answer for these documents."""
    for kind in kinds:
        session.providers.setdefault(kind, []).append(provider)


def cpp_provider(
    session: Session, active: ActiveUnits, editor: EditorClient, library: TemplateLibrary, documents: VirtualDocuments
) -> CppProvider:
    """Answers about C++, and what they need to know of headers."""
    headers = Headers(session, active, editor)
    session.listeners.append(headers)
    questions = CppQuestions(session, active, headers, documents, Readiness(session, editor))
    return CppProvider(session, active, editor, library, documents, headers, questions)


def add_figures(
    session: Session,
    active: ActiveUnits,
    editor: EditorClient,
    params: types.InitializeParams,
    library: TemplateLibrary,
) -> FigurePresenter:
    """Hints, lenses, hovers and Information diagnostics with figures; what they show."""
    anchors, histories = FigureAnchors(session, active), UnitHistories(session, active)
    imported = ImportedTimingsCache(session)
    presenter = FigurePresenter(session, anchors, histories, imported)
    affected = AffectedUnits(session, anchors, library)
    text = params.capabilities.text_document
    hint = None if text is None else text.inlay_hint
    resolves = bool(hint and hint.resolve_support and "tooltip" in hint.resolve_support.properties)
    provider = FiguresProvider(session, active, presenter, affected, resolves=resolves)
    session.listeners += [
        anchors,
        presenter,
        histories,
        imported,
        affected,
        FiguresRefresher(session, editor, presenter, provider),
    ]
    add_provider(session, provider, TEMPLATE, KERNEL_FILE)
    if resolves:
        editor.add_request(types.INLAY_HINT_RESOLVE, provider.resolve)
    session.diagnostics.add_source(partial(information, session, presenter))
    return presenter


def add_commands(
    session: Session,
    active: ActiveUnits,
    editor: EditorClient,
    targets: CommandTargets,
    documents: VirtualDocuments,
) -> None:
    """Commands, and the progress of what they and the daemon do."""
    tasks = RunningTasks(session, editor)
    VirtualDocumentCommands(session, active, editor, targets, documents)
    BuildCommands(editor, targets, tasks)
    TuneCommand(session, editor, targets, tasks)
    CompareCommands(editor, targets)
    ChooseInstanceCommand(session, active, editor, targets)
    DaemonCommands(editor, targets, documents.files)
    session.listeners += [
        UnitsCommand(session, active, editor),
        ServerStatusNotifier(session, editor),
        DaemonProgress(session, editor, tasks),
    ]


def register_requests(editor: EditorClient, handlers: RequestHandlers, able: EditorCapabilities) -> None:
    """Answer the requests about documents that the editor can make use of."""
    triggers = dict.fromkeys((*LanguageProvider.triggers, *CppProvider.triggers))
    completion = types.CompletionOptions(trigger_characters=list(triggers))
    signatures = types.SignatureHelpOptions(trigger_characters=["(", ",", "<", "{"])
    tokens = types.SemanticTokensLegend(list(TOKEN_TYPES), list(TOKEN_MODIFIERS))
    kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.Refactor, types.CodeActionKind.RefactorRewrite]
    add = editor.add_request
    add(types.TEXT_DOCUMENT_COMPLETION, handlers.completion, completion)
    add(types.TEXT_DOCUMENT_HOVER, handlers.hover)
    add(types.TEXT_DOCUMENT_SIGNATURE_HELP, handlers.signature_help, signatures)
    add(types.TEXT_DOCUMENT_DEFINITION, handlers.definition)
    add(types.TEXT_DOCUMENT_DECLARATION, handlers.definition)  # templates and kernel files declare nothing apart
    add(types.TEXT_DOCUMENT_TYPE_DEFINITION, handlers.type_definition)
    add(types.TEXT_DOCUMENT_IMPLEMENTATION, handlers.implementation)
    add(types.TEXT_DOCUMENT_REFERENCES, handlers.references)
    if able.calls:
        add(types.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY, handlers.prepare_calls)
        add(types.CALL_HIERARCHY_INCOMING_CALLS, handlers.incoming_calls)
        add(types.CALL_HIERARCHY_OUTGOING_CALLS, handlers.outgoing_calls)
    add(types.TEXT_DOCUMENT_RENAME, handlers.rename, types.RenameOptions(prepare_provider=able.rename_prepares or None))
    if able.rename_prepares:
        add(types.TEXT_DOCUMENT_PREPARE_RENAME, handlers.prepare_rename)
    add(types.TEXT_DOCUMENT_DOCUMENT_LINK, handlers.links)
    add(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, handlers.symbols)
    add(types.WORKSPACE_SYMBOL, handlers.workspace_symbols)
    add(types.TEXT_DOCUMENT_FOLDING_RANGE, handlers.folds)
    add(types.TEXT_DOCUMENT_SELECTION_RANGE, handlers.selections)
    add(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, handlers.highlights)
    add(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, handlers.tokens, tokens)
    add(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, handlers.range_tokens, tokens)
    add(types.TEXT_DOCUMENT_FORMATTING, handlers.formatted, files=FORMATTED)
    add(types.TEXT_DOCUMENT_RANGE_FORMATTING, handlers.formatted_range, files=FORMATTED)
    if able.action_literals:
        add(types.TEXT_DOCUMENT_CODE_ACTION, handlers.actions, types.CodeActionOptions(code_action_kinds=kinds))
    if able.lenses:
        add(types.TEXT_DOCUMENT_CODE_LENS, handlers.lenses)
    if able.hints:
        add(types.TEXT_DOCUMENT_INLAY_HINT, handlers.hints)
