"""Editing of kernel files and `ckwatch.toml`.

`language` holds pure functions over texts; `adapter` applies them to files, the daemon and the protocol.
"""
