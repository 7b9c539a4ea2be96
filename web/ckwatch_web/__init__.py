"""The page: `ckwatch web` shows in a browser what the daemon knows, as one more client of it."""
