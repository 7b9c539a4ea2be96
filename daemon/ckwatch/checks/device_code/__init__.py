"""Kernels as text: where they are declared, what bounds their registers, how they are launched, which arrays they keep.

Read from C++ without a compiler, so nothing here is certain by itself: what follows from it is shown only after a
compile has confirmed it.
"""
