"""Small kernels of our own: they read memory, spin, fault, and push other kernels' code out of the instruction caches.

What each kind of device needs is in a module of its own: PTX, which NVIDIA's driver compiles itself; a shared object
for AMD, which hipcc makes and a client sends along; the host's own memory on the processor.
"""
