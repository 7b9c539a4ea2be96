"""Units as Python modules: a shared object and beside it a module that calls it on tensors.

`signature` reads the C function's arguments from the rendered text, `describing` turns a unit into the table that the
module's code works from, `assembling` makes the module's text of that and of `exported`, and `writing` puts it all into
a folder.
"""
