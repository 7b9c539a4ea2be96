"""Answers for template documents: the pure language of `ckwatch_lsp.jinja` with files, the daemon and the protocol."""
