"""Units as Python modules for users' programs, which know nothing of ckwatch.

`description` turns a unit, with the C function's arguments as the rendered text declares them, into the table that the
module's code works from; `module_text` makes the module of that and of the code in `runtime`, and writes it;
`autotuned_text` makes one module of several instances of a kernel.
"""
