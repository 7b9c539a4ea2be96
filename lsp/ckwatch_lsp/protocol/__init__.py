"""Speaks LSP with one editor: messages, position encodings, URIs, and what the editor can do.

Nothing here knows of workspaces or of the daemon.
"""
