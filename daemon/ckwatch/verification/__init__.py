"""Verification without a GPU: an emulator that executes AMD code objects on the CPU, and the problems it is given.

`native` is the emulator, in C: a libamdhip64 of ours, which `library` builds once. `problems` derives from a unit the
shapes that find mistakes. `session` gives them to a `worker`, which loads the emulator (`device`) in place of HIP and
judges each result (`verify_job`). `findings` reads what the emulator reports, `places` finds the lines.
"""
