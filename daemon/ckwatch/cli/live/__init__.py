"""The view of `ckwatch watch`: its state (`board`), how it looks (`view`, `messages`), and the terminal (`screen`)."""
