"""The view of `ckwatch watch`: its state (`board`), how it looks (`view`), and the terminal (`screen`)."""
