local function in_workspace(path)
  return vim.fs.root(path, 'ckwatch.toml') and 'ckwatch-template' or nil
end

vim.filetype.add({
  pattern = {
    ['.*%.hip%.j2'] = 'ckwatch-template',
    ['.*%.cu%.j2'] = 'ckwatch-template',
    ['.*%.cpp%.j2'] = 'ckwatch-template',
    -- Included files and macros: `*.j2` outside a workspace is somebody else's.
    ['.*%.j2'] = in_workspace,
    ['.*%.kernel%.toml'] = 'toml',
  },
})
