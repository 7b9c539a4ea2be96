"""The daemon's decisions: `step(state, event) -> effects`, synchronous, without I/O and without a clock.

A unit goes through these phases (`units`):

    waiting ─► rendering ─► looking ─► queued ─► compiling ─► done
       ▲           │           │ └───► idle (not in the store, and nobody wants it)   │
       │           ├───────────┴──────► done (errors before the compiler; equal tokens; found in the store)
       └───────────┴──── any new input: the generation grows, older work is stopped, older results are dropped

A new input that renders to the same tokens leaves a compiler of the older generation at work: white space and comments
are no input to it. Its result is then found in the store.

Every handler only notes what changed; `step` then acts on a bounded piece of it, and asks to be continued while there
is more:

    changed files (`files`, `graph`) ────► units with a new input ──► renewed
    loads (`loading`) ───────────────────► kernels, unit by unit: new, changed, removed
    unsaved texts, options (`views`) ────► units compared with the workspace's: a state of their own, or followed
    focus, cancelling (`clients`) ───────► wanted, or not wanted any more (`demand`)
    build requests (`build_requests`) ───► asked for, and answered when settled (`notify`)

What there is room for is started last (`schedule`, `analysis_schedule`, `timing_schedule`). `invariants` says what
holds after every step; tests check it each time.
"""
