"""Predictions without a GPU: what an instance will need and how long it will take, and which instance to try next."""
