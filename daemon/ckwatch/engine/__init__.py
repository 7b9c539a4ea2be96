"""The running daemon: an event loop around the core that performs its effects and answers questions.

`loop` is the only caller of `step`. `handlers` has one module for each effect that runs as a task, `queries` one for
each kind of question, `watch` turns file-system events into batches of changed paths. `bootstrap` puts them together.
"""
