-- What the server last said of the daemon, per client.
local M = {}

local known = {} ---@type table<integer, {health: string, quiescent: boolean, message?: string, folder?: string}>

---@param client_id integer
function M.update(client_id, status)
  known[client_id] = status
  vim.api.nvim_exec_autocmds('User', { pattern = 'CkwatchStatus', data = { client_id = client_id, status = status } })
  vim.cmd.redrawstatus({ bang = true })
end

---@param client? vim.lsp.Client
---@return string
function M.text(client)
  local status = client and known[client.id]
  if not status then
    return ''
  end
  local mark = ({ warning = '! ', error = '✗ ' })[status.health] or (status.quiescent and '' or '… ')
  local message = status.message or ''
  return ('ckwatch %s%s'):format(mark, message == '' and (status.quiescent and 'ready' or 'working') or message)
end

return M
