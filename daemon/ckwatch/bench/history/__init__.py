"""The history of a workspace, in a SQLite file: the last result of each unit, earlier runs, artifacts, and timings."""
