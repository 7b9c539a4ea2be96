"""`ckwatch export`: units as Python modules, and timings as JSON or CSV.

A unit becomes a shared object and beside it a module that calls it on tensors. `description` turns a unit, with the C
function's arguments as the rendered text declares them, into the table that the module's code works from; `module_text`
makes the module of that and of `exported`, and writes it; `python_module` builds the unit first. `autotune` chooses
instances of a kernel by their timings, and `autotuned_text` makes one module of them.
"""
