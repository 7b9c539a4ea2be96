"""Verification without a GPU: an emulator that executes AMD code objects on the CPU, and the problems it is given.

`native` is the emulator, in C: a libamdhip64 of ours, which `library` builds once. `problems` derives from a unit the
shapes that find mistakes, `findings` reads what the emulator reports. The worker that loads it is `bench.verify_job`.
"""
