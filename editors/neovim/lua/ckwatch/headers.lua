-- Headers that the C++ of templates includes, and templates that ship with ckwatch: the server answers in them as in
-- those of a workspace, and nobody changes them here.
local M = {}

local LANGUAGES = { [''] = true, c = true, cpp = true, cuda = true, hip = true }

---The clients of ckwatch; first those of the buffer that a jump came from.
---@return vim.lsp.Client[]
local function clients()
  local last = vim.fn.bufnr('#')
  local found = vim.lsp.get_clients({ name = 'ckwatch' })
  table.sort(found, function(one, other)
    local here, there = one.attached_buffers[last] == true, other.attached_buffers[last] == true
    return here and not there or here == there and one.id < other.id
  end)
  return found
end

---@param buffer integer
---@param client vim.lsp.Client
---@param answer {header: boolean, readOnly: boolean}
local function take(buffer, client, answer)
  if not vim.lsp.buf_is_attached(buffer, client.id) then
    vim.lsp.buf_attach_client(buffer, client.id)
  end
  -- Once: whoever makes a file writable again is not contradicted.
  if answer.readOnly and not vim.b[buffer].ckwatch_read_only then
    vim.b[buffer].ckwatch_read_only = true
    vim.bo[buffer].readonly = true
    vim.bo[buffer].modifiable = false
  end
end

---Asks one client after the other whether a buffer has what belongs to its workspace.
---@param buffer integer
---@param candidates vim.lsp.Client[]
local function ask(buffer, candidates)
  local client = table.remove(candidates, 1)
  if not client or not client.initialized then
    return
  end
  client:request('ckwatch/isHeader', { uri = vim.uri_from_bufnr(buffer) }, function(problem, answer)
    if problem or not vim.api.nvim_buf_is_loaded(buffer) then
      return
    end
    if answer.header or answer.readOnly then
      take(buffer, client, answer)
    else
      ask(buffer, candidates)
    end
  end)
end

---Looks at a buffer that is shown in a window.
---@param buffer integer
function M.look(buffer)
  local shown = vim.bo[buffer]
  local name = vim.api.nvim_buf_get_name(buffer)
  local served = #vim.lsp.get_clients({ name = 'ckwatch', bufnr = buffer }) > 0
  local template = shown.filetype == 'ckwatch-template' or vim.endswith(name, '.j2')
  if shown.buftype == '' and name ~= '' and (template or (not served and LANGUAGES[shown.filetype])) then
    ask(buffer, clients())
  end
end

return M
