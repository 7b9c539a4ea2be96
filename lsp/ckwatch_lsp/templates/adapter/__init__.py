"""Answers for template documents: the pure template language with files, the daemon and the protocol."""
