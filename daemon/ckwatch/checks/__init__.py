"""Diagnostics of a unit: what is wrong with it, and where in its template or kernel file.

Before any compiler runs, `static_checks` looks at the rendered text: parameters that nothing reads, and the instance
rules of `rules`. A compiler's output is read by `clang_output` and `nvcc_output`; `compiler` places its messages
through the source map; `fold` joins the same message of several units; `rebase` moves a stored log's places
to a text that differs in white space. Everything here is a function of its arguments: source lines come through
callables, and nothing is read or run.
"""
