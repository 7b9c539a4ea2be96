"""Renders a template for a unit: C++ text, its source map, and the files that were read."""
