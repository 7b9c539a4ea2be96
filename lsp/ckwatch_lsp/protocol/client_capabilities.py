"""The editor's capabilities, as it sends them with `initialize`."""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorCapabilities:
    """The editor's capabilities as far as they matter here.

    `shows_virtual_documents`: it requests the text of documents that are not files; `server_status`, `units_changed`:
    it asks for these notifications of ours; `registers`: methods that can be offered for some documents only.
    """

    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
    hints: bool = False
    refreshes_hints: bool = False
    lenses: bool = False
    refreshes_lenses: bool = False
    refreshes_tokens: bool = False
    pulls_diagnostics: bool = False
    refreshes_diagnostics: bool = False
    related: bool = False
    code_description: bool = False
    diagnostic_data: bool = False
    tags: bool = False
    versions: bool = False
    markdown: bool = False
    action_literals: bool = False
    nested_symbols: bool = False
    shows_documents: bool = False
    shows_virtual_documents: bool = False
    progress: bool = False
    configuration: bool = False
    registers_configuration: bool = False
    versioned_edits: bool = False
    rename_prepares: bool = False
    calls: bool = False
    snippets: bool = False
    disabled_actions: bool = False
    signature_offsets: bool = False
    completion_markdown: bool = False
    registers: frozenset[str] = frozenset()
    server_status: bool = False
    units_changed: bool = False


def capabilities_of(
    given: types.ClientCapabilities, encoding: types.PositionEncodingKind | str, editor: str = ""
) -> EditorCapabilities:
    """The editor's capabilities; what `given` leaves out is not supported.

    Neovim answers a refresh by pulling the whole workspace and ignores the part about open files: diagnostics are
    pushed to it instead.
    """
    text = given.text_document or types.TextDocumentClientCapabilities()
    space = given.workspace or types.WorkspaceClientCapabilities()
    window = given.window or types.WindowClientCapabilities()
    published = text.publish_diagnostics or types.PublishDiagnosticsClientCapabilities()
    action, symbol = text.code_action, text.document_symbol
    item = text.completion.completion_item if text.completion else None
    signature = text.signature_help.signature_information if text.signature_help else None
    parameter = signature.parameter_information if signature else None
    hover = text.hover.content_format if text.hover else None
    experimental = given.experimental if isinstance(given.experimental, dict) else vars_of(given.experimental)
    pulled = text.diagnostic
    edits = space.workspace_edit
    registered = {
        types.TEXT_DOCUMENT_FORMATTING: text.formatting,
        types.TEXT_DOCUMENT_RANGE_FORMATTING: text.range_formatting,
    }
    return EditorCapabilities(
        encoding=encoding,
        hints=text.inlay_hint is not None,
        refreshes_hints=bool(space.inlay_hint and space.inlay_hint.refresh_support),
        lenses=text.code_lens is not None or space.code_lens is not None,
        refreshes_lenses=bool(space.code_lens and space.code_lens.refresh_support),
        refreshes_tokens=bool(space.semantic_tokens and space.semantic_tokens.refresh_support),
        pulls_diagnostics=pulled is not None and editor != "Neovim",
        refreshes_diagnostics=bool(space.diagnostics and space.diagnostics.refresh_support),
        related=bool(published.related_information or (pulled and pulled.related_information)),
        code_description=bool(published.code_description_support or (pulled and pulled.code_description_support)),
        diagnostic_data=bool(published.data_support or (pulled and pulled.data_support)),
        tags=bool(published.tag_support or (pulled and pulled.tag_support)),
        versions=bool(published.version_support),
        markdown=hover is None or types.MarkupKind.Markdown in hover,
        action_literals=bool(action and action.code_action_literal_support),
        nested_symbols=bool(symbol and symbol.hierarchical_document_symbol_support),
        shows_documents=bool(window.show_document and window.show_document.support),
        shows_virtual_documents=space.text_document_content is not None,
        progress=bool(window.work_done_progress),
        configuration=bool(space.configuration),
        registers_configuration=bool(
            space.did_change_configuration and space.did_change_configuration.dynamic_registration
        ),
        versioned_edits=bool(edits and edits.document_changes),
        registers=frozenset(method for method, able in registered.items() if able and able.dynamic_registration),
        rename_prepares=bool(text.rename and text.rename.prepare_support),
        calls=text.call_hierarchy is not None,
        snippets=bool(item and item.snippet_support),
        disabled_actions=bool(action and action.disabled_support),
        signature_offsets=bool(parameter and parameter.label_offset_support),
        completion_markdown=bool(item and types.MarkupKind.Markdown in (item.documentation_format or ())),
        server_status=bool(experimental.get("serverStatusNotification")),
        units_changed=bool(experimental.get("ckwatchUnits")),
    )


def vars_of(given: object) -> dict[str, object]:
    """The fields of an object that the protocol leaves open; none for anything else."""
    fields = getattr(given, "_asdict", None)
    if callable(fields):
        found: dict[str, object] = fields()
        return found
    return dict(vars(given)) if hasattr(given, "__dict__") else {}
