"""The daemon's behaviour: `step(state, event) -> effects`, synchronous, without I/O and without a clock.

A unit's way (`units`):

    waiting ─► rendering ─► looking ─► queued ─► compiling ─► done
       ▲           │           │ └───► idle (not in the store, and nobody wants it)   │
       │           ├───────────┴──────► done (errors before the compiler; equal tokens; found in the store)
       └───────────┴──── any new input: the generation grows, older work is stopped, older results are dropped

A new input that renders to the same tokens leaves a compiler of the older generation at work: white space and comments
are no input to it. Its result is then found in the store.

Every handler only notes what is new; `step` then acts on a piece of it, and asks to be continued while there is more:

    news of files (`files`) ─────────► touched units ──► renewed
    loads (`loads`, `loading`) ──────► kernels, unit by unit: new, other (`inputs`), gone
    unsaved texts, options (`views`) ► units compared with the workspace's: a state of its own, or followed
    focus, cancelling (`clients`) ───► wanted, or not wanted any more
    requests (`requests`) ───────────► asked for, and told when settled (`telling`)

What there is room for is started last (`schedule`, `queue`, `tasks`).
"""
