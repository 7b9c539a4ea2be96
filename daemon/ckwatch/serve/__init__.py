"""HTTP on the daemon's private socket."""
