"""The daemon's decisions: `step(state, event) -> effects`, synchronous, without I/O and without a clock.

`phases` has the way of a unit from a new input to a result, and the table of its phases; `units` goes it. What the
daemon knows of a unit is in `unit_state`, all the rest in `state`.

Every handler only notes what changed; `step` then acts on a bounded piece of it, and asks to be continued while there
is more:

    changed files (`files`, `graph`) ────► units with a new input ──► renewed
    loads (`loading`) ───────────────────► kernels, unit by unit: new, changed, removed
    unsaved texts, options (`views`) ────► units compared with the workspace's: a state of their own, or followed
    focus, cancelling (`clients`) ───────► wanted, or no longer wanted (`demand`)
    build requests (`build_requests`) ───► requested, and answered when settled (`notify`)

Work that there is room for is started last (`schedule`, `analysis_schedule`, `timing_schedule`). What holds
after every step is in `tests/core/invariants.py`.
"""
