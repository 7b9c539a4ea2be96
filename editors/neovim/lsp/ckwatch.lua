-- The language server, for `vim.lsp.enable('ckwatch')`; `vim.lsp.config('ckwatch', {…})` changes what stands here.

---@type vim.lsp.Config
return {
  cmd = { 'ckwatch', 'lsp' },
  filetypes = { 'ckwatch-template', 'toml' },
  -- Of all TOML files only those of a workspace are meant.
  root_dir = function(buffer, on_dir)
    local root = require('ckwatch').workspace(buffer)
    if root then
      on_dir(root)
    end
  end,
  get_language_id = function(_, filetype)
    return filetype == 'toml' and 'ckwatch-kernel' or filetype
  end,
  capabilities = {
    workspace = { textDocumentContent = { dynamicRegistration = false } },
    experimental = { serverStatusNotification = true, ckwatchLineHeat = true },
  },
  -- Told to ask again, Neovim 0.12 asks for the workspace's diagnostics and drops those of buffers that are open: the
  -- server shall send them instead.
  before_init = function(params)
    params.capabilities.textDocument.diagnostic = nil
    params.capabilities.workspace.diagnostics = nil
  end,
  -- vim.lsp answers workspace/configuration from here: see |ckwatch-settings|.
  settings = { ckwatch = vim.empty_dict() },
  handlers = {
    ['experimental/serverStatus'] = function(_, status, context)
      require('ckwatch.status').update(context.client_id, status)
    end,
    ['ckwatch/lineHeat'] = function(_, params)
      require('ckwatch.heat').show(params)
    end,
    ['workspace/textDocumentContent/refresh'] = function(_, params)
      require('ckwatch.documents').refresh(params.uri)
      return vim.NIL
    end,
    ['window/showDocument'] = function(problem, params, context)
      if vim.startswith(params.uri, 'ckwatch://') then
        return { success = require('ckwatch.documents').show(params, context.client_id) }
      end
      return vim.lsp.handlers['window/showDocument'](problem, params, context)
    end,
  },
}
