"""Reads `ckwatch.toml`, kernel files and the trust list, and reports every problem at its file, line and column."""
