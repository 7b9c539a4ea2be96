"""Editing of templates, C++ in Jinja2.

`language` holds pure functions over texts; `adapter` applies them to files, the daemon and the protocol.
"""
