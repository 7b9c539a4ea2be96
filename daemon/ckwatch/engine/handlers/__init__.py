"""Performs the core's effects: one module for each kind of work, which ends in one event."""
