"""The asynchronous shell around the state machine: one inbox, one caller of `step`, a task for each piece of work."""
