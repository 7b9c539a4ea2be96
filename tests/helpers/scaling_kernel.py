"""The beginning of a kernel file: a vector is scaled, as a reference in Python says. Instances are to follow."""

from __future__ import annotations

SCALING = """\
template = "scale.hip.j2"
archs = ["gfx942"]
[operation]
kind = "custom"
sizes = ["N"]
reference = "reference.py:scale"
[[operation.input]]
name = "X"
dtype = "f32"
sizes = ["N"]
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]
"""
