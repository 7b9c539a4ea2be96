"""Value types that every room shares: frozen, comparable, without I/O."""
