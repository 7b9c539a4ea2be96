-- Jinja's tree-sitter grammar under a name of its own, so that other Jinja files keep their queries, with C++ in
-- what is not Jinja. There are several grammars called `jinja`: a node of each tells which one is installed.
local M = {}

local LANGUAGE = 'ckwatch_template'

local CPP = '((%s) @injection.content (#set! injection.language "cpp") (#set! injection.combined))\n'

local GRAMMARS = {
  -- https://github.com/cathaysia/tree-sitter-jinja, which nvim-treesitter installs
  render_expression = {
    -- What is not Jinja has a node in some of its versions, and is what a definition has beside nodes in others.
    cpp = { 'words', 'definition' },
    highlights = [[
      [ "{{" "{{-" "{{+" "}}" "-}}" "+}}" "{%" "{%-" "{%+" "%}" "-%}" "+%}" ] @keyword.directive
      (statement) @keyword
      (string_literal) @string
      (number_literal) @number
      (identifier) @variable.parameter
      (comment) @comment
    ]],
  },
  -- the package tree-sitter-jinja of the Python index
  template_data = {
    cpp = { 'template_data' },
    highlights = [[
      [ (block_begin) (block_end) (variable_begin) (variable_end) ] @keyword.directive
      (tag_name) @keyword
      (identifier) @variable.parameter
      (filter_call filter: (identifier) @function)
      (string) @string
      [ (integer) (float) ] @number
      (comment) @comment
    ]],
  },
}

---Sets the queries for the grammar that has these nodes.
---@param named table<string, boolean>
---@return boolean whether it is one that is known
local function set_queries(named)
  for node, grammar in pairs(GRAMMARS) do
    if named[node] then
      local injections = ''
      for _, content in ipairs(grammar.cpp) do
        injections = injections .. (named[content] and CPP:format(content) or '')
      end
      vim.treesitter.query.set(LANGUAGE, 'injections', injections)
      vim.treesitter.query.set(LANGUAGE, 'highlights', grammar.highlights)
      return true
    end
  end
  return false
end

---Loads the parser; false where no Jinja parser is installed (nvim-treesitter: `:TSInstall jinja cpp`).
---@return boolean
function M.parser()
  local found = vim.api.nvim_get_runtime_file('parser/jinja.*', false)[1]
  if not found or not vim.treesitter.language.add(LANGUAGE, { path = found, symbol_name = 'jinja' }) then
    return false
  end
  local named = {}
  for name, is_named in pairs(vim.treesitter.language.inspect(LANGUAGE).symbols) do
    named[name] = is_named or nil
  end
  local known, ok = pcall(set_queries, named)
  if not known or not ok then
    return false
  end
  vim.treesitter.language.register(LANGUAGE, 'ckwatch-template')
  return true
end

return M
