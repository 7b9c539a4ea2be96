"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import edit_to_compiler, followers, idle, machine_step, many_files, rebuilding, rendering, watching
from benchmarks.reporting import write

PROGRAMS = (rendering, rebuilding, machine_step, watching, edit_to_compiler, idle, many_files, followers)

write([row for program in PROGRAMS for row in program.measure()])
