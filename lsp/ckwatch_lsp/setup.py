"""Sets a session up: creates its features and registers them with the editor, by what the editor can do."""

from __future__ import annotations

from lsprotocol import types

from ckwatch_lsp.commands.arguments import CommandTargets
from ckwatch_lsp.commands.build import BuildCommands
from ckwatch_lsp.commands.compare import CompareCommands
from ckwatch_lsp.commands.daemon import DaemonCommands, ServerStatusNotifier
from ckwatch_lsp.commands.running_tasks import DaemonProgress, RunningTasks
from ckwatch_lsp.commands.tune import TuneCommand
from ckwatch_lsp.commands.units import ChooseInstanceCommand, UnitsCommand
from ckwatch_lsp.commands.virtual_documents import VirtualDocumentCommands
from ckwatch_lsp.cpp.headers import Headers
from ckwatch_lsp.cpp.provider import CppProvider
from ckwatch_lsp.cpp.questions import CppQuestions
from ckwatch_lsp.diagnostics.delivery import DiagnosticsDelivery
from ckwatch_lsp.diagnostics.quick_fixes import QuickFixes
from ckwatch_lsp.figures.affected_units import AffectedUnits
from ckwatch_lsp.figures.anchors import FigureAnchors
from ckwatch_lsp.figures.imported import ImportedTimingsCache
from ckwatch_lsp.figures.line_profiles import LineProfileProvider, LineProfiles, lost_at_lines
from ckwatch_lsp.figures.presenter import FigurePresenter, UnitHistories
from ckwatch_lsp.figures.provider import FiguresProvider, FiguresRefresher, information
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers, ParsedKernelFiles
from ckwatch_lsp.kernel_files.adapter.code_actions import KernelFileActions
from ckwatch_lsp.kernel_files.adapter.provider import KernelFileProvider
from ckwatch_lsp.protocol.server import CkwatchServer
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.configuration import EditorConfiguration
from ckwatch_lsp.session.documents import DocumentKind
from ckwatch_lsp.session.environment_messages import EnvironmentMessages
from ckwatch_lsp.session.handlers import RequestHandlers
from ckwatch_lsp.session.providers import LanguageProvider
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.shown_places import ShownPlaces
from ckwatch_lsp.templates.adapter.calls import TemplateCalls
from ckwatch_lsp.templates.adapter.file_renames import RENAMED, FileRenames
from ckwatch_lsp.templates.adapter.hover import TemplateHovers
from ckwatch_lsp.templates.adapter.kernel_file_names import KernelFileNames
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.templates.adapter.provider import TemplateProvider
from ckwatch_lsp.templates.adapter.rendered_values import RenderedValues
from ckwatch_lsp.virtual_documents.provider import VirtualDocumentProvider
from ckwatch_lsp.virtual_documents.store import VirtualDocuments, VirtualFiles

TEMPLATE, KERNEL_FILE, SETTINGS = DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE, DocumentKind.SETTINGS


def set_up(session: Session, files: VirtualFiles, editor: CkwatchServer, params: types.InitializeParams) -> None:
    """Create the features and register them. Listeners are called, and answers joined, in the order of this function.

    The server's capabilities are computed after this.
    """
    session.editor, session.capabilities = editor, editor.capabilities
    active = ActiveUnits(session)
    documents = VirtualDocuments(session, active, files)
    targets = CommandTargets(session, active)
    session.listeners += [
        active,
        files,
        documents,
        EditorConfiguration(session, params),
        EnvironmentMessages(session),
        ShownPlaces(session),
    ]
    diagnostics = DiagnosticsDelivery(session, active)
    session.listeners.append(diagnostics)
    add_provider(session, QuickFixes(session, diagnostics.store, diagnostics.reports), TEMPLATE, KERNEL_FILE, SETTINGS)
    library = TemplateLibrary(session)
    headers = Headers(session, active)
    session.listeners.append(headers)
    questions = CppQuestions(session, active, headers, documents)
    cpp = CppProvider(session, active, library, documents, headers, questions)
    add_provider(session, cpp, DocumentKind.VIRTUAL, DocumentKind.HEADER)
    add_provider(session, VirtualDocumentProvider(session, documents), DocumentKind.VIRTUAL)
    add_figures(session, active, library)
    add_commands(session, active, targets, documents)
    answers = DaemonAnswers(session)
    session.listeners += [answers, library]
    parsed, values = ParsedKernelFiles(active), RenderedValues(session)
    add_provider(session, KernelFileProvider(session, parsed, answers), KERNEL_FILE, SETTINGS)
    templates = TemplateProvider(session, active, library, values)
    add_provider(session, KernelFileNames(session, parsed, answers, library, templates), KERNEL_FILE)
    add_provider(session, KernelFileActions(session, parsed, answers), KERNEL_FILE)
    add_provider(session, templates, TEMPLATE)
    add_provider(session, TemplateHovers(active, library, values), TEMPLATE)
    add_provider(session, TemplateCalls(session, library), TEMPLATE)
    add_provider(session, cpp, TEMPLATE, KERNEL_FILE)  # what Jinja or a kernel file has an answer to is not C++
    RequestHandlers(session).register(editor)
    if editor.capabilities.tells_renames:
        editor.add_request(types.WORKSPACE_WILL_RENAME_FILES, FileRenames(session, library).answer, RENAMED)
    editor.add_request(types.TEXT_DOCUMENT_DID_OPEN, lambda params: session.opened(params.text_document))
    editor.add_request(
        types.TEXT_DOCUMENT_DID_CHANGE,
        lambda params: session.changed(params.text_document.uri, params.text_document.version, params.content_changes),
    )
    editor.add_request(types.TEXT_DOCUMENT_DID_CLOSE, lambda params: session.closed(params.text_document.uri))


def add_provider(session: Session, provider: LanguageProvider, *kinds: DocumentKind) -> None:
    """Have a provider answer for these documents."""
    for kind in kinds:
        session.providers.setdefault(kind, []).append(provider)


def add_figures(session: Session, active: ActiveUnits, library: TemplateLibrary) -> FigurePresenter:
    """Hints, lenses, hovers and Information diagnostics with figures; what they show."""
    anchors, histories = FigureAnchors(session, active), UnitHistories(session, active)
    imported = ImportedTimingsCache(session)
    presenter = FigurePresenter(session, anchors, histories, imported)
    affected = AffectedUnits(session, anchors, library)
    provider = FiguresProvider(session, active, presenter, affected)
    session.listeners += [
        anchors,
        presenter,
        histories,
        imported,
        affected,
        FiguresRefresher(session, presenter, provider),
    ]
    add_provider(session, provider, TEMPLATE, KERNEL_FILE)
    if session.capabilities.resolved_tooltips:
        session.editor.add_request(types.INLAY_HINT_RESOLVE, provider.resolve)
    profiles = LineProfiles(session, active)
    session.listeners.append(profiles)
    add_provider(session, LineProfileProvider(session, profiles, anchors), TEMPLATE)
    session.information = lambda path: [
        *information(session, presenter, path),
        *lost_at_lines(session, profiles, path),
    ]
    return presenter


def add_commands(session: Session, active: ActiveUnits, targets: CommandTargets, documents: VirtualDocuments) -> None:
    """Commands, and the progress of what they and the daemon do."""
    tasks = RunningTasks(session)
    VirtualDocumentCommands(session, active, targets, documents)
    BuildCommands(session.editor, targets, tasks)
    TuneCommand(session, targets, tasks)
    CompareCommands(session.editor, targets)
    ChooseInstanceCommand(session, active, targets)
    DaemonCommands(session.editor, targets, documents.files)
    session.listeners += [
        UnitsCommand(session, active),
        ServerStatusNotifier(session),
        DaemonProgress(session, tasks),
    ]
