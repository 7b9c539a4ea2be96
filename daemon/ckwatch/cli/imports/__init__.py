"""`ckwatch import`: kernel files from CK's lists of instances, templates out of Inductor's Python classes."""
