-- How many of a kernel's instructions each line of a template issues, as a bar in the sign column. Extmarks move with edits.
local M = {}

M.namespace = vim.api.nvim_create_namespace('ckwatch.heat')

local SIGNS = { '▏', '▎', '▌', '█' }
local LINKS = { 'DiagnosticSignHint', 'DiagnosticSignInfo', 'DiagnosticSignWarn', 'DiagnosticSignError' }

---@param heat {uri: string, lines: {line: integer, level: integer, share: number}[]}
function M.show(heat)
  local buffer = vim.uri_to_bufnr(heat.uri)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  vim.api.nvim_buf_clear_namespace(buffer, M.namespace, 0, -1)
  local count = vim.api.nvim_buf_line_count(buffer)
  for _, hot in ipairs(heat.lines) do
    if hot.line < count then
      local group = 'CkwatchHeat' .. hot.level
      vim.api.nvim_set_hl(0, group, { link = LINKS[hot.level], default = true })
      -- below the signs of diagnostics
      vim.api.nvim_buf_set_extmark(buffer, M.namespace, hot.line, 0, { sign_text = SIGNS[hot.level], sign_hl_group = group, priority = 5 })
    end
  end
end

return M
