"""The running daemon: an event loop around the core that performs its effects and answers questions.

`loop` is the only caller of `step`. `handlers` has one module for each effect that is work, `queries` one for each
question of a client, `watch` turns file-system events into batches of changed paths. `bootstrap` opens all of it in
order.
"""
