"""Answers for kernel files and `ckwatch.toml`: the pure language with files, the daemon and the protocol."""
