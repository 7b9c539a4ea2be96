"""Commands that the editor runs: builds, timings, comparisons, and control of daemons."""
