"""C++ in templates, kernel files, rendered sources and headers, as the daemon's clangd knows it."""
