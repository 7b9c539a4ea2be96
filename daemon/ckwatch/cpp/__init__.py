"""C++ in templates: clangd on rendered texts, and the way of places there and back."""
