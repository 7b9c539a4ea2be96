"""What the editor can have done: builds, timings, comparisons, and what concerns daemons."""
