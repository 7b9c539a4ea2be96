"""Neovim's plugin against a scripted server: what the editor itself has to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.editors.neovim_session import Neovim
from tools.editors.stage import Stage

pytestmark = pytest.mark.editors

READY = "(vim.lsp.get_clients({ name = 'ckwatch' })[1] or {}).initialized"


@pytest.fixture
def nvim(neovim: str, stage: Stage) -> Iterator[Neovim]:
    """Neovim with the stage's template open and its server initialised."""
    with Neovim(neovim, stage.template, directory=stage.folder, env=stage.env) as session:
        session.wait_for(READY)
        yield session


def screen(nvim: Neovim) -> str:
    """Return the screen as a person would see it."""
    return str(
        nvim.lua(
            """
            vim.cmd.redraw({ bang = true })
            local lines = {}
            for row = 1, vim.o.lines do
              local cells = {}
              for column = 1, vim.o.columns do
                cells[column] = vim.fn.screenstring(row, column)
              end
              lines[row] = (table.concat(cells):gsub('%s+$', ''))
            end
            return table.concat(lines, '\\n')
            """
        )
    )


def test_files_of_a_workspace_and_no_others_are_served(nvim: Neovim, stage: Stage) -> None:
    foreign = stage.folder / "elsewhere"
    foreign.mkdir()
    for name in ("pyproject.toml", "page.j2"):
        (foreign / name).write_text("x = 1\n")
    rows = [
        (stage.template, "ckwatch-template", 1),
        (stage.macros, "ckwatch-template", 1),
        (stage.kernel, "toml", 1),
        (stage.root / "ckwatch.toml", "toml", 1),
        (foreign / "pyproject.toml", "toml", 0),
        (foreign / "page.j2", "", 0),
    ]
    for path, filetype, clients in rows:
        nvim.lua("vim.cmd.edit(vim.fn.fnameescape(...))", str(path))
        found = nvim.wait_for(
            f"#vim.lsp.get_clients({{ bufnr = 0 }}) == {clients} and {{ vim.bo.filetype, #vim.lsp.get_clients() }}"
        )
        assert found == [filetype, 1], path
    opened = {
        Path(one["textDocument"]["uri"]).name: one["textDocument"] for one in stage.received("textDocument/didOpen", 4)
    }
    assert {name: one["languageId"] for name, one in opened.items()} == {
        "kernel.hip.j2": "ckwatch-template",
        "macros.j2": "ckwatch-template",
        "gemm.kernel.toml": "ckwatch-kernel",
        "ckwatch.toml": "ckwatch-kernel",
    }


def test_errors_hints_and_lenses_are_on_the_screen(nvim: Neovim) -> None:
    nvim.wait_for("#vim.diagnostic.get(0) == 1 and #vim.lsp.codelens.get({ bufnr = 0 }) == 3")
    nvim.wait_for("#vim.lsp.inlay_hint.get({ bufnr = 0 }) > 0")
    lines = screen(nvim).splitlines()
    hinted = next(number for number, line in enumerate(lines) if "first 41.57 µs line of {{ name }}" in line)
    assert "run | setBaseline | openSource" in lines[hinted - 1]
    wrong = next(line for line in lines if "second µ WRONG line" in line)
    assert "128 % (32 * 3) is not 0" in wrong
    place = nvim.lua("local d = vim.diagnostic.get(0)[1] return { d.lnum, d.col, d.code, d.source }")
    assert place == [1, len("second µ ".encode()), "rule/divides", "ckwatch"]


def test_related_information_is_in_the_float(nvim: Neovim) -> None:
    nvim.wait_for("#vim.diagnostic.get(0) == 1")
    text = nvim.lua(
        """
        vim.api.nvim_win_set_cursor(0, { 2, 12 })
        local buffer = vim.diagnostic.open_float()
        return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\\n')
        """
    )
    assert "kernel.hip.j2:1:1: because of this" in text


def test_a_lens_runs_and_hints_follow(nvim: Neovim, stage: Stage) -> None:
    nvim.wait_for("#vim.lsp.codelens.get({ bufnr = 0 }) == 3")
    nvim.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end; vim.lsp.codelens.run()")
    nvim.wait_for("(vim.lsp.inlay_hint.get({ bufnr = 0 })[1] or { inlay_hint = {} }).inlay_hint.label == '42.57 µs'")
    assert stage.commands() == [("run", {"uri": stage.template.as_uri()})]


def test_new_hints_are_drawn_though_the_screen_was_before_they_came(nvim: Neovim) -> None:
    """Neovim keeps hints of the same text that it draws between the server's word that there are others and these."""
    nvim.wait_for("#vim.lsp.inlay_hint.get({ bufnr = 0 }) > 0")
    assert "first 41.57 µs line" in screen(nvim)
    nvim.lua(
        """
        local client = vim.lsp.get_clients({ name = 'ckwatch' })[1]
        local method = 'workspace/inlayHint/refresh'
        local usual = client.handlers[method] or vim.lsp.handlers[method]
        client.handlers[method] = function(...)
          local answer = usual(...)
          vim.cmd.redraw({ bang = true })
          return answer
        end
        vim.cmd.Ckwatch('run')
        """
    )
    nvim.wait_for("(vim.lsp.inlay_hint.get({ bufnr = 0 })[1] or { inlay_hint = {} }).inlay_hint.label == '42.57 µs'")
    assert "first 42.57 µs line" in screen(nvim)


def test_heat_stands_in_the_sign_column_and_moves_with_the_text(nvim: Neovim) -> None:
    signs = (
        "vim.tbl_map(function(one) return { one[2], vim.trim(one[4].sign_text), one[4].sign_hl_group } end,"
        " vim.api.nvim_buf_get_extmarks(0, require('ckwatch.heat').namespace, 0, -1, { details = true }))"
    )
    nvim.lua("vim.cmd.Ckwatch('run')")
    nvim.wait_for(f"#{signs} == 2")
    assert nvim.lua(f"return {signs}") == [[0, "█", "CkwatchHeat4"], [3, "▏", "CkwatchHeat1"]]
    nvim.lua("vim.api.nvim_buf_set_lines(0, 1, 1, false, { 'more', 'lines' })")
    assert [line for line, *_ in nvim.lua(f"return {signs}")] == [0, 5]


def test_typed_actions_are_the_servers_commands(nvim: Neovim, stage: Stage) -> None:
    here = {"uri": stage.template.as_uri()}
    rows = [
        ("run gemm/v3", ("run", {**here, "unit": "gemm/v3"})),
        ("build", ("build", here)),
        ("cancel", ("cancel", here)),
        ("baseline before", ("setBaseline", {**here, "name": "before"})),
        ("isa", ("openIsa", here)),
        ("profile", ("openProfile", here)),
        ("instance gemm/v3@gfx942", ("chooseInstance", {**here, "unit": "gemm/v3@gfx942"})),
        ("restart", ("restartDaemon", here)),
        ("trust", ("trust", here)),
    ]
    for typed, _ in rows:
        nvim.lua("vim.cmd.Ckwatch({ args = vim.split(..., ' ') })", typed)
    # The server answers in order: when this has its answer, the others have been written down.
    nvim.lua("vim.cmd.Ckwatch('log')")
    nvim.wait_for("vim.api.nvim_buf_get_lines(0, 0, -1, false)[1] == 'text of showLog'")
    assert stage.commands()[:-1] == [expected for _, expected in rows]


def test_units_are_in_the_quickfix_list(nvim: Neovim, stage: Stage) -> None:
    nvim.wait_for("#vim.diagnostic.get(0) == 1")
    nvim.lua("vim.cmd.Ckwatch('units')")
    nvim.wait_for("#vim.fn.getqflist() == 1")
    entry = nvim.lua("local e = vim.fn.getqflist()[1] return { vim.fn.bufname(e.bufnr), e.lnum, e.text }")
    assert entry[0].endswith("kernel.hip.j2")
    assert entry[1:] == [3, "*  gemm/v3@gfx942  done  41.57 µs"]


def test_mistyped_actions_are_told(nvim: Neovim) -> None:
    actions = "baseline, build, cancel, compare, instance, isa, log, profile, restart, run, source, trust, tune, units, verify"
    nvim.lua("told = {}; vim.notify = function(text) table.insert(told, text) end")
    nvim.lua("vim.cmd.Ckwatch('rum'); vim.cmd.Ckwatch({ args = { 'build', 'a', 'b' } })")
    assert nvim.lua("return told") == [
        f"ckwatch: one of {actions}",
        "ckwatch: build takes at most 1",
    ]


def test_completion_knows_actions_and_units(nvim: Neovim) -> None:
    nvim.wait_for("#vim.diagnostic.get(0) == 1")
    assert nvim.lua("return vim.fn.getcompletion('Ckwatch b', 'cmdline')") == ["baseline", "build"]
    assert nvim.lua("return vim.fn.getcompletion('Ckwatch run ge', 'cmdline')") == ["gemm/v3@gfx942"]


def test_generated_source_is_a_live_buffer_beside_the_template(nvim: Neovim, stage: Stage) -> None:
    nvim.lua("vim.cmd.Ckwatch('source')")
    uri = f"ckwatch://source/gemm/v3@gfx942.hip?folder={stage.root.as_uri().removeprefix('file://')}"
    shown = "vim.fn.bufnr('^ckwatch://source')"
    lines = f"vim.api.nvim_buf_get_lines({shown}, 0, -1, false)"
    nvim.wait_for(f"{shown} > 0 and {lines}[1] == '// run 0'")
    assert nvim.lua(f"return vim.api.nvim_buf_get_name({shown})") == uri
    assert nvim.lua(f"return {{ vim.bo[{shown}].filetype, vim.bo[{shown}].modifiable }}") == ["cpp", False]
    assert nvim.lua("return #vim.api.nvim_tabpage_list_wins(0)") == 2
    assert nvim.lua("return vim.fn.expand('%:t')") == "kernel.hip.j2"
    nvim.wait_for(f"#vim.diagnostic.get({shown}) == 1")  # it is a document like any other
    nvim.lua("vim.cmd.Ckwatch('run')")
    nvim.wait_for(f"{lines}[1] == '// run 1'")
    assert nvim.lua(f"return {lines}[2]") == "int main() {} // WRONG"


def test_statusline_says_what_the_daemon_does(nvim: Neovim) -> None:
    nvim.wait_for("require('ckwatch').statusline() == 'ckwatch … 2 units'")
    nvim.lua("vim.cmd.Ckwatch('run')")
    nvim.wait_for("require('ckwatch').statusline() == 'ckwatch run 1'")


def test_health_says_that_the_server_runs(nvim: Neovim, stage: Stage) -> None:
    nvim.lua("vim.cmd('checkhealth ckwatch')")
    text = nvim.wait_for(
        "(function() local t = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')"
        " return t:find('runs for') and t end)()"
    )
    assert f"runs for {stage.root}" in text
    assert "ERROR" not in text


def test_health_says_how_to_get_ckwatch(neovim: str, stage: Stage) -> None:
    with Neovim(neovim, directory=stage.folder, env={**stage.env, "PATH": "/nowhere:/usr/bin:/bin"}) as nvim:
        nvim.lua("vim.cmd('checkhealth ckwatch')")
        text = nvim.lua("return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')")
    assert "ckwatch is not on the PATH" in text
    assert "uv tool install ./ckwatch" in text


def test_the_help_has_its_tags(neovim: str, stage: Stage) -> None:
    with Neovim(neovim, directory=stage.folder, env=stage.env) as nvim:
        for tag in ("ckwatch", ":Ckwatch", "ckwatch-settings", "ckwatch-statusline", "ckwatch-generated"):
            nvim.lua("vim.cmd.help(...)", tag)
            assert nvim.lua("return vim.fn.expand('%:t')") == "ckwatch.txt"


def test_templates_are_highlighted_without_tree_sitter(nvim: Neovim) -> None:
    names = nvim.lua(
        """
        local function name(line, column)
          return vim.fn.synIDattr(vim.fn.synID(line, column, 1), 'name')
        end
        return { name(1, 15), name(1, 19), name(3, 5), name(3, 20), name(4, 1) }
        """
    )
    assert names == ["ckwatchJinjaMark", "ckwatchJinjaOutput", "ckwatchJinjaComment", "ckwatchJinjaComment", "cType"]
