"""What goes over the daemon's socket: the only serialisable types.

Lines and columns count from zero, in code points.
"""
