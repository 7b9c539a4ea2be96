-- `:Ckwatch ACTION [UNIT] …`: the lenses' actions, typed. Each is one of the server's commands.
local M = {}

local function show_text(title)
  return function(result)
    local text = type(result) == 'table' and (result.text or result.log) or result
    if type(text) ~= 'string' or text == '' then
      return
    end
    vim.cmd('botright new')
    local buffer = vim.api.nvim_get_current_buf()
    vim.bo[buffer].buftype = 'nofile'
    vim.bo[buffer].bufhidden = 'wipe'
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(text:gsub('\n$', ''), '\n', { plain = true }))
    vim.bo[buffer].modifiable = false
    vim.api.nvim_buf_set_name(buffer, ('ckwatch %s %d'):format(title, buffer))
    vim.cmd('normal! G')
  end
end

local function list_units(units)
  local items = {}
  for _, unit in ipairs(units or {}) do
    items[#items + 1] = {
      filename = vim.uri_to_fname(unit.uri),
      lnum = unit.range.start.line + 1,
      col = 1,
      text = table.concat({ unit.active and '*' or ' ', unit.id, unit.phase, unit.text }, '  '),
      type = (unit.errors or 0) > 0 and 'E' or (unit.warnings or 0) > 0 and 'W' or 'I',
    }
  end
  vim.fn.setqflist({}, ' ', { title = 'ckwatch units', items = items })
  if #items > 0 then
    vim.cmd('botright copen')
  else
    vim.notify('ckwatch: no units')
  end
end

---Name of the action → the server's command, the names of what may be typed after it, and what its result is for.
---@type table<string, {command: string, takes?: string[], done?: fun(result: any)}>
M.actions = {
  run = { command = 'run', takes = { 'unit' } },
  build = { command = 'build', takes = { 'unit' } },
  verify = { command = 'verify', takes = { 'unit' } },
  tune = { command = 'tune', takes = { 'unit' } },
  cancel = { command = 'cancel', takes = { 'unit' } },
  baseline = { command = 'setBaseline', takes = { 'name', 'unit' } },
  compare = { command = 'compare', takes = { 'unit', 'against' }, done = show_text('compare') },
  source = { command = 'openSource', takes = { 'unit' } },
  isa = { command = 'openIsa', takes = { 'unit' } },
  profile = { command = 'openProfile', takes = { 'unit' } },
  instance = { command = 'chooseInstance', takes = { 'unit' } },
  units = { command = 'units', takes = {}, done = list_units },
  log = { command = 'showLog', takes = {}, done = show_text('log') },
  restart = { command = 'restartDaemon', takes = {} },
  trust = { command = 'trust', takes = {} },
}

---What the server is told: the document at hand and what was typed.
---@param action {takes?: string[]}
---@param words string[]
---@return table
function M.argument(action, words)
  local uri = vim.uri_from_bufnr(0)
  local argument = { uri = vim.api.nvim_buf_get_name(0) ~= '' and vim.bo.buftype ~= 'quickfix' and uri or nil }
  for index, word in ipairs(words) do
    argument[action.takes[index]] = word
  end
  return argument
end

---@param call vim.api.keyset.create_user_command.command_args
function M.run(call)
  local words = vim.list_slice(call.fargs, 2)
  local action = M.actions[call.fargs[1]]
  if not action then
    vim.notify('ckwatch: one of ' .. table.concat(M.names(), ', '), vim.log.levels.ERROR)
  elseif #words > #action.takes then
    vim.notify(('ckwatch: %s takes at most %d'):format(call.fargs[1], #action.takes), vim.log.levels.ERROR)
  else
    require('ckwatch').execute(action.command, M.argument(action, words), action.done)
  end
end

---@return string[]
function M.names()
  return vim.fn.sort(vim.tbl_keys(M.actions))
end

---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  if line:match('^%S*%s+%S*$') then
    return vim.tbl_filter(function(name)
      return vim.startswith(name, lead)
    end, M.names())
  end
  local client = require('ckwatch').client()
  local answer = client and client:request_sync('workspace/executeCommand', { command = 'ckwatch.units', arguments = { vim.empty_dict() } }, 1000)
  local units = answer and not answer.err and answer.result or {}
  return vim.tbl_filter(function(id)
    return vim.startswith(id, lead)
  end, vim.tbl_map(function(unit)
    return unit.id
  end, units))
end

return M
