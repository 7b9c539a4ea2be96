"""Compiles kernels: finds the toolchain, runs hipcc, clang++ or nvcc, and keeps what they produced.

`builder` is the way in: from the store if it is there, else compiled once and stored. `staged_build` runs the host and
the device pass side by side, `single_call` leaves it all to one call of the compiler. `flags` says what is passed and
`docs/compiling.md` why. The package itself imports nothing: a build of what is known needs little of it.
"""
