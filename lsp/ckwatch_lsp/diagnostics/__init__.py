"""Diagnostics at their places in the text as it is now: from the daemon's reports to the editor.

`edit_tracking` moves places with edits, `store` merges the daemon's reports with what is shown, `reports` writes them
for the protocol, and `delivery` publishes them or answers pulls.
"""
