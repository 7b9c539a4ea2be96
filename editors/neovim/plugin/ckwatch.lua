if vim.g.loaded_ckwatch then
  return
end
vim.g.loaded_ckwatch = true
if vim.fn.has('nvim-0.11') == 0 then
  vim.notify('ckwatch needs Neovim 0.11 or newer', vim.log.levels.ERROR)
  return
end

local group = vim.api.nvim_create_augroup('ckwatch', {})

vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = 'ckwatch://*',
  callback = function(event)
    require('ckwatch.documents').read(event.buf)
  end,
})

vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = { '*.hsaco', '*.co' },
  callback = function(event)
    require('ckwatch.documents').read_code(event.buf)
  end,
})

vim.api.nvim_create_autocmd('LspAttach', {
  group = group,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if client and client.name == 'ckwatch' then
      require('ckwatch.attach').show(client, event.buf)
    end
  end,
})

-- A buffer that a jump has filled is shown before its filetype is known.
vim.api.nvim_create_autocmd({ 'BufWinEnter', 'FileType' }, {
  group = group,
  callback = function(event)
    if next(vim.lsp.get_clients({ name = 'ckwatch' })) then
      vim.schedule(function()
        if vim.api.nvim_buf_is_loaded(event.buf) then
          require('ckwatch.headers').look(event.buf)
        end
      end)
    end
  end,
})

vim.api.nvim_create_user_command('Ckwatch', function(call)
  require('ckwatch.commands').run(call)
end, {
  nargs = '+',
  complete = function(lead, line)
    return require('ckwatch.commands').complete(lead, line)
  end,
  desc = 'Run, build, compare … units of ckwatch',
})

-- It attaches only below a folder with ckwatch.toml, so it may be on for everybody who has the plugin.
if vim.g.ckwatch_enable ~= false then
  vim.lsp.enable('ckwatch')
end
