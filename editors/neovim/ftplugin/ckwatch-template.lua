if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = true
vim.b.undo_ftplugin = 'setlocal commentstring< comments< suffixesadd< matchpairs<'

vim.bo.commentstring = '// %s'
vim.bo.comments = 'sO:* -,mO:*  ,exO:*/,s1:/*,mb:*,ex:*/,s1:{#-,ex:-#},s1:{#,ex:#},:///,://'
vim.bo.suffixesadd = '.j2'
vim.opt_local.matchpairs:append('<:>')

-- With tree-sitter parsers for Jinja and C++ the text is highlighted by them, else by syntax/ckwatch-template.vim.
if require('ckwatch.highlight').parser() then
  vim.treesitter.start(0, 'ckwatch_template')
end
