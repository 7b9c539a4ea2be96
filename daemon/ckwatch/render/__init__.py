"""From a template and a unit to C++ text, a source map, and the files that were read."""
