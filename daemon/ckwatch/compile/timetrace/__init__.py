"""clang's time trace (`-ftime-trace`) of a compile: where the time went, template by template.

The trace is a list of events in the form of Chrome's tracing: an interval (`"ph": "X"`, `ts` and `dur` in microseconds)
for each piece of work that took at least the granularity, nested as the work was.
"""
