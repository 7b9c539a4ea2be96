"""Timings as charts: as text on a terminal, and as files by matplotlib, which is loaded only for them."""
