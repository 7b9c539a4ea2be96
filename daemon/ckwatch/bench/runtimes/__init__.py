"""One module per kind of device; `protocol` is what they have in common."""
