"""Timings as pictures: as text on a terminal, and as files by matplotlib, which is loaded only for them."""
