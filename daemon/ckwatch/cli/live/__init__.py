"""`ckwatch watch`: what a watcher knows (`board`), how that looks (`view`, `errors`), and the terminal (`screen`)."""
