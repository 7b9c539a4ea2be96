"""Reads what others measured: files of other tuners, and which kernels and instances here they are about."""
