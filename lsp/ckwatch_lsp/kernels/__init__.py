"""Answers for kernel files and `ckwatch.toml`: the language of `ckwatch_lsp.kernel_file` with files and the daemon."""
