"""HTTP on the daemon's private socket."""

ENDED = 0
"""The exit status of a daemon that did its work."""

TAKEN = 3
"""Another daemon has the workspace."""
