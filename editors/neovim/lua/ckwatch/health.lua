local M = {}

function M.check()
  local health = vim.health
  health.start('ckwatch')
  if vim.fn.has('nvim-0.11') == 1 then
    health.ok('Neovim ' .. tostring(vim.version()))
  else
    health.error('Neovim 0.11 or newer is needed; this is ' .. tostring(vim.version()))
    return
  end

  local command = vim.lsp.config.ckwatch.cmd
  local program = type(command) == 'table' and command[1] or nil
  if program and vim.fn.executable(program) == 1 then
    local version = vim.system({ program, '--version' }, { text = true }):wait(10000)
    health.ok(('%s: %s'):format(vim.fn.exepath(program), vim.trim(version.stdout or '')))
    health.info('`ckwatch doctor` says whether the compiler and the devices are usable')
  elseif program then
    health.error(program .. ' is not on the PATH', {
      'install it from a clone: uv tool install ./ckwatch',
      "or name it: vim.lsp.config('ckwatch', { cmd = { '/path/to/ckwatch', 'lsp' } })",
    })
  end

  if vim.lsp.is_enabled('ckwatch') then
    health.ok('the language server is enabled')
  else
    health.warn('the language server is not enabled', "vim.lsp.enable('ckwatch')")
  end
  local clients = vim.lsp.get_clients({ name = 'ckwatch' })
  for _, client in ipairs(clients) do
    local said = require('ckwatch.status').text(client)
    health.ok(('runs for %s%s'):format(client.root_dir, said ~= '' and ': ' .. said or ''))
  end
  if #clients == 0 then
    health.info('no language server runs: it starts with the first template or kernel file below a folder with ckwatch.toml')
  end

  if require('ckwatch.highlight').parser() then
    local cpp = vim.treesitter.language.add('cpp')
    if cpp then
      health.ok('templates are highlighted by tree-sitter: Jinja with C++ in it')
    else
      health.warn('no tree-sitter parser for C++: only the Jinja parts are highlighted', ':TSInstall cpp')
    end
  else
    health.info('no tree-sitter parser for Jinja: templates are highlighted by syntax/ckwatch-template.vim')
  end
end

return M
