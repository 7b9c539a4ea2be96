"""The ckwatch language server: a client of the daemon that answers one editor.

`main` serves the editor's pipes, `setup` puts a session together. `protocol` speaks LSP, `session` knows documents and
workspaces. Above them stand `templates`, `kernel_files`, `diagnostics`, `virtual_documents`, `figures` and `commands`.
"""
