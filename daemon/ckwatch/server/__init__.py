"""The daemon's HTTP server on a Unix socket, and the daemon's life from the lock to the last file."""

ENDED = 0
"""The exit status of a daemon that did its work."""

TAKEN = 3
"""Another daemon has the workspace."""
