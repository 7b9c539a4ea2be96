"""Values that every other package shares: frozen, comparable, and free of I/O.

Nothing here imports another package of ckwatch. `garbage_collection` is the exception to the first sentence: it
concerns the running interpreter, and the daemon and the language server both use it.
"""
