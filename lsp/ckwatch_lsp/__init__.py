"""The ckwatch language server: a client of the daemon, nothing more."""
