"""Editors × features: each cell names the test that has seen it, says why it cannot be, or that nobody has tried.

    python -m tools.editors.table     writes the table into docs/editors/index.md

`tests/editors/test_table.py` holds that the document has this table and that the tests exist and are not skipped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/editors/index.md"
TESTS = ROOT / "tests/editors"
BEGIN, END = "<!-- table: tools/editors/table.py -->\n", "<!-- end of table -->\n"


class Seen(NamedTuple):
    """A test has seen it: `file::test` below tests/editors, and what to add in a word."""

    test: str
    word: str = "yes"


class Lacking(NamedTuple):
    """The editor cannot; `instead` says where it is found."""

    instead: str


Cell = Seen | Lacking | Literal["not tried"]

NEOVIM, NEOVIM_ALONE = "test_neovim.py::test_", "test_neovim_plugin.py::test_"
EMACS, EMACS_ALONE = "test_emacs.py::test_", "test_emacs_plugin.py::test_"
LSP_MODE = "test_emacs_lsp_mode.py::test_"
HELIX, HELIX_ALONE = "test_helix.py::test_", "test_helix_settings.py::test_"
CODE = "test_vscode.py::test_"
PLANTED = "a_planted_error_is_at_its_place_and_goes_and_figures_come"

TRIED = ("VS Code", "Neovim", "Emacs, Eglot", "Emacs, lsp-mode", "Helix")
UNTRIED = ("Zed", "Sublime Text", "Kate", "JetBrains")
PAGES = {
    "VS Code": "vscode",
    "Neovim": "neovim",
    "Emacs, Eglot": "emacs",
    "Emacs, lsp-mode": "emacs",
    "Helix": "helix",
    "Zed": "zed",
    "Sublime Text": "sublime",
    "Kate": "kate",
    "JetBrains": "jetbrains",
}

BY_HAND: dict[str, dict[str, str]] = {
    "Kate": {
        "errors at their place, while typing": "by hand",
        "figures as hints": "no (hovers)",
        "lenses": "no",
        "hovers": "by hand",
        "completion": "by hand",
    }
}
"""What was looked at in an editor that no test runs."""

FEATURES: dict[str, tuple[Cell, Cell, Cell, Cell, Cell]] = {
    "errors at their place, while typing": (
        Seen(CODE + "a_mistake_shows_while_it_is_typed_and_goes"),
        Seen(NEOVIM + PLANTED),
        Seen(EMACS + PLANTED),
        Seen(LSP_MODE + "an_error_and_figures_of_the_example"),
        Seen(HELIX + PLANTED),
    ),
    "errors of rendering, in templates": (
        Seen(CODE + "a_mistake_in_a_template_that_is_not_saved"),
        Seen(NEOVIM + "a_misspelt_variable_is_shown_in_its_template"),
        Seen(EMACS + "a_misspelt_variable_is_shown_in_its_template"),
        "not tried",
        Seen(HELIX + "a_misspelt_variable_is_shown_in_its_template"),
    ),
    "related information": (
        "not tried",
        Seen(NEOVIM_ALONE + "related_information_is_in_the_float"),
        Seen(EMACS + PLANTED, "in the message"),
        "not tried",
        Seen(HELIX + "related_information_is_in_the_message", "in the message"),
    ),
    "figures as hints": (
        Seen(CODE + "figures_lenses_and_hover_at_an_instance"),
        Seen(NEOVIM + PLANTED),
        Seen(EMACS + PLANTED),
        Seen(LSP_MODE + "an_error_and_figures_of_the_example", "after the next edit"),
        Seen(HELIX + "hints_come_with_the_next_change_of_the_text", "after the next edit"),
    ),
    "a time in its line, after a run": (
        "not tried",
        Seen(NEOVIM + "a_kernel_is_timed_and_the_time_is_in_its_line"),
        Seen(EMACS + "a_kernel_is_timed_and_the_time_is_in_its_line"),
        "not tried",
        "not tried",
    ),
    "lenses": (
        Seen(CODE + "figures_lenses_and_hover_at_an_instance"),
        Seen(NEOVIM + "a_lens_shows_the_generated_source_whose_lines_lead_back"),
        Lacking("commands"),
        Seen(LSP_MODE + "errors_hints_and_lenses_are_on_the_screen", "where the server offers them"),
        Lacking("commands"),
    ),
    "commands without a lens": (
        Seen(CODE + "the_tree_opens_the_generated_source", "in a tree"),
        Seen(NEOVIM_ALONE + "typed_actions_are_the_servers_commands"),
        Seen(EMACS_ALONE + "commands_are_the_servers"),
        "not tried",
        Seen(HELIX_ALONE + "commands_are_in_the_picker_and_may_be_typed"),
    ),
    "hovers": (
        Seen(CODE + "figures_lenses_and_hover_at_an_instance"),
        Seen(NEOVIM + "a_hover_tells_figures"),
        Seen(EMACS + "a_hover_tells_figures"),
        "not tried",
        Seen(HELIX + "a_hover_tells_figures"),
    ),
    "generated source": (
        Seen(CODE + "the_tree_opens_the_generated_source"),
        Seen(NEOVIM + "a_lens_shows_the_generated_source_whose_lines_lead_back"),
        Seen(EMACS + "the_generated_source_is_shown_and_leads_back"),
        "not tried",
        Seen(HELIX + "a_command_shows_the_generated_source", "as a file"),
    ),
    "ISA": (
        Seen(CODE + "the_isa_stands_beside_the_template_and_is_linked_with_it"),
        Seen(NEOVIM + "the_listing_is_shown"),
        Seen(EMACS + "the_listing_is_shown"),
        "not tried",
        Seen(HELIX + "the_listing_is_shown", "as a file"),
    ),
    "code objects that are opened": (
        Seen(CODE + "a_code_object_is_its_figures"),
        Seen(NEOVIM + "a_code_object_is_its_figures_outside_of_a_workspace"),
        "not tried",
        "not tried",
        "not tried",
    ),
    "virtual documents that follow": (
        "not tried",
        Seen(NEOVIM_ALONE + "generated_source_is_a_live_buffer_beside_the_template"),
        Seen(EMACS_ALONE + "generated_source_is_a_live_buffer"),
        "not tried",
        "not tried",
    ),
    "progress": (
        "not tried",
        Seen(NEOVIM + "a_kernel_is_timed_and_the_time_is_in_its_line", "`LspProgress`"),
        "not tried",
        "not tried",
        "not tried",
    ),
    "what the daemon does": (
        Seen(CODE + "the_status_item_opens_the_daemons_log"),
        Seen(NEOVIM_ALONE + "statusline_says_what_the_daemon_does"),
        Seen(EMACS_ALONE + "hints_and_the_mode_line_follow_a_run"),
        Seen(LSP_MODE + "an_error_and_figures_of_the_example"),
        Lacking("messages"),
    ),
    "code actions": (
        "not tried",
        Seen(NEOVIM + "an_action_mends_a_mistake"),
        Seen(EMACS + "an_action_mends_a_mistake"),
        "not tried",
        Seen(HELIX + "an_action_mends_a_mistake"),
    ),
    "completion": (
        "not tried",
        Seen(NEOVIM + "completion_offers_the_keys_of_an_instance"),
        Seen(EMACS + "completion_offers_the_keys_of_an_instance"),
        "not tried",
        "not tried",
    ),
    "C++ in templates: completion": (
        Seen(CODE + "a_ck_name_is_completed_in_a_template"),
        Seen(NEOVIM + "a_ck_name_is_completed_in_a_template"),
        Seen(EMACS + "cpp_is_completed_and_told_and_leads_to_a_header"),
        "not tried",
        Seen(HELIX + "cpp_is_completed_and_told_and_leads_to_a_header"),
    ),
    "C++ in templates: hovers": (
        Seen(CODE + "a_hover_tells_the_value_in_the_chosen_instance_and_in_others"),
        Seen(NEOVIM + "a_hover_tells_the_value_in_the_chosen_instance_and_in_others"),
        Seen(EMACS + "cpp_is_completed_and_told_and_leads_to_a_header"),
        "not tried",
        Seen(HELIX + "cpp_is_completed_and_told_and_leads_to_a_header"),
    ),
    "C++ in templates: signatures, outline": (
        Seen(CODE + "the_calls_parameters_and_the_outline_are_shown"),
        Seen(NEOVIM + "the_calls_parameters_are_shown"),
        "not tried",
        "not tried",
        "not tried",
    ),
    "C++ in templates: renaming": (
        Seen(CODE + "a_name_of_cpp_is_renamed"),
        Seen(NEOVIM + "a_name_is_renamed_and_why_another_one_is_not"),
        "not tried",
        "not tried",
        "not tried",
    ),
    "headers of CK, read-only": (
        Seen(CODE + "definitions_lead_through_headers_of_ck_and_back"),
        Seen(NEOVIM + "definitions_lead_through_headers_of_ck_and_back"),
        Seen(EMACS + "cpp_is_completed_and_told_and_leads_to_a_header"),
        "not tried",
        Seen(HELIX + "cpp_is_completed_and_told_and_leads_to_a_header", "may be changed"),
    ),
    "places that other programs ask for": (
        "not tried",
        Seen(NEOVIM + "a_place_that_another_program_asks_for_is_shown"),
        Seen(EMACS + "a_place_that_another_program_asks_for_is_shown"),
        "not tried",
        Seen(HELIX + "a_place_that_another_program_asks_for_is_shown"),
    ),
    "asked before anything runs": (
        Seen(CODE + "without_trust_nothing_is_run_and_a_missing_command_is_told"),
        Seen(NEOVIM + "nothing_runs_before_somebody_trusts_the_workspace"),
        Seen(EMACS + "nothing_runs_before_somebody_trusts_the_workspace"),
        "not tried",
        Seen(HELIX + "nothing_runs_before_somebody_trusts_the_workspace"),
    ),
    "a lost daemon is replaced": (
        "not tried",
        Seen(NEOVIM + "a_lost_daemon_is_replaced"),
        Seen(EMACS + "a_lost_daemon_is_replaced"),
        "not tried",
        Seen(HELIX + "a_lost_daemon_is_replaced"),
    ),
}


def shown(cell: Cell) -> str:
    """A cell of the table."""
    match cell:
        case Seen():
            return cell.word
        case Lacking():
            return f"no ({cell.instead})"
        case _:
            return cell


def table() -> str:
    """The table as Markdown."""
    names = [f"[{name}]({PAGES[name]}.md)" for name in (*TRIED, *UNTRIED)]
    rows = [("", *names), ("---",) * (1 + len(names))]
    for feature, cells in FEATURES.items():
        untested = [BY_HAND.get(name, {}).get(feature, "not tried") for name in UNTRIED]
        rows.append((feature, *map(shown, cells), *untested))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(text: str) -> str:
    """A document with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def main() -> None:
    """Write the table."""
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
    sys.stdout.write(f"{DOCUMENT}\n")


if __name__ == "__main__":
    main()
