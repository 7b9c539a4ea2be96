-- Runs in Neovim: each line on standard input is a JSON object {id, lua, arguments}; each answer is one, too.
local answers

local function answer(line)
  local request = vim.json.decode(line)
  local chunk, problem = loadstring(request.lua)
  local done, result = false, problem
  if chunk then
    done, result = xpcall(chunk, debug.traceback, unpack(request.arguments))
  end
  local reply = { id = request.id, done = done, result = result == nil and vim.NIL or result }
  vim.fn.chansend(answers, vim.json.encode(reply) .. '\n')
end

local rest = ''
answers = vim.fn.stdioopen({
  on_stdin = function(_, data)
    if #data == 1 and data[1] == '' then
      vim.cmd('qall!')
      return
    end
    data[1] = rest .. data[1]
    rest = table.remove(data)
    for _, line in ipairs(data) do
      -- Not from here: a callback of a channel may not wait for other channels.
      vim.schedule(function()
        answer(line)
      end)
    end
  end,
})
