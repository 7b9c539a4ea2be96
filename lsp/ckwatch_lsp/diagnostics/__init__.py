"""What is wrong, where it is in the text as it is now: from the daemon's files to the editor's diagnostics.

`shifting` moves places with edits, `journal` keeps the edits that the daemon has not seen, `known` merges what it tells
with what is shown, `reports` is all of it in the editor's terms, `pushing` and `pulling` bring that to the editor.
"""
