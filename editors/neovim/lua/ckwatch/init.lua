-- What other parts of the plugin and a user's configuration ask: which workspace, which client, what to show.
local M = {}

---The folder of a `ckwatch:` URI, which names it, or the nearest one with a `ckwatch.toml`.
---@param buffer integer
---@return string?
function M.workspace(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  local folder = name:match('^ckwatch://.*[?&]folder=([^&]*)')
  if folder then
    return vim.uri_decode(folder)
  end
  return vim.fs.root(buffer, 'ckwatch.toml')
end

---The language server of a buffer's workspace; where the buffer belongs to none, that which serves it, or any.
---@param buffer? integer
---@return vim.lsp.Client?
function M.client(buffer)
  local root = M.workspace(buffer or 0)
  local clients = vim.lsp.get_clients({ name = 'ckwatch' })
  for _, client in ipairs(clients) do
    if root and client.root_dir and vim.fs.normalize(client.root_dir) == vim.fs.normalize(root) then
      return client
    end
  end
  return root == nil and (vim.lsp.get_clients({ name = 'ckwatch', bufnr = buffer or 0 })[1] or clients[1]) or nil
end

---Asks the server to execute a command; `done` gets its result.
---@param command string without `ckwatch.`
---@param argument table
---@param done? fun(result: any)
function M.execute(command, argument, done)
  local client = M.client()
  if not client then
    vim.notify('ckwatch: no language server runs here; :checkhealth ckwatch says why', vim.log.levels.WARN)
    return
  end
  local request = { command = 'ckwatch.' .. command, arguments = { vim.tbl_isempty(argument) and vim.empty_dict() or argument } }
  client:request('workspace/executeCommand', request, function(problem, result)
    if problem then
      vim.notify('ckwatch: ' .. problem.message, vim.log.levels.ERROR)
    elseif done then
      done(result ~= vim.NIL and result or nil)
    end
  end)
end

---What the daemon is doing, for a statusline: `%{v:lua.require'ckwatch'.statusline()}`.
---@return string
function M.statusline()
  return require('ckwatch.status').text(M.client())
end

return M
