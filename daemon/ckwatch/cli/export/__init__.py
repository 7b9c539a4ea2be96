"""`ckwatch export`: units as Python modules, and timings as JSON or CSV.

`python_module` builds a unit and has `ckwatch.exported` write its module; `autotune` chooses instances of a kernel by
their timings.
"""
