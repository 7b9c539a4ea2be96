"""Performance figures in the editor: hints, lenses, hovers and Information diagnostics."""
