"""What a compiled code object tells without a GPU: resources, occupancy, the main loop, and what a shape makes of it.

Everything here is pure: bytes and text in, values out. `ckwatch.analyze` runs the tools that make the text.
"""
