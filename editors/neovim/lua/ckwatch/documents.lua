-- Generated source and ISA as buffers named by their `ckwatch:` URI, and what is in code objects. The server says what
-- the text is.
local M = {}

-- The document of a code object's file; else the buffer is named by its URI.
local function uri_of(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  if vim.startswith(name, 'ckwatch:') then
    return name
  end
  local path = vim.fs.normalize(name)
  local file, folder = vim.uri_encode(vim.fs.basename(path)), vim.uri_encode(vim.fs.dirname(path))
  return ('ckwatch://code/%s.s?folder=%s'):format(file, folder)
end

-- A document is the server's; nothing here is worth a prompt or a swap file.
local function prepare(buffer)
  vim.bo[buffer].buftype = 'nofile'
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].modifiable = false
end

local function put(buffer, text)
  local lines = vim.split(text:gsub('\n$', ''), '\n', { plain = true })
  if vim.deep_equal(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), lines) then
    return
  end
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

---Fills a buffer with what the server has; called again whenever that changes.
---@param buffer integer
---@param filled? fun()
function M.read(buffer, filled)
  local uri = uri_of(buffer)
  local client = require('ckwatch').client(buffer)
  prepare(buffer)
  if not client then
    vim.notify('ckwatch: the language server of ' .. uri .. ' does not run', vim.log.levels.WARN)
    return
  end
  client:request('workspace/executeCommand', { command = 'ckwatch.document', arguments = { { uri = uri } } }, function(problem, document)
    if not vim.api.nvim_buf_is_valid(buffer) then
      return
    end
    if problem then
      vim.notify('ckwatch: ' .. problem.message, vim.log.levels.ERROR)
      return
    end
    put(buffer, document.text)
    if vim.bo[buffer].filetype == '' then
      local kind = uri:match('^ckwatch://(%w+)/')
      vim.bo[buffer].filetype = ({ isa = 'asm', code = 'asm', profile = 'text' })[kind] or 'cpp'
    end
    vim.lsp.buf_attach_client(buffer, client.id)
    if filled then
      filled()
    end
  end)
end

---Fills the buffer of a code object's file. It needs no workspace: a server is started where none runs.
---@param buffer integer
function M.read_code(buffer)
  prepare(buffer)
  if require('ckwatch').client(buffer) then
    return M.read(buffer)
  end
  local config = vim.tbl_extend('force', vim.lsp.config.ckwatch, {
    root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(buffer)),
    on_init = function()
      M.read(buffer)
    end,
  })
  vim.lsp.start(config, { bufnr = buffer, attach = false })
end

---The server says that a document has changed.
---@param uri string
function M.refresh(uri)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) and vim.api.nvim_buf_get_name(buffer) == uri then
      M.read(buffer)
    end
  end
end

---Shows a document beside the window in use, or in the window where it is shown already.
---@param params lsp.ShowDocumentParams
---@param client_id integer
---@return boolean
function M.show(params, client_id)
  local buffer = vim.fn.bufadd(params.uri)
  local came_from = vim.api.nvim_get_current_win()
  local window = vim.fn.win_findbuf(buffer)[1]
  if window then
    vim.api.nvim_set_current_win(window)
  else
    vim.cmd('rightbelow vertical sbuffer ' .. buffer)
    window = vim.api.nvim_get_current_win()
  end
  vim.bo[buffer].buflisted = true
  if params.selection then
    local client = assert(vim.lsp.get_client_by_id(client_id))
    M.read(buffer, function()
      if vim.api.nvim_win_is_valid(window) and vim.api.nvim_win_get_buf(window) == buffer then
        local line = math.min(params.selection.start.line + 1, vim.api.nvim_buf_line_count(buffer))
        local text = vim.api.nvim_buf_get_lines(buffer, line - 1, line, false)[1]
        local column = vim.str_byteindex(text, client.offset_encoding, params.selection.start.character, false)
        vim.api.nvim_win_set_cursor(window, { line, column })
      end
    end)
  end
  if params.takeFocus == false then
    vim.api.nvim_set_current_win(came_from)
  end
  return true
end

return M
