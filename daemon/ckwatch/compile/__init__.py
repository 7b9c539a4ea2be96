"""Running hipcc and clang++: from a rendered source to an artifact, or to what the compiler said.

`builder` is the way in. `job` knows how one source is compiled and nothing of the store, `processes` how a process is
run so that nothing of it survives, `flags` what is passed and `docs/compiling.md` why. The package itself imports
nothing: a build of what is known needs little of it.
"""
