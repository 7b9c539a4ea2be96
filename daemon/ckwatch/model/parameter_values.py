"""Values of template parameters; a module of their own, so that a timing is read without loading kernels."""

ParameterElement = int | str | tuple[int, ...] | tuple[str, ...]
ParameterValue = int | float | bool | str | tuple[ParameterElement, ...]
"""A template parameter: tile sizes are integers, cluster lengths tuples, pipelines strings, types of D tensors tuples
of strings. The elements of a tuple are of one kind."""
