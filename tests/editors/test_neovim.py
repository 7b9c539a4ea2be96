"""Neovim with the real language server, daemon, compiler and example."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tools.editors.example import BRIEF_TIMING, Example
from tools.editors.neovim_session import Neovim

pytestmark = [pytest.mark.editors, pytest.mark.toolchain, pytest.mark.timeout(3600)]

INSTANCES = ("v3_128x128x64_intrawave", "v1_128x128x64_intrawave")
UNIT = f"gemm_f16/{INSTANCES[0]}@gfx942"
EPILOGUE = "ck/epilogue.j2"
CPP = "ck/gemm_kernel.j2"

UNITS_LENSES = (
    "vim.iter(vim.lsp.codelens.get({ bufnr = 0 })):any(function(one)"
    " return one.lens.command ~= nil and one.lens.command.command == 'ckwatch.run' end)"
)
"""Those of a kernel file that come when its units are known; others come before."""


def lens_at_cursor(title: str) -> str:
    """Lua expression: True if there is such a lens in the line of the cursor."""
    return (
        "vim.iter(vim.lsp.codelens.get({ bufnr = 0 })):any(function(one)"
        f" return one.lens.command and one.lens.command.title:find('^{title}')"
        " and one.lens.range.start.line + 1 == vim.fn.line('.') end)"
    )


ERRORS = "vim.diagnostic.get(0, { severity = vim.diagnostic.severity.ERROR })"
FIGURES = "vim.iter(vim.lsp.inlay_hint.get({ bufnr = 0 })):map(function(h) return h.inlay_hint.label end):join(' ')"


FLOAT = (
    "vim.api.nvim_win_is_valid(vim.b.lsp_floating_preview or -1) and"
    " table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(vim.b.lsp_floating_preview), 0, -1, false), '\\n')"
)
"""The text of a hover, or of a signature."""

HEADER = (
    "vim.endswith(vim.api.nvim_buf_get_name(0), '{}') and #vim.lsp.get_clients({{ bufnr = 0 }}) > 0 and vim.bo.readonly"
)
"""Lua expression: True if a header of this name is shown and served."""


@pytest.fixture(scope="module")
def gemm() -> Iterator[Example]:
    """Two instances of the f16 GEMM, built, and two templates of their own."""
    with Example("gemm", "gemm_f16", INSTANCES, templates=(EPILOGUE, CPP)) as made:
        made.ckwatch("build")
        yield made


@pytest.fixture
def open_file(neovim: str) -> Iterator[Open]:
    """Opens a file of an example in a Neovim of its own."""
    opened: list[Neovim] = []

    def start(example: Example, path: Path, before: str = "") -> Neovim:
        session = Neovim(neovim, path, directory=example.root, env=example.env, before=before).__enter__()
        opened.append(session)
        return session

    yield start
    for session in opened:
        session.__exit__(None, None, None)


class Open(Protocol):
    """`before` is Lua that runs before the file is opened."""

    def __call__(self, example: Example, path: Path, before: str = "") -> Neovim: ...


def substitute(nvim: Neovim, old: str, new: str) -> None:
    """Type `new` for the first `old`."""
    nvim.lua("local old, new = ...; vim.fn.cursor(1, 1); vim.cmd(('/%s/s//%s/'):format(old, new))", old, new)


def error_of(nvim: Neovim, code: str) -> Any:
    """The first error with this code, once there is one."""
    return nvim.wait_for(f"vim.iter({ERRORS}):find(function(one) return one.code == '{code}' end)")


def test_a_planted_error_is_at_its_place_and_goes_and_figures_come(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(f"({FIGURES}):find('VGPR')")
    line = gemm.line_of("MXdlPerWave = 2")
    substitute(nvim, "MXdlPerWave = 2", "MXdlPerWave = 3")
    error = error_of(nvim, "rule/m-per-block")
    assert (error["lnum"], error["col"]) == (line, len("MXdlPerWave = "))
    assert "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32" in error["message"]
    related = [one["message"] for one in error["user_data"]["lsp"]["relatedInformation"]]
    assert "MPerBlock = 128" in related
    substitute(nvim, "MXdlPerWave = 3", "MXdlPerWave = 2")
    nvim.wait_for(f"#{ERRORS} == 0")
    nvim.wait_for(f"({FIGURES}):find('190 VGPR')")


def test_a_misspelt_variable_is_shown_in_its_template(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.root / "templates" / EPILOGUE)
    nvim.wait_for("#vim.lsp.codelens.get({ bufnr = 0 }) > 0")
    nvim.lua("vim.api.nvim_buf_set_lines(0, 0, 0, false, { '// {{ activaton }}' })")
    error = nvim.wait_for(f"vim.iter({ERRORS}):find(function(one) return one.message:find('activaton') end)")
    assert (error["lnum"], error["col"], error["source"]) == (0, len("// {{ "), "ckwatch")
    nvim.lua("vim.api.nvim_buf_set_lines(0, 0, 1, false, {})")
    nvim.wait_for(f"#{ERRORS} == 0")


def test_a_place_that_another_program_asks_for_is_shown(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(f"({FIGURES}):find('VGPR')")
    epilogue = gemm.root / "templates" / EPILOGUE
    line, column = gemm.place_of("operator()", epilogue)
    shown = f"""
        vim.endswith(vim.api.nvim_buf_get_name(0), '{EPILOGUE}')
        and vim.deep_equal(vim.api.nvim_win_get_cursor(0), {{ {line + 1}, {column} }})
    """
    nvim.ask_until(lambda: gemm.show(epilogue, "operator()"), shown)


def test_a_lens_shows_the_generated_source_whose_lines_lead_back(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(UNITS_LENSES)
    nvim.lua(
        """
        vim.ui.select = function(lenses, options, choose)
          for _, lens in ipairs(lenses) do
            if options.format_item(lens):find('^source') then return choose(lens) end
          end
          error('no lens shows the source')
        end
        vim.api.nvim_win_set_cursor(0, { ... + 1, 0 })
        """,
        gemm.line_of("[[instance]]"),
    )
    nvim.wait_for(lens_at_cursor("source"))
    nvim.lua("vim.lsp.codelens.run()")
    shown = "vim.fn.bufnr('^ckwatch://source')"
    nvim.wait_for(f"{shown} > 0 and vim.api.nvim_buf_line_count({shown}) > 50")
    assert INSTANCES[0] in nvim.lua(f"return vim.api.nvim_buf_get_name({shown})")
    # on a number, of which clangd has no definition
    nvim.lua(f"vim.api.nvim_set_current_win(vim.fn.win_findbuf({shown})[1]); vim.fn.search([[MPerBlock \\*/ \\zs\\d]])")
    nvim.ask_until(lambda: nvim.lua("vim.lsp.buf.definition()"), "vim.endswith(vim.api.nvim_buf_get_name(0), '.j2')")


def test_the_listing_is_shown(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(UNITS_LENSES)
    nvim.lua("vim.cmd.Ckwatch({ args = { 'isa', ... } })", UNIT)
    shown = "vim.fn.bufnr('^ckwatch://isa')"
    text = f"table.concat(vim.api.nvim_buf_get_lines({shown}, 0, -1, false), ' ')"
    nvim.wait_for(f"{shown} > 0 and ({text}):find('v_mfma_f32_32x32x8_f16') and vim.bo[{shown}].filetype == 'asm'")


def test_a_hover_tells_figures(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(f"({FIGURES}):find('VGPR')")
    nvim.lua("vim.api.nvim_win_set_cursor(0, { ... + 1, 3 })", gemm.line_of("[[instance]]"))
    hover_until(nvim, "VGPR")


def test_completion_offers_the_keys_of_an_instance(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(f"({FIGURES}):find('VGPR')")
    nvim.lua("vim.api.nvim_buf_set_lines(0, -1, -1, false, { 'MPer' })")
    offered = nvim.lua(
        """
        local last = vim.api.nvim_buf_line_count(0) - 1
        local params = { textDocument = { uri = vim.uri_from_bufnr(0) }, position = { line = last, character = 4 } }
        local answer = vim.lsp.buf_request_sync(0, 'textDocument/completion', params, 600000)
        local _, first = next(answer)
        return vim.tbl_map(function(item) return item.label end, first.result.items)
        """
    )
    assert "MPerXDL" in offered


def test_an_action_mends_a_mistake(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(f"({FIGURES}):find('VGPR')")
    line = gemm.line_of("MXdlPerWave = 2")
    substitute(nvim, "MXdlPerWave = 2", "MXdlPerWave = 3")
    nvim.wait_for(f"#{ERRORS} > 0")
    nvim.lua("vim.api.nvim_win_set_cursor(0, { ... + 1, 14 })", line)
    mend = """
        local wanted = function(one) return one.title == 'Set MXdlPerWave to 2' end
        vim.lsp.buf.code_action({ filter = wanted, apply = true })
    """
    nvim.ask_until(lambda: nvim.lua(mend), f"vim.fn.getline({line + 1}) == 'MXdlPerWave = 2'")
    nvim.wait_for(f"#{ERRORS} == 0")


def test_a_lost_daemon_is_replaced(open_file: Open, gemm: Example) -> None:
    nvim = open_file(gemm, gemm.kernel)
    nvim.wait_for(f"({FIGURES}):find('VGPR')")
    killed = gemm.kill_daemon()
    substitute(nvim, "MXdlPerWave = 2", "MXdlPerWave = 3")
    nvim.wait_for(f"{ERRORS}[1]")
    substitute(nvim, "MXdlPerWave = 3", "MXdlPerWave = 2")
    nvim.wait_for(f"#{ERRORS} == 0")
    nvim.wait_for(f"({FIGURES}):find('190 VGPR')")
    assert gemm.status()["pid"] != killed


def test_nothing_runs_before_somebody_trusts_the_workspace(open_file: Open) -> None:
    with Example("gemm", "gemm_f16", INSTANCES[:1], trusted=False) as example:
        answer = (
            "asked = {}; vim.ui.select = function(items, options, choose)"
            " table.insert(asked, { options.prompt, items }); choose(items[1], 1) end"
        )
        nvim = open_file(example, example.kernel, answer)
        nvim.wait_for(f"({FIGURES}):find('VGPR')")
        prompt, actions = nvim.lua("return asked[1]")
        assert "not trusted" in prompt
        assert [action["title"] for action in actions] == ["Trust", "Not now"]
        assert nvim.lua("return #asked") == 1


def test_a_kernel_is_timed_and_the_time_is_in_its_line(open_file: Open) -> None:
    with Example("cpp", "gemm_f32", settings=BRIEF_TIMING) as example:
        listen = (
            "progress = {}; vim.api.nvim_create_autocmd('LspProgress', { callback = function(event)"
            " table.insert(progress, event.data.params.value) end })"
        )
        nvim = open_file(example, example.kernel, listen)
        nvim.wait_for(UNITS_LENSES)
        unit = nvim.lua(
            "return vim.iter(vim.lsp.codelens.get({ bufnr = 0 })):find(function(one)"
            " return one.lens.command.title == 'run' end).lens.command.arguments[1].unit"
        )
        nvim.lua("vim.cmd.Ckwatch({ args = { 'run', ... } })", unit)
        nvim.wait_for(f"({FIGURES}):find('[µm]s')")
        kinds = nvim.wait_for("#progress > 1 and vim.tbl_map(function(one) return one.kind end, progress)")
        assert kinds[0] == "begin"
        nvim.wait_for("require('ckwatch').statusline():find('^ckwatch ') ~= nil")


@pytest.fixture
def cpp(open_file: Open, gemm: Example) -> Neovim:
    """A template that is mostly C++, once its units are known."""
    nvim = open_file(gemm, gemm.root / "templates" / CPP)
    nvim.wait_for("#vim.lsp.codelens.get({ bufnr = 0 }) > 0")
    return nvim


def look_at(nvim: Neovim, pattern: str) -> None:
    """The cursor on the first match of a pattern of Vim's."""
    nvim.lua("vim.fn.cursor(1, 1); assert(vim.fn.search(..., 'cW') > 0, 'not in the text')", pattern)


def hover_until(nvim: Neovim, pattern: str) -> None:
    """Until a hover at the cursor fits a pattern of Lua: what needs another text of clangd comes with a later one."""
    float_until(nvim, pattern, "hover")


def float_until(nvim: Neovim, pattern: str, ask: str) -> None:
    """Until a floating window fits a pattern of Lua."""
    close = "pcall(vim.api.nvim_win_close, vim.b.lsp_floating_preview or -1, true)"
    nvim.ask_until(
        lambda: nvim.lua(f"{close} vim.lsp.buf.{ask}({{ silent = true }})"),
        f"(function() local text = {FLOAT} return text and text:find('{pattern}') and text end)()",
    )


def test_a_ck_name_is_completed_in_a_template(cpp: Neovim) -> None:
    look_at(cpp, "^struct Sizes")
    cpp.lua("vim.o.completeopt = 'menuone,noselect'")
    cpp.keys("Ousing Wanted = ck::tensor_operation::device::DeviceGemmMultiD")
    cpp.ask_until(  # a question has no answer before clangd has read the headers
        lambda: cpp.keys("<C-x><C-o>"),
        """
        vim.fn.pumvisible() == 1 and vim.iter(vim.fn.complete_info().items):any(function(one)
          return vim.startswith(one.word, 'DeviceGemmMultiD_Xdl_CShuffle_V3')
        end)
        """,
    )
    cpp.keys("<C-n><C-y>")
    cpp.wait_for("vim.fn.getline('.'):find('device::DeviceGemmMultiD_Xdl_CShuffle_V3', 1, true) ~= nil")


def test_a_hover_tells_the_value_in_the_chosen_instance_and_in_others(cpp: Neovim) -> None:
    look_at(cpp, r"int \zsminimum_occupancy = {{ 2")
    for instance, value, other in ((INSTANCES[0], 2, 1), (INSTANCES[1], 1, 2)):
        cpp.lua("vim.cmd.Ckwatch({ args = { 'instance', ... } })", f"gemm_f16/{instance}@gfx942")
        hover_until(cpp, f"Value = `{value}`.*other instances.*Value = `{other}`")


def follow_to(nvim: Neovim, name: str) -> None:
    """Go to the definition, in a header: Neovim waits a second for it."""
    follow = "vim.cmd.normal({ vim.keycode('<C-]>'), bang = true, mods = { emsg_silent = true } })"
    nvim.ask_until(lambda: nvim.lua(follow), HEADER.format(name))


def test_definitions_lead_through_headers_of_ck_and_back(cpp: Neovim) -> None:
    look_at(cpp, r"Gridwise::\zsCalculateGridSize")
    hover_until(cpp, "CalculateGridSize")  # clangd reads the headers first
    follow_to(cpp, "/gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp")
    cpp.keys("x")
    assert cpp.lua("return { vim.bo.modifiable, vim.bo.modified }") == [False, False]
    hover_until(cpp, "static auto CalculateGridSize")
    cpp.lua("vim.fn.search('index_t', 'W')")
    hover_until(cpp, "index_t")
    follow_to(cpp, "/ck/ck.hpp")
    cpp.keys("<C-t><C-t>")
    cpp.wait_for(f"vim.endswith(vim.api.nvim_buf_get_name(0), '{CPP}')")


def test_the_calls_parameters_are_shown(cpp: Neovim) -> None:
    look_at(cpp, r"CalculateGridSize(argument.M, \zs")
    float_until(cpp, "CalculateGridSize%(index_t M, index_t N, index_t KBatch%)", "signature_help")


def test_a_name_is_renamed_and_why_another_one_is_not(cpp: Neovim) -> None:
    cpp.lua("told = {}; vim.notify = function(text) table.insert(told, text) end")
    look_at(cpp, r"constexpr auto \zskernel = ")
    changed = "vim.fn.search([[constexpr auto chosen = \\_.*hipLaunchKernelGGL(chosen,]], 'n') > 0"
    cpp.ask_until(lambda: cpp.lua("vim.lsp.buf.rename('chosen')"), changed)
    # what a tag of Jinja writes is not changed
    look_at(cpp, r"SplitKBatchOffset \zsoffset")
    refused = "vim.iter(told):any(function(one) return one:find('offset.a_k_split_offset', 1, true) end)"
    cpp.ask_until(lambda: cpp.lua("vim.lsp.buf.rename('shift')"), refused)


def test_the_outline_and_the_colours_are_those_of_cpp(cpp: Neovim) -> None:
    look_at(cpp, r"struct \zsSizes")
    group = "vim.iter(vim.inspect_pos().semantic_tokens):map(function(one) return one.opts.hl_group end):join(' ')"
    cpp.wait_for(f"({group}):find('@lsp.type.class', 1, true)")
    listed = "vim.iter(vim.fn.getloclist(0)):map(function(one) return one.text end):join(' ')"
    cpp.ask_until(
        lambda: cpp.lua("vim.lsp.buf.document_symbol()"),
        f"{listed}:find('KernelArgument') and {listed}:find('minimum_occupancy')",
    )


def test_a_code_object_is_its_figures_outside_of_a_workspace(neovim: str, tmp_path: Path) -> None:
    for path in (Path(__file__).parents[1] / "data/triton").glob("matmul_kernel.*"):
        shutil.copy(path, tmp_path)
    path = tmp_path / "matmul_kernel.hsaco"
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with Neovim(neovim, path, directory=tmp_path, env=env) as nvim:
        nvim.wait_for("vim.fn.search('v_mfma') > 0 and #vim.lsp.get_clients({ bufnr = 0 }) > 0")
        assert nvim.lua("return vim.fn.getline(1)") == "; matmul_kernel.hsaco, gfx942 (Triton: 4 warps, 4 KiB LDS)"
        assert nvim.lua("return { vim.bo.modifiable, vim.bo.filetype }") == [False, "asm"]
        nvim.lua("vim.fn.search('v_mfma', 'c')")
        hover_until(nvim, "from `/kernels/kernels%.py:42:1`")
