-- What is switched on in a buffer of a workspace: hints, lenses, completion, and messages at the end of their lines.
local M = {}

---Neovim 0.11 shows lenses when it is asked to; 0.12 by itself.
local function lenses(client, buffer)
  if vim.lsp.codelens.enable then
    vim.lsp.codelens.enable(true, { bufnr = buffer })
    return
  end
  local function ask()
    if vim.api.nvim_buf_is_valid(buffer) and not client:is_stopped() then
      vim.lsp.codelens.refresh({ bufnr = buffer })
    end
  end
  local group = vim.api.nvim_create_augroup('ckwatch.lenses.' .. buffer, {})
  vim.api.nvim_create_autocmd({ 'BufEnter', 'InsertLeave', 'BufWritePost' }, { group = group, buffer = buffer, callback = ask })
  client.handlers['workspace/codeLens/refresh'] = function()
    for _, attached in ipairs(vim.lsp.get_buffers_by_client_id(client.id)) do
      vim.lsp.codelens.refresh({ bufnr = attached })
    end
    return vim.NIL
  end
  ask()
end

---The instance with the cursor has lenses: the server is told its line.
local function cursor(client, buffer)
  local told
  local group = vim.api.nvim_create_augroup('ckwatch.cursor.' .. buffer, {})
  vim.api.nvim_create_autocmd({ 'BufEnter', 'CursorMoved' }, {
    group = group,
    buffer = buffer,
    callback = function()
      vim.schedule(function()
        local line = vim.api.nvim_get_current_buf() == buffer and vim.fn.line('.') - 1 or told
        if line ~= told and not client:is_stopped() then
          told = line
          client:notify('ckwatch/cursor', { uri = vim.uri_from_bufnr(buffer), position = { line = line, character = 0 } })
        end
      end)
    end,
  })
end

---Told that there are other hints, Neovim takes its lines for not drawn before it has these: what it draws meanwhile stays.
---Enabled once more it forgets the hints that it has, and the screen keeps them until there are others.
local function hints(client, buffer)
  vim.lsp.inlay_hint.enable(true, { bufnr = buffer })
  client.handlers['workspace/inlayHint/refresh'] = function()
    for attached in pairs(client.attached_buffers) do
      if vim.lsp.inlay_hint.is_enabled({ bufnr = attached }) then
        vim.lsp.inlay_hint.enable(true, { bufnr = attached })
      end
    end
    return vim.NIL
  end
end

---@param client vim.lsp.Client
---@param buffer integer
function M.show(client, buffer)
  if vim.g.ckwatch_hints ~= false and client:supports_method('textDocument/inlayHint') then
    hints(client, buffer)
  end
  if vim.g.ckwatch_lenses ~= false and client:supports_method('textDocument/codeLens') then
    lenses(client, buffer)
    cursor(client, buffer)
  end
  if client:supports_method('textDocument/completion') then
    -- What is accepted is expanded where it is a snippet.
    vim.lsp.completion.enable(true, client.id, buffer, { autotrigger = vim.g.ckwatch_autotrigger == true })
  end
  if vim.g.ckwatch_virtual_text ~= false then
    vim.diagnostic.config({ virtual_text = true }, vim.lsp.diagnostic.get_namespace(client.id))
  end
end

return M
