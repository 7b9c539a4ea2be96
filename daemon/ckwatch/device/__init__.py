"""Devices as things that several processes want: who may use one now."""
