"""A kernel's inputs, and whether its outputs are right: numpy on the host, without a device.

The generator, its ranges and the tolerance are those of the standalone runner
(`ckwatch_templates/runner/runner_main.j2`), so that both say the same of a kernel.
"""
