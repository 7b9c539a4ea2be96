"""The state of one editor's session: documents, workspaces and their daemons, settings, and who follows them."""
