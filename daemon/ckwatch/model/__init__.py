"""Values that every other package shares: frozen, comparable, and free of I/O.

Nothing here imports another package of ckwatch. `garbage_collection` and `python_process` are the exceptions to the
first sentence: they concern the running interpreter, and the daemon, its workers and the language server all use them.
"""
