"""The code that every exported module contains, besides its description of one kernel and the function that is called.

These modules are also text: `ckwatch.exported.module_text` concatenates them into each exported module, without their
imports of each other. So they need nothing but the standard library of Python 3.10, and no two of them may give
different things one name. Dataclasses are left out: they look for their module in `sys.modules`, where a module that is
loaded by its path need not be.
"""
