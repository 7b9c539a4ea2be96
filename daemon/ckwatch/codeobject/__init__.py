"""Reads compiled AMD code objects without a GPU: registers, occupancy, main loop, listings.

Everything here is pure: bytes and text in, values out. `ckwatch.codeobject.tools` runs LLVM's tools, which make the
text.
"""
