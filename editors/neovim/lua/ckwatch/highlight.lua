-- Jinja's tree-sitter grammar under a name of its own, so that other Jinja files keep their queries.
local M = {}

---Loads the parser; false where no Jinja parser is installed (nvim-treesitter: `:TSInstall jinja jinja_inline cpp`).
---@return boolean
function M.parser()
  local found = vim.api.nvim_get_runtime_file('parser/jinja.*', false)[1]
  if not found then
    return false
  end
  local loaded = vim.treesitter.language.add('ckwatch_template', { path = found, symbol_name = 'jinja' })
  if loaded then
    vim.treesitter.language.register('ckwatch_template', 'ckwatch-template')
  end
  return loaded == true
end

return M
