"""Performance figures where they are looked at: hints, lenses, hovers and Information diagnostics."""
