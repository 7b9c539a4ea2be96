"""The editor's capabilities, as it sends them with `initialize`."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from lsprotocol import types

from ckwatch.model.lazy_dataclass import dataclass


def _able(*paths: str) -> Any:
    """A capability that the editor has if it sends one of these fields, and neither null nor false."""
    return field(default=False, metadata={"paths": paths})


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorCapabilities:
    """The editor's capabilities as far as they matter here.

    `shows_virtual_documents`: it requests the text of documents that are not files; `server_status`, `units_changed`,
    `line_heat`: it asks for these notifications of ours; `registers`: methods that can be offered for some documents
    only.
    """

    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
    hints: bool = _able("text_document.inlay_hint")
    refreshes_hints: bool = _able("workspace.inlay_hint.refresh_support")
    lenses: bool = _able("text_document.code_lens", "workspace.code_lens")
    refreshes_lenses: bool = _able("workspace.code_lens.refresh_support")
    refreshes_tokens: bool = _able("workspace.semantic_tokens.refresh_support")
    token_deltas: bool = _able("text_document.semantic_tokens.requests.full")
    pulls_diagnostics: bool = _able("text_document.diagnostic")
    refreshes_diagnostics: bool = _able("workspace.diagnostics.refresh_support")
    related: bool = _able(
        "text_document.publish_diagnostics.related_information", "text_document.diagnostic.related_information"
    )
    related_documents: bool = _able("text_document.diagnostic.related_document_support")
    code_description: bool = _able(
        "text_document.publish_diagnostics.code_description_support",
        "text_document.diagnostic.code_description_support",
    )
    diagnostic_data: bool = _able(
        "text_document.publish_diagnostics.data_support", "text_document.diagnostic.data_support"
    )
    tags: bool = _able("text_document.publish_diagnostics.tag_support", "text_document.diagnostic.tag_support")
    versions: bool = _able("text_document.publish_diagnostics.version_support")
    markdown: bool = False
    action_literals: bool = _able("text_document.code_action.code_action_literal_support")
    nested_symbols: bool = _able("text_document.document_symbol.hierarchical_document_symbol_support")
    shows_documents: bool = _able("window.show_document.support")
    shows_virtual_documents: bool = _able("workspace.text_document_content")
    progress: bool = _able("window.work_done_progress")
    configuration: bool = _able("workspace.configuration")
    registers_configuration: bool = _able("workspace.did_change_configuration.dynamic_registration")
    versioned_edits: bool = _able("workspace.workspace_edit.document_changes")
    rename_prepares: bool = _able("text_document.rename.prepare_support")
    inline_completion: bool = _able("text_document.inline_completion")
    collapsed_text: bool = _able("text_document.folding_range.folding_range.collapsed_text")
    tells_renames: bool = _able("workspace.file_operations.will_rename")
    calls: bool = _able("text_document.call_hierarchy")
    snippets: bool = _able("text_document.completion.completion_item.snippet_support")
    disabled_actions: bool = _able("text_document.code_action.disabled_support")
    signature_offsets: bool = _able(
        "text_document.signature_help.signature_information.parameter_information.label_offset_support"
    )
    completion_markdown: bool = False
    resolved_tooltips: bool = False
    registers: frozenset[str] = frozenset()
    server_status: bool = _able("experimental.serverStatusNotification")
    units_changed: bool = _able("experimental.ckwatchUnits")
    line_heat: bool = _able("experimental.ckwatchLineHeat")


def capabilities_of(
    given: types.ClientCapabilities, encoding: types.PositionEncodingKind | str, editor: str = ""
) -> EditorCapabilities:
    """The editor's capabilities; what `given` leaves out is not supported.

    Neovim answers a refresh by pulling the whole workspace and ignores the part about open files: diagnostics are
    pushed to it instead. It applies changes of a document's tokens to those of a range that it got meanwhile: it gets
    all tokens each time.
    """
    found: dict[str, Any] = {
        each.name: any(sent(given, path) for path in each.metadata["paths"])
        for each in fields(EditorCapabilities)
        if "paths" in each.metadata
    }
    if editor == "Neovim":
        found |= {"pulls_diagnostics": False, "token_deltas": False}
    hover = sent(given, "text_document.hover.content_format")
    documentation = sent(given, "text_document.completion.completion_item.documentation_format")
    resolved = sent(given, "text_document.inlay_hint.resolve_support")
    registered = {
        types.TEXT_DOCUMENT_FORMATTING: "text_document.formatting.dynamic_registration",
        types.TEXT_DOCUMENT_RANGE_FORMATTING: "text_document.range_formatting.dynamic_registration",
        types.TEXT_DOCUMENT_ON_TYPE_FORMATTING: "text_document.on_type_formatting.dynamic_registration",
    }
    return EditorCapabilities(
        **found,
        encoding=encoding,
        markdown=hover is None or types.MarkupKind.Markdown in hover,
        completion_markdown=types.MarkupKind.Markdown in (documentation or ()),
        resolved_tooltips=resolved is not None and "tooltip" in resolved.properties,
        registers=frozenset(method for method, path in registered.items() if sent(given, path)),
    )


def sent(given: object, path: str) -> Any:
    """Return the editor's value at a path of fields, some of which the protocol leaves open; None where there is
    nothing."""
    for name in path.split("."):
        given = given.get(name) if isinstance(given, dict) else getattr(given, name, None)
    return given
