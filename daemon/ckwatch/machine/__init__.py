"""The daemon's behaviour: `step(state, event) -> effects`, synchronous, without I/O and without a clock.

A unit's way (`units.py`):

    waiting ─► rendering ─► looking ─► queued ─► compiling ─► done
       ▲           │           │ └───► idle (not in the store, and nobody wants it)   │
       │           ├───────────┴──────► done (errors before the compiler; equal tokens; found in the store)
       └───────────┴──── any new input: the generation grows, older work is stopped, older results are dropped

A new input that renders to the same tokens leaves a compiler of the older generation at work: white space and comments
are no input to it. Its result is then found in the store.
"""
