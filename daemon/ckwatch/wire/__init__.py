"""The daemon's socket: the only serializable types, the socket's address, and the daemon's readiness.

Lines and columns count from zero, in code points.
"""
