"""Reading `ckwatch.toml` and kernel files: every mistake at its file, line and column, all of them at once."""
