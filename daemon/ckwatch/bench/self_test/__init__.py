"""The self-test of a device: every assumption about its runtime is tried, in workers as measurements are."""
