"""Finds the fastest instance in few measurements: search spaces, strategies, and what is learned from the results."""
